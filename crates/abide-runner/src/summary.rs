//! What came of a run.

use std::time::Duration;

use abide::workspace::{Change, diff};
use abide::{CheckpointSummary, Objects, SessionId, SessionStatus, Snapshot, TaskProgress, Usage};
use serde::Serialize;

/// The most paths that are named.
const PATHS: usize = 200;

/// The files at the beginning of a run beside those at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// How many came.
    pub created: u64,
    /// How many are otherwise.
    pub changed: u64,
    /// How many went.
    pub deleted: u64,
    /// Which, as far as they are named: `A path`, `M path`, `D path`, `R old -> new`.
    pub files: Vec<String>,
}

impl Difference {
    /// Between two snapshots; none where they cannot be compared.
    pub(crate) fn between(objects: &dyn Objects, from: &Snapshot, to: &Snapshot) -> Option<Self> {
        let mut difference = Self::default();
        for changed in diff(objects, Some(from.tree), to.tree, true).ok()? {
            let path = String::from_utf8_lossy(&changed.path);
            let (count, line) = match &changed.change {
                Change::Created => (&mut difference.created, format!("A {path}")),
                Change::Deleted => (&mut difference.deleted, format!("D {path}")),
                Change::Renamed { from } => {
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

/// How a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// Every task is done.
    Done,
    /// Every task of its scope is done, and others are not.
    ScopeDone,
    /// As many tasks as were asked for were begun.
    EnoughTasks,
    /// Tasks failed.
    Failed,
    /// Tasks are left that cannot be begun.
    Stuck,
    /// It was asked to stop.
    Stopped,
    /// Its time was up.
    TimeUp,
    /// Something else went wrong.
    Broken,
}

impl Finish {
    /// The session's status after it.
    #[must_use]
    pub const fn status(self) -> SessionStatus {
        match self {
            Self::Done => SessionStatus::Completed,
            Self::Failed => SessionStatus::Failed,
            _ => SessionStatus::Interrupted,
        }
    }
}

/// What came of a run.
#[derive(Debug, Clone, Serialize)]
pub struct RunSummary {
    /// In which session.
    pub session: SessionId,
    /// How it came to its end.
    pub finish: Finish,
    /// Why.
    pub reason: Option<String>,
    /// The tasks as they stand, those that have no parts.
    pub tasks: TaskProgress,
    /// How many agents were started.
    pub started: u64,
    /// It took so long.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
    /// Tokens and money of this run.
    pub usage: Usage,
    /// How many checkpoints the session has, and which files changed between them.
    pub checkpoints: CheckpointTotals,
    /// The files at the beginning beside those at the end.
    pub difference: Option<Difference>,
    /// The most memory that the agent's processes had.
    pub peak_rss_bytes: u64,
    /// What went wrong that did not end the run, or came up while it was closed.
    pub warnings: Vec<String>,
}

fn millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Checkpoints in sum.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CheckpointTotals {
    /// How many.
    pub total: u64,
    /// How many files changed between two of them.
    pub files: usize,
}

impl From<&CheckpointSummary> for CheckpointTotals {
    fn from(summary: &CheckpointSummary) -> Self {
        Self { total: summary.total, files: summary.files.len() }
    }
}

impl RunSummary {
    /// Did it come to its end with everything done?
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.finish == Finish::Done
    }
}
