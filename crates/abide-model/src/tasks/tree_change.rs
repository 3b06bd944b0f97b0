//! Changes to the tree, one at a time.

use super::error::TaskError;
use super::task_node::TaskNode;
use super::task_progress::ProgressTally;
use super::task_slot::{TaskIndex, TaskParts, TaskSlot};
use super::task_tree::TaskTree;
use super::tree_cycle::ProposedParent;
use crate::fact::{DependencyType, DependencyTypes, is_check};
use crate::state::TASK_TITLE;
use crate::{EventLimits, Seq, TaskCreated, TaskId, TaskStatus};

/// Dependencies that a task is to get.
struct WantedDependencies {
    depends: Vec<TaskId>,
    types: DependencyTypes,
    /// The indices of those that are not soft.
    hard: Vec<TaskIndex>,
}

impl TaskTree {
    /// Sets a status, legal or not, and returns the resulting changes of the tasks above, in the
    /// order in which they must be recorded. A task whose parts are all done is complete, or
    /// obsolete if no part is complete. A done task that gets a part that is not done is planned
    /// again. The resulting changes are applied too.
    pub fn set_status(&mut self, id: &str, status: TaskStatus) -> Vec<(TaskId, TaskStatus)> {
        let Some(at) = self.find(id) else { return Vec::new() };
        let next = self.change_status(at, status);
        self.follow_change(next)
    }

    /// Adds a task, and returns the resulting changes of the tasks above.
    pub fn insert(
        &mut self,
        created: &TaskCreated,
    ) -> Result<Vec<(TaskId, TaskStatus)>, TaskError> {
        let task = &created.task;
        let (bytes, limit) = (task.as_str().len(), EventLimits::default().name_bytes);
        if bytes == 0 || bytes > limit {
            return Err(TaskError::BadId { bytes, limit });
        }
        if self.find(task.as_str()).is_some() {
            return Err(TaskError::Exists { task: task.clone() });
        }
        let parent = created.parent.as_ref().map(|parent| {
            if parent == task {
                return Err(TaskError::Cycle { path: vec![task.clone(), task.clone()] });
            }
            let unknown =
                || TaskError::UnknownParent { task: task.clone(), parent: parent.clone() };
            self.find(parent.as_str()).ok_or_else(unknown)
        });
        let parent = parent.transpose()?;
        let wanted = self.needs(task, &created.depends, &created.dependency_types)?;
        let named = self.places.contains_key(task);
        let at = self.place_of(task);
        if let Err(refused) = self.check_new(at, parent, &wanted.hard) {
            // It was added last, and nothing refers to it.
            if !named {
                self.places.remove(task);
                self.slots.pop();
            }
            return Err(refused);
        }
        let order = self.next_order;
        self.next_order = order.saturating_add(1);
        self.known += 1;
        let node = TaskNode {
            id: task.clone(),
            known: true,
            title: clipped_task_title(&created.title),
            parent: created.parent.clone(),
            priority: created.priority,
            order,
            details: created.details.as_ref().map(|_| Seq::ZERO),
            documents: (!created.documents.is_empty()).then_some(Seq::ZERO),
            check: created.check.as_deref().is_some_and(is_check).then_some(Seq::ZERO),
            ..TaskNode::default()
        };
        let mut orphans = Vec::new();
        if let Some(slot) = self.slot_mut(at) {
            slot.node = node;
            orphans = std::mem::take(&mut slot.orphans);
        }
        self.change_links(at, wanted);
        self.attach(at, parent);
        for orphan in orphans {
            self.detach(orphan);
            self.attach(orphan, Some(at));
        }
        let next = parent.and_then(|parent| self.change_when_reopened(parent));
        Ok(self.follow_change(next))
    }

    /// Applies the changes that follow from parts and were never recorded, as after a torn write.
    /// Visits every task.
    pub fn settle(&mut self) -> Vec<(TaskId, TaskStatus)> {
        let mut follows = Vec::new();
        for at in 0..self.slots.len() {
            let open = self.slot(at).is_some_and(|slot| {
                slot.node.status == TaskStatus::Complete
                    && slot.parts.as_ref().is_some_and(|parts| parts.open() > 0)
            });
            let next =
                if open { self.change_when_reopened(at) } else { self.change_when_finished(at) };
            follows.extend(self.follow_change(next));
        }
        follows
    }

