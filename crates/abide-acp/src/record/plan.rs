//! Plans: an agent's plan as tasks of the session.
//!
//! An agent tells its whole plan each time. Its entries have no ids: each is the task of that text
//! that the plan had before, or a new one. What the plan has no more is obsolete.

use abide::{Kind, SessionState, TaskChange, TaskCreated, TaskId, TaskStatus, TaskStatusChange};

use super::batch::Batch;
use super::name::start;
use crate::protocol::{EntryStatus, PlanEntry, Priority};

/// How many tasks are remembered; the oldest obsolete ones are forgotten first.
const TASKS: usize = 4096;
/// How many entries of a plan become tasks.
const ENTRIES: usize = 1024;
/// How much of a text is its title: as much as the state of a session keeps.
const TITLE: usize = 200;
const PREFIX: &str = "plan-";

#[derive(Debug)]
struct Task {
    id: TaskId,
    title: String,
    status: TaskStatus,
    priority: i64,
}

/// The tasks of a session's plan.
#[derive(Debug, Default)]
pub(super) struct PlanTasks {
    tasks: Vec<Task>,
    /// The greatest number that a task has.
    last: u64,
}

impl PlanTasks {
    /// Goes on with the tasks that the session has.
    pub(super) fn resume(&mut self, state: &SessionState) {
        for (id, task) in state.tasks.iter() {
            let Some(number) = id.strip_prefix(PREFIX).and_then(|text| text.parse().ok()) else {
                continue;
            };
            self.last = self.last.max(number);
            if task.known {
                self.tasks.push(Task {
                    id: id.into(),
                    title: task.title.clone(),
                    status: task.status,
                    priority: task.priority,
                });
            }
        }
        let order = |task: &Task| state.tasks.get(task.id.as_str()).map(|task| task.order);
        self.tasks.sort_by_key(order);
        self.bound();
    }

    /// Records what is otherwise in a plan.
    pub(super) fn plan<'a>(
        &mut self,
        entries: impl Iterator<Item = PlanEntry<'a>>,
        batch: &mut Batch,
    ) {
        let mut taken = vec![false; self.tasks.len()];
        for entry in entries.take(ENTRIES) {
            let title = start(entry.content, TITLE);
            let at = self
                .tasks
                .iter()
                .zip(&taken)
                .position(|(task, taken)| !taken && task.title == title);
            match at {
                Some(at) => {
                    if let (Some(task), Some(taken)) = (self.tasks.get_mut(at), taken.get_mut(at)) {
                        *taken = true;
                        task.follow(&entry, batch);
                    }
                }
                None => {
                    self.create(title, &entry, batch);
                    taken.push(true);
                }
            }
        }
        for (task, taken) in self.tasks.iter_mut().zip(taken) {
            if !taken {
                task.become_(TaskStatus::Obsolete, batch);
            }
        }
        self.bound();
    }

    fn create(&mut self, title: &str, entry: &PlanEntry<'_>, batch: &mut Batch) {
        self.last = self.last.saturating_add(1);
        let mut task = Task {
            id: TaskId(format!("{PREFIX}{}", self.last)),
            title: title.to_owned(),
            status: TaskStatus::Planned,
            priority: priority(entry),
        };
        let created = TaskCreated {
            task: task.id.clone(),
            title: task.title.clone(),
            priority: task.priority,
            details: (title.len() < entry.content.len()).then(|| entry.content.to_owned()),
            ..TaskCreated::default()
        };
        batch.fact(&Kind::TASK_CREATED, None, created);
        task.become_(status(entry), batch);
        self.tasks.push(task);
    }

    fn bound(&mut self) {
        let mut over = self.tasks.len().saturating_sub(TASKS);
        self.tasks.retain(|task| {
            let forget = over > 0 && task.status == TaskStatus::Obsolete;
            over -= usize::from(forget);
            !forget
        });
    }
}

impl Task {
    fn follow(&mut self, entry: &PlanEntry<'_>, batch: &mut Batch) {
        let priority = priority(entry);
        if priority != self.priority {
            self.priority = priority;
            let change = TaskChange {
                task: self.id.clone(),
                priority: Some(priority),
                ..TaskChange::default()
            };
            batch.fact(&Kind::TASK_CHANGED, None, change);
        }
        let status = status(entry);
        if self.status == TaskStatus::Obsolete {
            // What is obsolete can only be planned anew.
            self.become_(TaskStatus::Planned, batch);
        }
        self.become_(status, batch);
    }

    fn become_(&mut self, status: TaskStatus, batch: &mut Batch) {
        if self.status != status {
            self.status = status;
            let change =
                TaskStatusChange { task: self.id.clone(), status, ..TaskStatusChange::default() };
            batch.fact(&Kind::TASK_STATUS, None, change);
        }
    }
}

fn status(entry: &PlanEntry<'_>) -> TaskStatus {
    match entry.status {
        EntryStatus::Pending => TaskStatus::Planned,
        EntryStatus::InProgress => TaskStatus::Implementing,
        EntryStatus::Completed => TaskStatus::Complete,
    }
}

fn priority(entry: &PlanEntry<'_>) -> i64 {
    match entry.priority {
        Priority::High => 1,
        Priority::Medium => 0,
        Priority::Low => -1,
    }
}
