//! The fold of task facts. Keeps readiness and progress current with each change.

use super::apply::clip_state_text;
use super::session_core::add_to_core_count;
use super::{SessionState, TaskState};
use crate::fact::{
    AgentObservation, DependencyTypes, TaskChange, TaskCreated, TaskStatus, TaskStatusChange,
    is_check,
};
use crate::{Anomaly, Event, TaskId};

/// Maximum length of a title in a state, in characters.
pub(crate) const TASK_TITLE: usize = 200;

impl SessionState {
    pub(super) fn task_created(&mut self, event: &Event, fact: &TaskCreated) -> Option<Anomaly> {
        let id = fact.task.as_str();
        if self.tasks.get(id).is_some_and(|task| task.known) {
            return Some(Anomaly::DuplicateTask);
        }
        let order = self.core.tasks.total;
        add_to_core_count(&mut self.core.tasks.total, 1);
        add_to_core_count(self.core.tasks.by_status.entry(TaskStatus::Planned).or_default(), 1);
        let parent = fact.parent.clone().filter(|parent| *parent != fact.task);
        self.change_task(id, |task| {
            task.known = true;
            task.title = fact.title.chars().take(TASK_TITLE).collect();
            task.parent.clone_from(&parent);
            task.order = order;
            task.priority = fact.priority;
            task.created = event.seq;
            task.changed = event.seq;
            task.details = fact.details.as_ref().map(|_| event.seq);
            task.documents = (!fact.documents.is_empty()).then_some(event.seq);
            task.check = fact.check.as_deref().is_some_and(is_check).then_some(event.seq);
        });
        if let Some(parent) = &parent {
            self.change_task(parent.as_str(), |task| add_to_core_count(&mut task.children.0, 1));
        }
        let depends = self.set_task_dependencies(&fact.task, &fact.depends, &fact.dependency_types);
        let odd_parent = fact.parent.as_ref().is_some_and(|parent| *parent == fact.task);
        (odd_parent || depends.is_some()).then_some(Anomaly::SelfDependency)
    }

    pub(super) fn task_changed(&mut self, event: &Event, fact: &TaskChange) -> Option<Anomaly> {
        let id = fact.task.as_str();
        if !self.tasks.get(id).is_some_and(|task| task.known) {
            return Some(Anomaly::UnknownTask);
        }
        self.change_task(id, |task| {
            if let Some(title) = &fact.title {
                task.title = title.chars().take(TASK_TITLE).collect();
            }
            task.priority = fact.priority.unwrap_or(task.priority);
            task.changed = event.seq;
            if fact.details.is_some() {
                task.details = Some(event.seq);
            }
            if let Some(documents) = &fact.documents {
                task.documents = (!documents.is_empty()).then_some(event.seq);
            }
            if let Some(check) = &fact.check {
                task.check = is_check(check).then_some(event.seq);
            }
        });
        let types = &fact.dependency_types;
        fact.depends
            .as_ref()
            .and_then(|depends| self.set_task_dependencies(&fact.task, depends, types))
    }