    /// Sets its dependencies and their types. Fails if one does not exist, or if tasks would wait for
    /// each other.
    pub fn set_depends(
        &mut self,
        id: &str,
        depends: &[TaskId],
        types: &DependencyTypes,
    ) -> Result<(), TaskError> {
        let at = self.place_to_change(id)?;
        let wanted = self.needs(&id.into(), depends, types)?;
        let before = self.slot(at).map(|slot| slot.needs.as_slice()).unwrap_or_default();
        let new: Vec<TaskIndex> =
            wanted.hard.iter().copied().filter(|need| !before.contains(need)).collect();
        if !new.is_empty()
            && let Some(path) = self.find_cycle(at, &new)
        {
            return Err(TaskError::Cycle { path });
        }
        self.change_links(at, wanted);
        self.change_offers(at);
        Ok(())
    }

    /// Sets its priority.
    pub fn set_priority(&mut self, id: &str, priority: i64) -> Result<(), TaskError> {
        let at = self.place_to_change(id)?;
        let Some(slot) = self.slot_mut(at) else { return Ok(()) };
        let before = slot.rank(at);
        slot.node.priority = priority;
        let (now, parent, offered) = (slot.rank(at), slot.parent, slot.offered);
        if let Some(parts) = self.parts_mut(parent) {
            parts.all.remove(&before);
            parts.all.insert(now);
            parts.ready.remove(&before);
            if offered > 0 {
                parts.ready.insert(now);
            }
        }
        Ok(())
    }

    /// Sets its title.
    pub fn set_title(&mut self, id: &str, title: &str) -> Result<(), TaskError> {
        self.change(id, |node| node.title = clipped_task_title(title))
    }

    /// Sets another system's word for its status. It is valid until the next status.
    pub fn set_foreign(&mut self, id: &str, foreign: Option<String>) -> Result<(), TaskError> {
        self.change(id, |node| node.foreign = foreign)
    }

    /// Sets the agent's own session for it.
    pub fn set_agent_session(
        &mut self,
        id: &str,
        session: Option<String>,
    ) -> Result<(), TaskError> {
        self.change(id, |node| node.agent_session = session)
    }

    /// Sets the event that created it.
    pub fn set_created(&mut self, id: &str, at: Seq) -> Result<(), TaskError> {
        self.change(id, |node| node.created = at)
    }

    /// Sets the event with its result.
    pub fn set_result(&mut self, id: &str, at: Seq) -> Result<(), TaskError> {
        self.change(id, |node| node.result = Some(at))
    }

    /// Sets the event with its description.
    pub fn set_details(&mut self, id: &str, at: Seq) -> Result<(), TaskError> {
        self.change(id, |node| node.details = Some(at))
    }

    /// Sets the event that names its documents; `None` if it has none any more.
    pub fn set_documents(&mut self, id: &str, at: Option<Seq>) -> Result<(), TaskError> {
        self.change(id, |node| node.documents = at)
    }

    /// Sets the event with its check; `None` if it has none any more.
    pub fn set_check(&mut self, id: &str, at: Option<Seq>) -> Result<(), TaskError> {
        self.change(id, |node| node.check = at)
    }

    fn change(&mut self, id: &str, change: impl FnOnce(&mut TaskNode)) -> Result<(), TaskError> {
        let at = self.place_to_change(id)?;
        if let Some(slot) = self.slot_mut(at) {
            change(&mut slot.node);
        }
        Ok(())
    }

    fn place_to_change(&self, id: &str) -> Result<TaskIndex, TaskError> {
        self.find(id).ok_or_else(|| TaskError::Unknown { task: id.into() })
    }

    /// Every changed task is accessed through this.
    pub(super) fn slot_mut(&mut self, at: TaskIndex) -> Option<&mut TaskSlot> {
        #[cfg(test)]
        {
            self.touched += 1;
        }
        self.slots.get_mut(at)
    }

    /// The parts of a task that has some; without a task, the roots.
    fn parts_mut(&mut self, of: Option<TaskIndex>) -> Option<&mut TaskParts> {
        match of {
            None => Some(&mut self.top),
            Some(at) => self.slot_mut(at)?.parts.as_deref_mut(),
        }
    }

