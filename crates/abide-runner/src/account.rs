//! What the journal knows about a task: its description, and what was done so far.

use std::collections::HashSet;

use abide::{
    Event, EventRange, Kind, Seq, Session, TaskStatus,
    context::{
        Context, ContextEntry, ExtractiveSummarizer, RecordedResult, Summarizer, SummaryRequest,
    },
    event::{Fact, Usage},
    message::RecordedMessage,
    tasks::{TaskId, TaskNode},
};

use crate::RunError;
use crate::prompt::TaskBriefing;

/// The most events that an account is made from.
const EVENTS: usize = 2000;
/// The most tokens of an account.
const TOKENS: u64 = 2500;
/// The most events searched for a task's last attempt.
pub(crate) const LOOK: usize = 20_000;

/// The task's details, documents and check.
pub(crate) fn told(
    session: &Session,
    node: &TaskNode,
    check: Option<&str>,
) -> Result<TaskBriefing, RunError> {
    let mut told = TaskBriefing::default();
    if let Some(seq) = node.details {
        told.details = match event(session, seq)?.and_then(|event| event.fact().ok()) {
            Some(Fact::TaskCreated(fact)) => fact.details,
            Some(Fact::TaskChanged(fact)) => fact.details,
            _ => None,
        };
    }
    told.documents = session.view().documents_of(node)?;
    told.check = check.map(str::to_owned);
    Ok(told)
}

fn event(session: &Session, seq: Seq) -> Result<Option<Event>, RunError> {
    let range = EventRange { first: seq, last: seq, ..EventRange::ALL };
    Ok(session.view().page(range)?.events.pop())
}

/// The reason that was given when a task last got this status.
pub(crate) fn last_reason(
    session: &Session,
    task: &TaskId,
    status: TaskStatus,
) -> Result<Option<String>, RunError> {
    for event in session.view().events(EventRange::ALL.backward()).take(LOOK) {
        let event = event?;
        if event.kind == Kind::TASK_STATUS
            && let Ok(Fact::TaskStatus(fact)) = event.fact()
            && fact.task == *task
            && fact.status == status
        {
            return Ok(fact.reason);
        }
    }
    Ok(None)
}

/// The recorded usage of the agent's own session, over all its work.
pub(crate) fn used(session: &Session, task: &TaskId, own: &str) -> Result<Usage, RunError> {
    let mut used = Usage::default();
    for event in session.view().events(EventRange::ALL.backward()).take(LOOK) {
        let event = event?;
        if event.task.as_ref() != Some(task) {
            continue;
        }
        match event.fact() {
            Ok(Fact::Usage(fact)) => used.add(&fact.usage),
            // Earlier events belong to another session of the agent's.
            Ok(Fact::AgentObserved(seen)) if seen.session.as_deref().is_some_and(|s| s != own) => {
                break;
            }
            _ => {}
        }
    }
    Ok(used)
}

/// A short account of what was done of a task; `None` if nothing was said.
pub(crate) fn account(session: &Session, task: &TaskId) -> Result<Option<String>, RunError> {
    let mut entries = Vec::new();
    let mut files = Vec::new();
    let backward = EventRange::ALL.backward();
    for event in session.view().events(backward).take(LOOK) {
        let event = event?;
        if event.task.as_ref() != Some(task) {
            continue;
        }
        if event.kind == Kind::FILE_TOUCHED {
            if let Ok(Fact::FileTouched(fact)) = event.fact() {
                files.push(fact.path);
            }
        } else if event.kind == Kind::TOOL_CALLED || event.kind == Kind::TOOL_FINISHED {
            entries.extend(executed(&event));
        } else if event.kind == Kind::MESSAGE_ADDED
            && let Some(message) = event.data.as_ref().and_then(RecordedMessage::of)
        {
            // The prompt itself is left out: it is in the new one anyway.
            if !is_prompt(&message) {
                entries.push(ContextEntry::Message { seq: event.seq, message: message.into() });
            }
        } else if event.kind == Kind::TASK_CREATED {
            break;
        }
        if entries.len() >= EVENTS {
            break;
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    entries.reverse();
    each_call_once(&mut entries);
    files.dedup();
    let context = Context { entries, ..Context::default() };
    let request =
        SummaryRequest { context: &context, most_tokens: TOKENS, tasks: &[], files: &files };
    Ok(ExtractiveSummarizer.summarize(&request).ok().filter(|account| !account.trim().is_empty()))
}

/// An executed call or its result.
fn executed(event: &Event) -> Option<ContextEntry> {
    let (seq, data) = (event.seq, event.data.clone()?);
    match event.fact().ok()? {
        Fact::ToolCall(fact) => Some(ContextEntry::Call { seq, call: fact.call, data }),
        Fact::ToolResult(fact) => {
            let result = RecordedResult::Executed(data);
            Some(ContextEntry::Result { seq, call: fact.call, result })
        }
        _ => None,
    }
}

/// Removes calls that are also in a message.
fn each_call_once(entries: &mut Vec<ContextEntry>) {
    let held: HashSet<String> = entries
        .iter()
        .filter_map(|entry| match entry {
            ContextEntry::Message { message, .. } => Some(message),
            _ => None,
        })
        .flat_map(|message| &message.pieces)
        .filter_map(|piece| Some(piece.call()?.id.clone()))
        .collect();
    entries.retain(|entry| match entry {
        ContextEntry::Call { call, .. } => !held.contains(call.as_str()),
        _ => true,
    });
}

/// Whether it is a plain text of the user, as prompts are.
fn is_prompt(message: &RecordedMessage) -> bool {
    message.role == "user" && message.pieces.iter().all(|piece| piece.raw.is_none())
}
