//! The summary of a run.

use std::time::Duration;

use abide::workspace::{ChangeKind, diff};
use abide::{
    SessionId, SessionStatus,
    backend::Objects,
    checkpoint::{CheckpointSummary, Snapshot},
    event::Usage,
    tasks::{TaskId, TaskProgress},
};
use serde::Serialize;

use crate::limits::LimitUse;

/// The most paths listed.
const PATHS: usize = 200;

/// How the files at the end of a run differ from those at its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SummaryDifference {
    /// Files created.
    pub created: u64,
    /// Files changed.
    pub changed: u64,
    /// Files deleted.
    pub deleted: u64,
    /// The first of them: `A path`, `M path`, `D path`, `R old -> new`.
    pub files: Vec<String>,
}

impl SummaryDifference {
    /// The difference between two snapshots; `None` if they cannot be compared.
    pub(crate) fn between(objects: &dyn Objects, from: &Snapshot, to: &Snapshot) -> Option<Self> {
        let mut difference = Self::default();
        for changed in diff(objects, Some(from.tree), to.tree, true).ok()? {
            let path = String::from_utf8_lossy(&changed.path);
            let (count, line) = match &changed.change {
                ChangeKind::Created => (&mut difference.created, format!("A {path}")),
                ChangeKind::Deleted => (&mut difference.deleted, format!("D {path}")),
                ChangeKind::Renamed { from } => {
                    let from = String::from_utf8_lossy(from);
                    (&mut difference.changed, format!("R {from} -> {path}"))
                }
                _ => (&mut difference.changed, format!("M {path}")),
            };
            *count += 1;
            if difference.files.len() < PATHS {
                difference.files.push(line);
            }
        }
        Some(difference)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunFinish {
    /// Every task is done.
    Done,
    /// The agent of a conversation has ended; the session is as it was.
    Ended,
    /// Every task in its scope is done, but others are not.
    ScopeDone,
    /// The most tasks allowed were started.
    EnoughTasks,
    /// Tasks failed.
    Failed,
    /// Tasks are left that cannot be started.
    Stuck,
    /// It was asked to stop.
    Stopped,
    /// The time limit was reached.
    TimeUp,
    /// Another limit was reached: cost, tokens or memory.
    LimitReached,
    /// An error ended it.
    Broken,
}

impl RunFinish {
    /// The session's status after the run.
    #[must_use]
    pub const fn status(self) -> SessionStatus {
        match self {
            Self::Done => SessionStatus::Completed,
            Self::Failed => SessionStatus::Failed,
            _ => SessionStatus::Interrupted,
        }
    }
}

/// The summary of a run.
#[derive(Debug, Clone, Serialize)]
pub struct RunSummary {
    /// Its session.
    pub session: SessionId,
    /// How it ended.
    pub finish: RunFinish,
    /// The reason for it.
    pub reason: Option<String>,
    /// The progress of tasks without parts.
    pub tasks: TaskProgress,
    /// How many agents were started.
    pub started: u64,
    /// How long it took.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
    /// Tokens and cost of this run.
    pub usage: Usage,
    /// What was used, by task, in the order in which their first agents ended.
    pub used: Vec<TaskUse>,
    /// The limits of this run, and what was used of them.
    pub limits: Vec<LimitUse>,
    /// How many checkpoints the session has, and how many files changed between them.
    pub checkpoints: RunCheckpointTotals,
    /// How the files at the end differ from those at the beginning.
    pub difference: Option<SummaryDifference>,
    /// The peak memory of the agents' processes.
    pub peak_rss_bytes: u64,
    /// Problems that did not end the run, or came up while it was closed.
    pub warnings: Vec<String>,
}

/// What was used for a task in a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TaskUse {
    /// The task; `None` is the conversation.
    pub task: Option<TaskId>,
    /// The agent's program.
    pub agent: String,
    /// How many agents were started for it.
    pub attempts: u64,
    /// How long its agents and checks took.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
    /// Tokens and cost, as far as the agent reports them.
    pub usage: Usage,
    /// The peak memory of its processes; 0 if they ended before it was sampled.
    pub peak_rss_bytes: u64,
}

fn millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Totals over all checkpoints.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RunCheckpointTotals {
    /// How many checkpoints.
    pub total: u64,
    /// How many files changed between them.
    pub files: usize,
}

impl From<&CheckpointSummary> for RunCheckpointTotals {
    fn from(summary: &CheckpointSummary) -> Self {
        Self { total: summary.total, files: summary.files.len() }
    }
}

impl RunSummary {
    /// Whether the run ended with everything done.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.finish == RunFinish::Done
    }
}