    /// Normalises dependencies: each once, ordered by id.
    fn needs(
        &self,
        task: &TaskId,
        depends: &[TaskId],
        types: &DependencyTypes,
    ) -> Result<WantedDependencies, TaskError> {
        let mut depends = depends.to_vec();
        depends.sort();
        depends.dedup();
        if depends.contains(task) {
            return Err(TaskError::Cycle { path: vec![task.clone(), task.clone()] });
        }
        let place = |dependency: &TaskId| {
            self.find(dependency.as_str()).ok_or_else(|| TaskError::UnknownDependency {
                task: task.clone(),
                dependency: dependency.clone(),
            })
        };
        let types = types.among(&depends);
        let mut hard = Vec::with_capacity(depends.len());
        for dependency in &depends {
            let need = place(dependency)?;
            if types.of(dependency) != DependencyType::Soft {
                hard.push(need);
            }
        }
        Ok(WantedDependencies { depends, types, hard })
    }

    /// Would a new task wait for itself? If it was named before it existed, tasks may already
    /// depend on it or be part of it.
    fn check_new(
        &self,
        at: TaskIndex,
        parent: Option<TaskIndex>,
        needs: &[TaskIndex],
    ) -> Result<(), TaskError> {
        let named = self
            .slot(at)
            .is_some_and(|slot| !slot.needed_by.is_empty() || !slot.orphans.is_empty());
        if needs.is_empty() && !named {
            return Ok(());
        }
        let wish = parent.map(|parent| ProposedParent { part: at, parent });
        let under = parent.filter(|_| named);
        self.find_cycle_with(at, needs, under, wish)
            .map_or(Ok(()), |path| Err(TaskError::Cycle { path }))
    }

    fn change_links(&mut self, at: TaskIndex, wanted: WantedDependencies) {
        let WantedDependencies { depends, types, hard: needs } = wanted;
        let before =
            self.slot_mut(at).map(|slot| std::mem::take(&mut slot.needs)).unwrap_or_default();
        for gone in before.iter().filter(|need| !needs.contains(need)) {
            if let Some(slot) = self.slot_mut(*gone) {
                slot.needed_by.retain(|by| *by != at);
            }
        }
        for need in needs.iter().filter(|need| !before.contains(need)) {
            if let Some(slot) = self.slot_mut(*need) {
                slot.needed_by.push(at);
            }
        }
        if let Some(slot) = self.slot_mut(at) {
            slot.node.depends = depends;
            slot.node.dependency_types = types;
        }
        let waits = self.held_by(at, &needs).count();
        if let Some(slot) = self.slot_mut(at) {
            slot.needs = needs;
            slot.waits = waits;
        }
    }

    /// Attaches a detached task.
    fn attach(&mut self, at: TaskIndex, parent: Option<TaskIndex>) {
        if let Some(parent) = parent {
            self.make_inner(parent);
        }
        let Some(slot) = self.slot_mut(at) else { return };
        slot.parent = parent;
        slot.offered = 0;
        let (rank, status, tally) = (slot.rank(at), slot.node.status, slot.tally());
        if let Some(parts) = self.parts_mut(parent) {
            parts.all.insert(rank);
            parts.count(None, Some(status));
        }
        self.change_tallies(parent, &tally, &ProgressTally::default());
        self.change_offers(at);
        if let Some(parent) = parent {
            self.change_offers(parent);
        }
    }

    /// Detaches a root.
    fn detach(&mut self, at: TaskIndex) {
        let Some(slot) = self.slot_mut(at) else { return };
        let (rank, status, tally) = (slot.rank(at), slot.node.status, slot.tally());
        let offered = std::mem::take(&mut slot.offered);
        self.top.all.remove(&rank);
        self.top.count(Some(status), None);
        self.top.offer(rank, offered, 0);
        self.top.tally.change(&ProgressTally::default(), &tally);
    }

    /// Turns a leaf into a task with parts, because it gets its first part.
    fn make_inner(&mut self, at: TaskIndex) {
        let Some(slot) = self.slot_mut(at).filter(|slot| slot.parts.is_none()) else { return };
        let (tally, parent) = (slot.tally(), slot.parent);
        slot.parts = Some(Box::default());
        self.change_tallies(parent, &ProgressTally::default(), &tally);
        self.change_offers(at);
    }

