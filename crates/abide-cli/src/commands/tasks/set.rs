//! `abide tasks set`: changes the status and other fields of tasks.

use abide::{
    TaskStatus,
    tasks::{TaskChange, TaskId, TaskStatusChange},
};
use serde_json::value::RawValue;

use super::writing;
use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::session_args::SessionOption;

/// Set the status of tasks, or other properties of one
///
/// A status is one of planned, researching, implementing, retrying, complete, failed, blocked,
/// obsolete. All changes are recorded in one durable write; if one of them is invalid, nothing is
/// recorded. A task with parts becomes complete when all of them are done.
#[derive(Debug, clap::Args)]
#[command(override_usage = "abide tasks set [OPTIONS] ID [STATUS]\n       \
                            abide tasks set [OPTIONS] ID=STATUS...")]
pub(crate) struct TasksSetArgs {
    /// A task and its status, or several as ID=STATUS
    #[arg(value_name = "ID", required = true)]
    what: Vec<String>,
    #[command(flatten)]
    session: SessionOption,
    /// Reason for the change
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Result of the task: JSON, or text
    #[arg(long, value_name = "JSON|TEXT")]
    result: Option<String>,
    /// What to do, in one line
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Priority; a higher number goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i64>,
    /// What to do, in detail
    #[arg(long, value_name = "TEXT")]
    details: Option<String>,
    /// Path or URL of a document for the task; the given documents replace all earlier ones
    #[arg(long, value_name = "PATH")]
    document: Vec<String>,
    /// Shell command that decides whether the task is done; '' removes it
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Print {"items":…,"writes_saved":…,"tasks":[…]}
    #[arg(long)]
    json: bool,
}

/// Parses a status.
pub(super) fn parse_task_status(text: &str) -> Result<TaskStatus, String> {
    let found = TaskStatus::ALL.into_iter().find(|status| status.as_str() == text);
    found.ok_or_else(|| {
        let names: Vec<_> = TaskStatus::ALL.iter().map(|status| status.as_str()).collect();
        format!("invalid status {text:?} (one of: {})", names.join(", "))
    })
}

/// The named tasks with their statuses.
fn task_status_pairs(what: &[String]) -> Result<Vec<(TaskId, Option<TaskStatus>)>, CommandError> {
    let status = |text: &str| parse_task_status(text).map_err(CommandError::Usage);
    match what {
        [id, to] if !id.contains('=') && !to.contains('=') => {
            Ok(vec![(id.as_str().into(), Some(status(to)?))])
        }
        [id] if !id.contains('=') => Ok(vec![(id.as_str().into(), None)]),
        many => many
            .iter()
            .map(|one| {
                let (id, to) = one.rsplit_once('=').ok_or_else(|| {
                    CommandError::Usage(format!("expected ID=STATUS, not {one:?}"))
                })?;
                Ok((id.into(), Some(status(to)?)))
            })
            .collect(),
    }
}

impl TasksSetArgs {
    fn changes_more(&self) -> bool {
        self.title.is_some()
            || self.priority.is_some()
            || self.details.is_some()
            || !self.document.is_empty()
            || self.check.is_some()
    }

    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let pairs = task_status_pairs(&self.what)?;
        if !self.changes_more() && pairs.iter().any(|(_, to)| to.is_none()) {
            return Err(CommandError::Usage(
                "nothing to change: give a status, --title, --priority, --details, --document or --check"
                    .to_owned(),
            ));
        }
        let result = self.result.as_deref().map(as_json);
        let mut tasks = writing::open_session_tasks(&self.session, surroundings)?;
        for (task, to) in pairs {
            if self.changes_more() {
                tasks.change(TaskChange {
                    task: task.clone(),
                    title: self.title.clone(),
                    priority: self.priority,
                    details: self.details.clone(),
                    documents: Some(self.document.clone()).filter(|all| !all.is_empty()),
                    check: self.check.clone(),
                    ..TaskChange::default()
                })?;
            }
            if let Some(to) = to {
                tasks.set(TaskStatusChange {
                    task,
                    status: to,
                    foreign: None,
                    reason: self.reason.clone(),
                    result: result.clone(),
                })?;
            }
        }
        writing::write_tasks(tasks, self.json)
    }
}

/// JSON is kept as it is; any other text becomes a JSON string.
fn as_json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned())
        .or_else(|_| RawValue::from_string(serde_json::Value::from(text).to_string()))
        .unwrap_or_else(|_| RawValue::NULL.to_owned())
}
