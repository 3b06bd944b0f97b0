//! Builds the tree from the tasks of a state.

use super::task_node::TaskNode;
use super::task_progress::ProgressTally;
use super::task_slot::{TaskIndex, TaskSlot};
use super::task_tree::TaskTree;
use crate::{StateTable, TaskState};

/// The state of a task in the search for cycles of parents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ParentWalkState {
    New,
    /// Visited on the way up from this task.
    From(TaskIndex),
    Settled,
}

impl TaskTree {
    /// The tree of a state's tasks.
    #[must_use]
    pub fn of(tasks: &StateTable<TaskState>) -> Self {
        let mut all: Vec<(&str, &TaskState)> = tasks.iter().collect();
        // Existing tasks in the order of creation, then those that are only named.
        all.sort_unstable_by_key(|(id, task)| (!task.known, task.order, *id));
        let mut tree = Self::default();
        tree.slots.reserve(all.len());
        tree.places.reserve(all.len());
        for (id, task) in all {
            let at = tree.slots.len();
            let node = TaskNode::of(id, task);
            tree.known += usize::from(node.known);
            if node.known {
                tree.next_order = tree.next_order.max(node.order.saturating_add(1));
            }
            tree.places.insert(node.id.clone(), at);
            tree.slots.push(TaskSlot { node, ..TaskSlot::default() });
        }
        tree.build_parents();
        tree.build_links();
        tree.build_counts();
        tree
    }

    /// The index of a task, which is added if it is only named so far.
    pub(super) fn place_of(&mut self, id: &crate::TaskId) -> TaskIndex {
        if let Some(at) = self.places.get(id.as_str()) {
            return *at;
        }
        let at = self.slots.len();
        let node = TaskNode { id: id.clone(), ..TaskNode::default() };
        self.slots.push(TaskSlot { node, ..TaskSlot::default() });
        self.places.insert(id.clone(), at);
        at
    }

    /// Attaches every task to its parent. In a cycle of parents, the task created first becomes a
    /// root.
    fn build_parents(&mut self) {
        for at in 0..self.slots.len() {
            let parent = self
                .slots
                .get(at)
                .and_then(|slot| slot.node.parent.clone().filter(|_| slot.node.known));
            let parent = parent.map(|parent| self.place_of(&parent)).filter(|to| *to != at);
            let known = parent.and_then(|to| self.slot(to)).is_some_and(|slot| slot.node.known);
            if let Some(to) = parent.filter(|_| !known).and_then(|to| self.slots.get_mut(to)) {
                to.orphans.push(at);
            }
            if let Some(slot) = self.slots.get_mut(at) {
                slot.parent = parent.filter(|_| known);
            }
        }
        let mut ways = vec![ParentWalkState::New; self.slots.len()];
        for start in 0..self.slots.len() {
            let mut at = Some(start);
            while let Some(here) = at {
                match ways.get(here) {
                    Some(ParentWalkState::New) => {
                        if let Some(way) = ways.get_mut(here) {
                            *way = ParentWalkState::From(start);
                        }
                        at = self.slot(here).and_then(|slot| slot.parent);
                    }
                    Some(ParentWalkState::From(from)) if *from == start => {
                        self.cut_circle(here);
                        break;
                    }
                    _ => break,
                }
            }
            let mut at = Some(start);
            while let Some(here) = at {
                match ways.get_mut(here) {
                    Some(way) if *way == ParentWalkState::From(start) => {
                        *way = ParentWalkState::Settled
                    }
                    _ => break,
                }
                at = self.slot(here).and_then(|slot| slot.parent);
            }
        }
    }

    /// Breaks the cycle of parents that contains `at`.
    fn cut_circle(&mut self, at: TaskIndex) {
        let mut first = at;
        let mut here = self.slot(at).and_then(|slot| slot.parent);
        // Indices are in the order of creation.
        while let Some(next) = here.filter(|next| *next != at) {
            first = first.min(next);
            here = self.slot(next).and_then(|slot| slot.parent);
        }
        let above = self.slots.get_mut(first).and_then(|slot| slot.parent.take());
        if let Some(slot) = above.and_then(|above| self.slots.get_mut(above)) {
            slot.lost_part = true;
        }
    }

    /// Links every task with what it depends on.
    fn build_links(&mut self) {
        for at in 0..self.slots.len() {
            let depends = self.slots.get(at).map(|slot| slot.node.hard_depends());
            let needs: Vec<TaskIndex> =
                depends.unwrap_or_default().iter().map(|id| self.place_of(id)).collect();
            for need in &needs {
                if let Some(slot) = self.slots.get_mut(*need) {
                    slot.needed_by.push(at);
                }
            }
            let waits = self.held_by(at, &needs).count();
            if let Some(slot) = self.slots.get_mut(at) {
                slot.needs = needs;
                slot.waits = waits;
            }
        }
    }

    /// Computes the counts over parts, from the leaves up.
    fn build_counts(&mut self) {
        let mut parts = vec![Vec::new(); self.slots.len()];
        let mut order: Vec<TaskIndex> = Vec::with_capacity(self.slots.len());
        for (at, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.node.known) {
            match slot.parent {
                None => order.push(at),
                Some(parent) => {
                    if let Some(parts) = parts.get_mut(parent) {
                        parts.push(at);
                    }
                }
            }
        }
        let mut next = 0;
        while let Some(at) = order.get(next) {
            next += 1;
            if let Some(parts) = parts.get_mut(*at) {
                order.append(parts);
            }
        }
        for at in order.into_iter().rev() {
            let Some(slot) = self.slots.get_mut(at) else { continue };
            slot.offered = slot.offers();
            let (parent, rank, status) = (slot.parent, slot.rank(at), slot.node.status);
            let (offered, tally) = (slot.offered, slot.tally());
            let parts = match parent.and_then(|parent| self.slots.get_mut(parent)) {
                Some(slot) => slot.parts.get_or_insert_default(),
                None => &mut self.top,
            };
            parts.all.insert(rank);
            parts.count(None, Some(status));
            parts.offer(rank, 0, offered);
            parts.tally.change(&tally, &ProgressTally::default());
        }
    }
}