    /// Adjusts the leaf counts of `from` and of every task above it.
    fn change_tallies(
        &mut self,
        from: Option<TaskIndex>,
        come: &ProgressTally,
        go: &ProgressTally,
    ) {
        let mut at = from;
        while let Some(here) = at {
            let Some(slot) = self.slot_mut(here) else { break };
            if let Some(parts) = &mut slot.parts {
                parts.tally.change(come, go);
            }
            at = slot.parent;
        }
        self.top.tally.change(come, go);
    }

    /// Updates the ready tasks of this task and of every task above it, as far as they change.
    fn change_offers(&mut self, at: TaskIndex) {
        let mut here = Some(at);
        while let Some(at) = here {
            let Some(slot) = self.slot_mut(at) else { return };
            let (was, now) = (slot.offered, slot.offers());
            if was == now {
                return;
            }
            slot.offered = now;
            let rank = slot.rank(at);
            here = slot.parent;
            if let Some(parts) = self.parts_mut(here) {
                parts.offer(rank, was, now);
            }
        }
    }

    /// Applies a resulting change, and those that result from it.
    fn follow_change(
        &mut self,
        next: Option<(TaskIndex, TaskStatus)>,
    ) -> Vec<(TaskId, TaskStatus)> {
        let mut next = next;
        let mut follows = Vec::new();
        while let Some((at, status)) = next {
            if let Some(slot) = self.slot(at) {
                follows.push((slot.node.id.clone(), status));
            }
            next = self.change_status(at, status);
        }
        follows
    }

    /// Applies one status and returns the resulting change of the task above.
    fn change_status(&mut self, at: TaskIndex, now: TaskStatus) -> Option<(TaskIndex, TaskStatus)> {
        let slot = self.slot_mut(at)?;
        let was = slot.node.status;
        slot.node.attempts += u64::from(now.begins_after(was));
        slot.node.failures += u64::from(now.fails_after(was));
        slot.node.status = now;
        slot.node.foreign = None;
        let (parent, is_leaf) = (slot.parent, slot.parts.is_none());
        if is_leaf && was != now {
            self.change_tallies(parent, &ProgressTally::one(now), &ProgressTally::one(was));
        }
        if was != now && (was.is_done() || now.is_done()) {
            let (id, waiting) = self
                .slot(at)
                .map(|slot| (slot.node.id.clone(), slot.needed_by.clone()))
                .unwrap_or_default();
            for by in waiting {
                let kind = self.slot(by).map(|slot| slot.node.dependency_types.of(&id));
                let kind = kind.unwrap_or_default();
                let (met, meets) = (kind.is_met_by(Some(was)), kind.is_met_by(Some(now)));
                if met == meets {
                    continue;
                }
                if let Some(slot) = self.slot_mut(by) {
                    slot.waits = if meets { slot.waits.saturating_sub(1) } else { slot.waits + 1 };
                }
                self.change_offers(by);
            }
        }
        self.change_offers(at);
        let parts = self.parts_mut(parent)?;
        parts.count(Some(was), Some(now));
        let parent = parent?;
        match (was.is_done(), now.is_done()) {
            (_, true) => self.change_when_finished(parent),
            (true, false) => self.change_when_reopened(parent),
            (false, false) => None,
        }
    }

    /// The resulting change now that a part of it is done.
    fn change_when_finished(&self, at: TaskIndex) -> Option<(TaskIndex, TaskStatus)> {
        let slot = self.slot(at).filter(|slot| !slot.lost_part)?;
        let parts = slot.parts.as_ref()?;
        let over = parts.open() == 0 && !slot.node.status.is_done();
        let complete = parts.complete > 0;
        over.then_some((at, if complete { TaskStatus::Complete } else { TaskStatus::Obsolete }))
    }

    /// The resulting change now that a part of it is not done.
    fn change_when_reopened(&self, at: TaskIndex) -> Option<(TaskIndex, TaskStatus)> {
        let slot = self.slot(at).filter(|slot| !slot.lost_part)?;
        slot.node.status.is_done().then_some((at, TaskStatus::Planned))
    }
}

fn clipped_task_title(title: &str) -> String {
    title.chars().take(TASK_TITLE).collect()
}
