//! Opens a session's tasks for changing, and prints what was written.

use std::sync::Arc;

use abide::{
    NewEvent, SessionRef, TaskStatus,
    event::Fact,
    tasks::{SessionTasks, TaskId},
};
use abide_transcript::escape;
use serde::Serialize;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::error::CommandError;
use crate::session_args::{SessionOption, SessionPurpose};

/// Opens the tasks of the session.
pub(super) fn open_session_tasks(
    session: &SessionOption,
    surroundings: &CommandContext,
) -> Result<SessionTasks, CommandError> {
    let opened = surroundings.open_store()?;
    let id = session.find(SessionPurpose::Write, &opened, surroundings)?;
    let session = opened.store.open_session(&SessionRef::Id(id))?;
    Ok(SessionTasks::open(Arc::new(session))?)
}

/// What a command wrote about one task.
#[derive(Debug, Serialize)]
struct WrittenTask {
    task: TaskId,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<TaskStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip)]
    what: &'static str,
}

#[derive(Serialize)]
struct WrittenTasks<'a> {
    items: u64,
    writes_saved: u64,
    tasks: &'a [WrittenTask],
}

fn written_task(event: &NewEvent) -> Option<WrittenTask> {
    match Fact::decode(&event.kind, &event.data).ok()? {
        Fact::TaskCreated(fact) => Some(WrittenTask {
            task: fact.task,
            status: Some(TaskStatus::Planned),
            reason: None,
            what: "created",
        }),
        Fact::TaskChanged(fact) => {
            Some(WrittenTask { task: fact.task, status: None, reason: None, what: "changed" })
        }
        Fact::TaskStatus(fact) => Some(WrittenTask {
            task: fact.task,
            status: Some(fact.status),
            reason: fact.reason,
            what: fact.status.as_str(),
        }),
        _ => None,
    }
}

/// Writes the pending changes and prints them.
pub(super) fn write_tasks(mut tasks: SessionTasks, json: bool) -> Result<(), CommandError> {
    let mut lines = Vec::new();
    let flushed = tasks.flush_and(|event| lines.extend(written_task(event)))?;
    if let Some(session) = Arc::into_inner(tasks.into_session()) {
        session.close()?;
    }
    let mut out = CommandOutput::stdout();
    if json {
        let (items, writes_saved) = (flushed.items, flushed.writes_saved);
        let written = WrittenTasks { items, writes_saved, tasks: &lines };
        out.json(&serde_json::to_string(&written).unwrap_or_default())?;
    } else {
        for line in &lines {
            let reason = line.reason.as_ref().map(|reason| format!(": {reason}"));
            let text = format!("{} {}{}", line.task, line.what, reason.unwrap_or_default());
            out.line(escape::text(&text))?;
        }
    }
    out.flush()?;
    status(format_args!(
        "{} {} recorded; writes saved: {}",
        flushed.items,
        if flushed.items == 1 { "event" } else { "events" },
        flushed.writes_saved
    ));
    Ok(())
}
