//! Detects tasks that would wait for each other.
//!
//! Every task has a start and an end. The start waits for the start of the task it is part of and
//! for the end of what it depends on. The end of a leaf waits for its start, the end of any other
//! task for the ends of its parts. Tasks wait for each other if this forms a cycle. Hence a task
//! cannot depend on a task it is part of, nor on its own parts.
//!
//! The search runs from both ends at once and stops when one of them is exhausted, so that for a
//! new task, on which nothing depends yet, it only visits the tasks above.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::task_slot::TaskIndex;
use super::task_tree::TaskTree;
use crate::TaskId;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum CycleMoment {
    Begin(TaskIndex),
    End(TaskIndex),
}

impl CycleMoment {
    const fn at(self) -> TaskIndex {
        match self {
            Self::Begin(at) | Self::End(at) => at,
        }
    }
}

/// A task that would become part of another.
#[derive(Clone, Copy)]
pub(super) struct ProposedParent {
    pub(super) part: TaskIndex,
    pub(super) parent: TaskIndex,
}

/// One side of the search: what it visited, from where, and what is left to visit.
#[derive(Default)]
struct CycleFrontier {
    from: HashMap<CycleMoment, Option<CycleMoment>>,
    open: VecDeque<CycleMoment>,
}

impl CycleFrontier {
    fn see(&mut self, moment: CycleMoment, from: Option<CycleMoment>) {
        if let Entry::Vacant(vacant) = self.from.entry(moment) {
            vacant.insert(from);
            self.open.push_back(moment);
        }
    }

    /// The path from here back to the start of this side.
    fn way(&self, from: CycleMoment) -> impl Iterator<Item = CycleMoment> {
        std::iter::successors(Some(from), |moment| self.from.get(moment).copied().flatten())
    }
}

impl TaskTree {
    /// The path from `task` through one of `needs` back to itself, if there is one.
    pub(super) fn find_cycle(&self, task: TaskIndex, needs: &[TaskIndex]) -> Option<Vec<TaskId>> {
        self.find_cycle_with(task, needs, None, None)
    }

    /// Like `circle`, or through the start of the task it would be part of; treats `wish`
    /// as already done.
    pub(super) fn find_cycle_with(
        &self,
        task: TaskIndex,
        needs: &[TaskIndex],
        under: Option<TaskIndex>,
        wish: Option<ProposedParent>,
    ) -> Option<Vec<TaskId>> {
        let (mut ahead, mut back) = (CycleFrontier::default(), CycleFrontier::default());
        let ends = needs.iter().map(|need| CycleMoment::End(*need));
        for moment in ends.chain(under.map(CycleMoment::Begin)) {
            ahead.see(moment, None);
        }
        back.see(CycleMoment::Begin(task), None);
        loop {
            let moment = ahead.open.pop_front()?;
            for next in self.waits_on(moment, wish) {
                ahead.see(next, Some(moment));
                if back.from.contains_key(&next) {
                    return Some(self.cycle_path(task, &ahead, &back, next));
                }
            }
            let moment = back.open.pop_front()?;
            if ahead.from.contains_key(&moment) {
                return Some(self.cycle_path(task, &ahead, &back, moment));
            }
            for next in self.waited_on_by(moment, wish) {
                back.see(next, Some(moment));
                if ahead.from.contains_key(&next) {
                    return Some(self.cycle_path(task, &ahead, &back, next));
                }
            }
        }
    }

    fn cycle_path(
        &self,
        task: TaskIndex,
        ahead: &CycleFrontier,
        back: &CycleFrontier,
        meet: CycleMoment,
    ) -> Vec<TaskId> {
        let mut way: Vec<TaskIndex> = ahead.way(meet).map(CycleMoment::at).collect();
        way.push(task);
        way.reverse();
        way.extend(back.way(meet).map(CycleMoment::at));
        way.dedup();
        if way.len() == 1 {
            way.push(task);
        }
        way.iter().filter_map(|at| self.slot(*at)).map(|slot| slot.node.id.clone()).collect()
    }

    fn parts_of(&self, at: TaskIndex, wish: Option<ProposedParent>) -> Vec<TaskIndex> {
        let Some(slot) = self.slot(at) else { return Vec::new() };
        let parts = slot.parts.iter().flat_map(|parts| &parts.all).map(|(_, _, part)| *part);
        let wished = wish.filter(|wish| wish.parent == at).map(|wish| wish.part);
        parts.chain(slot.orphans.iter().copied()).chain(wished).collect()
    }

    fn parent_of(&self, at: TaskIndex, wish: Option<ProposedParent>) -> Option<TaskIndex> {
        let wished = wish.filter(|wish| wish.part == at).map(|wish| wish.parent);
        let slot = self.slot(at)?;
        // A task recorded as part of one that does not exist yet.
        let named = || {
            let parent = *self.places.get(slot.node.parent.as_ref()?.as_str())?;
            self.slot(parent).filter(|slot| !slot.node.known).map(|_| parent)
        };
        wished.or(slot.parent).or_else(named)
    }

    /// What must come before.
    fn waits_on(&self, moment: CycleMoment, wish: Option<ProposedParent>) -> Vec<CycleMoment> {
        match moment {
            CycleMoment::Begin(at) => {
                let needs = self.slot(at).map(|slot| slot.needs.as_slice()).unwrap_or_default();
                let parent = self.parent_of(at, wish).map(CycleMoment::Begin);
                needs.iter().map(|need| CycleMoment::End(*need)).chain(parent).collect()
            }
            CycleMoment::End(at) => {
                let parts = self.parts_of(at, wish);
                if parts.is_empty() {
                    return vec![CycleMoment::Begin(at)];
                }
                parts.into_iter().map(CycleMoment::End).collect()
            }
        }
    }

    /// What can only come after.
    fn waited_on_by(&self, moment: CycleMoment, wish: Option<ProposedParent>) -> Vec<CycleMoment> {
        match moment {
            CycleMoment::Begin(at) => {
                let parts = self.parts_of(at, wish);
                if parts.is_empty() {
                    return vec![CycleMoment::End(at)];
                }
                parts.into_iter().map(CycleMoment::Begin).collect()
            }
            CycleMoment::End(at) => {
                let waiting = self.slot(at).map(|slot| slot.needed_by.as_slice());
                let waiting = waiting.unwrap_or_default().iter().map(|by| CycleMoment::Begin(*by));
                waiting.chain(self.parent_of(at, wish).map(CycleMoment::End)).collect()
            }
        }
    }
}
