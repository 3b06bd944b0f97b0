//! Queries on the tree.

use std::collections::{HashMap, HashSet, btree_set};

use super::error::TaskError;
use super::task_node::TaskNode;
use super::task_progress::TaskProgress;
use super::task_slot::{SiblingRank, TaskIndex, TaskParts, TaskSlot};
use crate::{TaskId, TaskStatus};

/// The tasks of a session: their parts, their dependencies, and what can be started.
#[derive(Debug, Clone, Default)]
pub struct TaskTree {
    pub(super) slots: Vec<TaskSlot>,
    pub(super) places: HashMap<TaskId, TaskIndex>,
    /// The roots.
    pub(super) top: TaskParts,
    /// The number of tasks that exist, without those that are only named.
    pub(super) known: usize,
    /// The position of the next task in the order of creation.
    pub(super) next_order: u64,
    /// How many tasks were changed, for a test of the cost of a change.
    #[cfg(test)]
    pub(super) touched: u64,
}

impl TaskTree {
    /// The number of tasks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.known
    }

    /// Is it empty?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.known == 0
    }

    /// The task with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&TaskNode> {
        self.find(id).and_then(|at| self.node(at))
    }

    /// The roots in order: by priority, then by creation.
    pub fn roots(&self) -> impl Iterator<Item = &TaskNode> {
        self.nodes(self.top.all.iter())
    }

    /// The parts of a task, in order.
    pub fn children(&self, id: &str) -> impl Iterator<Item = &TaskNode> {
        let parts = self.find(id).and_then(|at| self.slot(at)?.parts.as_ref());
        self.nodes(parts.map(|parts| parts.all.iter()).unwrap_or_default())
    }

    /// Every task of the scope with its depth, depth first, in order. The scope itself comes first,
    /// at depth 0.
    pub fn walk(&self, scope: Option<&TaskId>) -> impl Iterator<Item = (&TaskNode, usize)> {
        let start = scope.and_then(|scope| self.slot(self.find(scope.as_str())?));
        let below = match (scope, start) {
            (None, _) => Some(&self.top),
            (Some(_), start) => start.and_then(|slot| slot.parts.as_deref()),
        };
        let below =
            TreeDescendants::new(self, below.map(|parts| parts.all.iter()), |parts| &parts.all);
        let deeper = usize::from(scope.is_some());
        let first = start.map(|slot| (&slot.node, 0));
        first.into_iter().chain(below.map(move |(slot, depth)| (&slot.node, depth + deeper)))
    }

    /// The tasks of the scope that can be started now, in order: planned leaves, where neither they
    /// nor any task above them wait for anything, and no task above them is failed, blocked or
    /// obsolete. Finding the first one costs the depth of the tree.
    pub fn ready(&self, scope: Option<&TaskId>) -> impl Iterator<Item = &TaskNode> {
        let start = scope.and_then(|scope| self.find(scope.as_str()));
        let start = start.filter(|at| self.may_begin_under(*at)).and_then(|at| self.slot(at));
        let offers = start.filter(|slot| slot.offers() > 0);
        let below = match scope {
            None => Some(&self.top),
            Some(_) => offers.and_then(|slot| slot.parts.as_deref()),
        };
        let leaf = offers.filter(|slot| slot.parts.is_none()).map(|slot| &slot.node);
        let below =
            TreeDescendants::new(self, below.map(|parts| parts.ready.iter()), |parts| &parts.ready);
        let below = below.filter(|(slot, _)| slot.parts.is_none()).map(|(slot, _)| &slot.node);
        leaf.into_iter().chain(below)
    }

    /// Does it have no parts?
    #[must_use]
    pub fn is_leaf(&self, id: &str) -> bool {
        self.find(id).and_then(|at| self.slot(at)).is_some_and(|slot| slot.parts.is_none())
    }

    /// The titles from the root down to the task itself.
    #[must_use]
    pub fn title_path(&self, id: &str) -> Vec<&str> {
        let mut path: Vec<_> =
            self.upward(self.find(id)).map(|(_, slot)| slot.node.title.as_str()).collect();
        path.reverse();
        path
    }

    /// The task, then what it is a part of, up to the root.
    pub fn ancestry(&self, id: &str) -> impl Iterator<Item = &TaskNode> {
        self.upward(self.find(id)).map(|(_, slot)| &slot.node)
    }

    /// Is it the scope, or part of it at any depth?
    #[must_use]
    pub fn contains(&self, scope: &TaskId, id: &str) -> bool {
        let scope = self.find(scope.as_str());
        scope.is_some() && self.upward(self.find(id)).any(|(at, _)| Some(at) == scope)
    }

    /// The progress of the scope.
    #[must_use]
    pub fn progress(&self, scope: Option<&TaskId>) -> TaskProgress {
        let Some(scope) = scope else {
            return self.top.tally.progress(self.top.offered);
        };
        let Some((at, slot)) =
            self.find(scope.as_str()).and_then(|at| self.slot(at).map(|slot| (at, slot)))
        else {
            return TaskProgress::default();
        };
        let ready = if self.may_begin_under(at) { slot.offers() } else { 0 };
        slot.tally().progress(ready)
    }

    /// Why it is not ready: what it and the tasks above it wait for, including tasks that were never
    /// created.
    #[must_use]
    pub fn waits_for(&self, id: &str) -> Vec<&TaskNode> {
        let mut seen = HashSet::new();
        let mut open = Vec::new();
        for (at, slot) in self.upward(self.find(id)).filter(|(_, slot)| slot.waits > 0) {
            for need in self.held_by(at, &slot.needs) {
                if seen.insert(&need.id) {
                    open.push(need);
                }
            }
        }
        open
    }

    /// Its own dependencies that keep it from starting.
    #[must_use]
    pub fn own_waits_for(&self, id: &str) -> Vec<&TaskNode> {
        let Some(at) = self.find(id) else { return Vec::new() };
        let slot = self.slot(at).filter(|slot| slot.waits > 0);
        slot.map(|slot| self.held_by(at, &slot.needs).collect()).unwrap_or_default()
    }

    /// Does it, or a task above it, wait for something?
    #[must_use]
    pub fn is_waiting(&self, id: &str) -> bool {
        self.upward(self.find(id)).any(|(_, slot)| slot.waits > 0)
    }

    /// The tasks that directly depend on it, except softly.
    pub fn dependents(&self, id: &str) -> impl Iterator<Item = &TaskNode> {
        let slot = self.find(id).and_then(|at| self.slot(at));
        slot.into_iter().flat_map(|slot| &slot.needed_by).filter_map(|at| self.node(*at))
    }

    /// May it get this status? What follows for the tasks above is always legal.
    pub fn check_status(&self, id: &str, status: TaskStatus) -> Result<(), TaskError> {
        let slot = self.find(id).and_then(|at| self.slot(at));
        let slot = slot.ok_or_else(|| TaskError::Unknown { task: id.into() })?;
        let (task, from) = (slot.node.id.clone(), slot.node.status);
        let parts = slot.parts.as_ref();
        let counts = parts.map_or((0, 0), |parts| (parts.all.len() as u64, parts.done));
        if let Some(parts) = parts.filter(|parts| parts.open() > 0)
            && status == TaskStatus::Complete
            && from != TaskStatus::Complete
        {
            let first = self.nodes(parts.all.iter()).find(|part| !part.is_done());
            let first = first.map(|part| part.id.clone()).unwrap_or_default();
            return Err(TaskError::OpenParts { task, open: parts.open(), first });
        }
        if !status.may_follow_with_parts(from, counts) {
            return Err(TaskError::IllegalTransition { task, from, to: status });
        }
        Ok(())
    }

    /// A task that exists.
    pub(super) fn find(&self, id: &str) -> Option<TaskIndex> {
        let at = *self.places.get(id)?;
        self.slot(at).filter(|slot| slot.node.known).map(|_| at)
    }

    pub(super) fn slot(&self, at: TaskIndex) -> Option<&TaskSlot> {
        self.slots.get(at)
    }

    fn node(&self, at: TaskIndex) -> Option<&TaskNode> {
        self.slot(at).map(|slot| &slot.node)
    }

    /// Those of `needs` that keep a task from starting.
    pub(super) fn held_by<'a>(
        &'a self,
        at: TaskIndex,
        needs: &'a [TaskIndex],
    ) -> impl Iterator<Item = &'a TaskNode> {
        let task = self.node(at);
        let needs = needs.iter().filter_map(|need| self.node(*need));
        needs.filter(move |need| task.is_some_and(|task| task.is_held_by(need)))
    }

    fn nodes<'a>(
        &'a self,
        ranks: btree_set::Iter<'a, SiblingRank>,
    ) -> impl Iterator<Item = &'a TaskNode> + use<'a> {
        ranks.filter_map(|(_, _, at)| self.node(*at))
    }

    /// A task and the tasks above it, upwards.
    pub(super) fn upward(
        &self,
        at: Option<TaskIndex>,
    ) -> impl Iterator<Item = (TaskIndex, &TaskSlot)> {
        let with_slot = |at: TaskIndex| self.slot(at).map(|slot| (at, slot));
        std::iter::successors(at.and_then(with_slot), move |(_, slot)| {
            slot.parent.and_then(with_slot)
        })
    }

    /// Do the tasks above it allow it to start?
    fn may_begin_under(&self, at: TaskIndex) -> bool {
        self.upward(Some(at)).skip(1).all(|(_, slot)| slot.lets_begin())
    }
}

/// Walks down from parts to their parts.
struct TreeDescendants<'a> {
    tree: &'a TaskTree,
    way: Vec<btree_set::Iter<'a, SiblingRank>>,
    below: fn(&TaskParts) -> &std::collections::BTreeSet<SiblingRank>,
}

impl<'a> TreeDescendants<'a> {
    fn new(
        tree: &'a TaskTree,
        start: Option<btree_set::Iter<'a, SiblingRank>>,
        below: fn(&TaskParts) -> &std::collections::BTreeSet<SiblingRank>,
    ) -> Self {
        Self { tree, way: start.into_iter().collect(), below }
    }
}

impl<'a> Iterator for TreeDescendants<'a> {
    type Item = (&'a TaskSlot, usize);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((_, _, at)) = self.way.last_mut()?.next() else {
                self.way.pop();
                continue;
            };
            let depth = self.way.len() - 1;
            let slot = self.tree.slot(*at)?;
            if let Some(parts) = &slot.parts {
                self.way.push((self.below)(parts).iter());
            }
            return Some((slot, depth));
        }
    }
}