    pub(super) fn task_status(
        &mut self,
        event: &Event,
        fact: &TaskStatusChange,
    ) -> Option<Anomaly> {
        let id = fact.task.as_str();
        let Some(before) = self.tasks.get(id).filter(|task| task.known).cloned() else {
            return Some(Anomaly::UnknownTask);
        };
        let (was, now) = (before.status, fact.status);
        // It is kept as an event, and the task stays as it is.
        if !now.may_follow_with_parts(was, before.children) {
            return Some(Anomaly::IllegalTransition);
        }
        let begun = now.begins_after(was);
        self.change_task(id, |task| {
            task.status = now;
            task.foreign.clone_from(&fact.foreign);
            task.changed = event.seq;
            add_to_core_count(&mut task.attempts, u64::from(begun));
            add_to_core_count(&mut task.failures, u64::from(now.fails_after(was)));
            if fact.result.is_some() {
                task.result = Some(event.seq);
            }
        });
        if begun {
            self.core.tasks.active = Some(fact.task.clone());
        }
        let counts = &mut self.core.tasks.by_status;
        if let Some(count) = counts.get_mut(&was) {
            *count = count.saturating_sub(1);
        }
        counts.retain(|_, count| *count > 0);
        add_to_core_count(counts.entry(now).or_default(), 1);
        if was.is_done() != now.is_done() {
            let step = |count: u64| {
                if now.is_done() { count.saturating_add(1) } else { count.saturating_sub(1) }
            };
            if let Some(parent) = &before.parent {
                self.change_task(parent.as_str(), |task| task.children.1 = step(task.children.1));
            }
        }
        if was.is_done() || now.is_done() {
            for dependent in &before.dependents {
                let dependent = dependent.as_str();
                let kind =
                    self.tasks.get(dependent).map(|task| task.dependency_types.of(&fact.task));
                let kind = kind.unwrap_or_default();
                match (kind.is_met_by(Some(was)), kind.is_met_by(Some(now))) {
                    (false, true) => self
                        .change_task(dependent, |task| task.waits = task.waits.saturating_sub(1)),
                    (true, false) => {
                        self.change_task(dependent, |task| add_to_core_count(&mut task.waits, 1));
                    }
                    _ => {}
                }
            }
        }
        None
    }

    /// Records the agent's own session for a task.
    pub(super) fn observe_task_agent(&mut self, event: &Event, fact: AgentObservation) {
        let Some(task) = &event.task else { return };
        if self.tasks.get(task.as_str()).is_some_and(|task| task.known)
            && let Some(session) = fact.session.map(clip_state_text)
        {
            self.change_task(task.as_str(), |task| task.agent_session = Some(session));
        }
    }

    /// The tasks that a fact about this one affects: itself, its parent, and what waits for it.
    pub(super) fn task_neighbours(&self, task: &TaskId) -> Vec<TaskId> {
        let mut names = vec![task.clone()];
        if let Some(state) = self.tasks.get(task.as_str()) {
            names.extend(state.parent.iter().cloned());
            names.extend(state.dependents.iter().cloned());
            names.extend(state.depends.iter().cloned());
        }
        names
    }

    fn set_task_dependencies(
        &mut self,
        id: &TaskId,
        depends: &[TaskId],
        types: &DependencyTypes,
    ) -> Option<Anomaly> {
        let mut wanted = depends.to_vec();
        wanted.sort();
        wanted.dedup();
        let own = wanted.iter().position(|depend| depend == id);
        if let Some(own) = own {
            wanted.remove(own);
        }
        let before =
            self.tasks.get(id.as_str()).map(|task| task.depends.clone()).unwrap_or_default();
        for gone in before.iter().filter(|depend| wanted.binary_search(depend).is_err()) {
            self.change_task(gone.as_str(), |task| task.dependents.retain(|name| name != id));
        }
        // Both are sorted: an event may name very many.
        for new in wanted.iter().filter(|depend| before.binary_search(depend).is_err()) {
            self.change_task(new.as_str(), |task| task.dependents.push(id.clone()));
        }
        let types = types.among(&wanted);
        let open = |depend: &&TaskId| {
            let task = self.tasks.get(depend.as_str()).filter(|task| task.known);
            !types.of(depend).is_met_by(task.map(|task| task.status))
        };
        let waits = wanted.iter().filter(open).count() as u64;
        let edges = &mut self.core.tasks.dependencies;
        *edges = edges.saturating_sub(before.len() as u64).saturating_add(wanted.len() as u64);
        self.change_task(id.as_str(), |task| {
            task.depends = wanted;
            task.dependency_types = types;
            task.waits = waits;
        });
        own.map(|_| Anomaly::SelfDependency)
    }

    /// Changes a task and updates the number of ready tasks.
    fn change_task(&mut self, id: &str, change: impl FnOnce(&mut TaskState)) {
        let mut ready = self.core.tasks.ready;
        self.tasks.update(id, |task| {
            ready -= u64::from(task.is_ready()).min(ready);
            change(task);
            ready += u64::from(task.is_ready());
        });
        self.core.tasks.ready = ready;
    }
}
