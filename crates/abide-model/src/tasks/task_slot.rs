//! A task and its links in the tree.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::task_node::TaskNode;
use super::task_progress::ProgressTally;
use crate::TaskStatus;

/// The index of a task in the tree's list.
pub(super) type TaskIndex = usize;

/// The order among the parts of a task: by priority, then by creation.
pub(super) type SiblingRank = (Reverse<i64>, u64, TaskIndex);

/// A task and its neighbours.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskSlot {
    pub(super) node: TaskNode,
    /// The task it is attached to. `None` if the recorded parent does not exist or is part of this
    /// task.
    pub(super) parent: Option<TaskIndex>,
    /// What it depends on, except softly: nothing waits for that.
    pub(super) needs: Vec<TaskIndex>,
    /// What depends on it, except softly.
    pub(super) needed_by: Vec<TaskIndex>,
    /// How many of `needs` keep it from starting.
    pub(super) waits: usize,
    /// How many leaves its parent may count as ready: itself, or those of its parts.
    pub(super) offered: u64,
    /// `None` for a leaf.
    pub(super) parts: Option<Box<TaskParts>>,
    /// A recorded part of it stands above it, since its parents form a cycle. Nothing follows for it from
    /// its parts.
    pub(super) lost_part: bool,
    /// Tasks recorded as its parts while it does not exist.
    pub(super) orphans: Vec<TaskIndex>,
}

/// The parts of a task in order, and counts over them.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskParts {
    pub(super) all: BTreeSet<SiblingRank>,
    /// Parts that are ready or have something ready below.
    pub(super) ready: BTreeSet<SiblingRank>,
    /// How many ready leaves they have together.
    pub(super) offered: u64,
    /// How many of them are done.
    pub(super) done: u64,
    /// How many of those are complete.
    pub(super) complete: u64,
    /// The leaves below.
    pub(super) tally: ProgressTally,
}

impl TaskSlot {
    pub(super) const fn rank(&self, at: TaskIndex) -> SiblingRank {
        (Reverse(self.node.priority), self.node.order, at)
    }

    /// May its parts start, as far as this task is concerned?
    pub(super) const fn lets_begin(&self) -> bool {
        let held = matches!(
            self.node.status,
            TaskStatus::Failed | TaskStatus::Blocked | TaskStatus::Obsolete
        );
        self.waits == 0 && !held
    }

    /// How many ready leaves its parent may count, as far as this task is concerned.
    pub(super) fn offers(&self) -> u64 {
        match &self.parts {
            Some(parts) if self.lets_begin() => parts.offered,
            Some(_) => 0,
            None => u64::from(
                self.node.known && self.waits == 0 && self.node.status == TaskStatus::Planned,
            ),
        }
    }

    /// The leaves it is or has.
    pub(super) fn tally(&self) -> ProgressTally {
        self.parts
            .as_ref()
            .map_or_else(|| ProgressTally::one(self.node.status), |parts| parts.tally)
    }
}

impl TaskParts {
    /// How many parts are not done.
    pub(super) fn open(&self) -> u64 {
        (self.all.len() as u64).saturating_sub(self.done)
    }

    /// Updates the counts when a part's status changes; `None` for a part that is added or removed.
    pub(super) fn count(&mut self, was: Option<TaskStatus>, now: Option<TaskStatus>) {
        let done = |status: Option<TaskStatus>| u64::from(status.is_some_and(TaskStatus::is_done));
        let complete = |status| u64::from(status == Some(TaskStatus::Complete));
        self.done = (self.done + done(now)).saturating_sub(done(was));
        self.complete = (self.complete + complete(now)).saturating_sub(complete(was));
    }

    /// Updates the ready leaves when a part had `was` of them and now has `now`.
    pub(super) fn offer(&mut self, rank: SiblingRank, was: u64, now: u64) {
        self.offered = (self.offered + now).saturating_sub(was);
        if now == 0 {
            self.ready.remove(&rank);
        } else if was == 0 {
            self.ready.insert(rank);
        }
    }
}
