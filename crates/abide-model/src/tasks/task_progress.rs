//! Progress: counts of leaves, kept for every task that has parts.

use serde::Serialize;

use crate::TaskStatus;

/// The progress of a scope. Only tasks without parts count; the others are done when their parts
/// are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TaskProgress {
    /// All tasks.
    pub all: u64,
    /// Complete.
    pub complete: u64,
    /// No longer needed.
    pub obsolete: u64,
    /// Failed.
    pub failed: u64,
    /// Blocked.
    pub blocked: u64,
    /// In progress.
    pub active: u64,
    /// Not started, including ready ones.
    pub planned: u64,
    /// Can be started now.
    pub ready: u64,
}

impl TaskProgress {
    /// Complete or no longer needed.
    #[must_use]
    pub const fn done(&self) -> u64 {
        self.complete + self.obsolete
    }
}

/// The number of leaves with each status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ProgressTally([u64; TaskStatus::ALL.len()]);

impl ProgressTally {
    /// One leaf.
    pub(super) fn one(status: TaskStatus) -> Self {
        let mut tally = Self::default();
        if let Some(count) = tally.0.get_mut(status as usize) {
            *count = 1;
        }
        tally
    }

    /// Adds `come` and subtracts `go`.
    pub(super) fn change(&mut self, come: &Self, go: &Self) {
        for ((count, come), go) in self.0.iter_mut().zip(come.0).zip(go.0) {
            *count = (*count + come).saturating_sub(go);
        }
    }

    fn of(&self, status: TaskStatus) -> u64 {
        self.0.get(status as usize).copied().unwrap_or(0)
    }

    pub(super) fn progress(&self, ready: u64) -> TaskProgress {
        let active = TaskStatus::ALL.into_iter().filter(|status| status.is_active());
        TaskProgress {
            all: self.0.iter().sum(),
            complete: self.of(TaskStatus::Complete),
            obsolete: self.of(TaskStatus::Obsolete),
            failed: self.of(TaskStatus::Failed),
            blocked: self.of(TaskStatus::Blocked),
            active: active.map(|status| self.of(status)).sum(),
            planned: self.of(TaskStatus::Planned),
            ready,
        }
    }
}
