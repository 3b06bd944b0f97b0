//! Plans: an agent's plan becomes tasks of the session.
//!
//! An agent sends its whole plan each time. Entries have no ids: an entry is the task with the same
//! text in the previous plan, or a new task. A task that is no longer in the plan becomes obsolete.

use abide::{
    Kind, SessionState, TaskStatus,
    secrets::Redactor,
    tasks::{TaskChange, TaskCreated, TaskId, TaskStatusChange},
};

use super::name::start_of_name;
use super::record_batch::RecordBatch;
use super::redacted_text::redacted;
use crate::protocol::{EntryStatus, PlanUpdateEntry, Priority};

/// The most tasks remembered; the oldest obsolete ones are forgotten first.
const TASKS: usize = 4096;
/// The most entries of a plan that become tasks.
const ENTRIES: usize = 1024;
/// The most characters of a title: as many as the state of a session keeps.
const TITLE: usize = 200;
const PREFIX: &str = "plan-";

#[derive(Debug)]
struct PlanTask {
    id: TaskId,
    title: String,
    status: TaskStatus,
    priority: i64,
}

/// The tasks of a session's plan.
#[derive(Debug, Default)]
pub(super) struct PlanTasks {
    tasks: Vec<PlanTask>,
    /// The highest task number.
    last: u64,
    redactor: Option<Redactor>,
}

impl PlanTasks {
    /// Titles are told and compared without the secrets that this redactor finds: so they are in a session's state.
    pub(super) fn redact_with(&mut self, redactor: Option<Redactor>) {
        self.redactor = redactor;
    }

    /// Continues with the tasks that the session has.
    pub(super) fn resume(&mut self, state: &SessionState) {
        for (id, task) in state.tasks.iter() {
            let Some(number) = id.strip_prefix(PREFIX).and_then(|text| text.parse().ok()) else {
                continue;
            };
            self.last = self.last.max(number);
            if task.known {
                self.tasks.push(PlanTask {
                    id: id.into(),
                    title: task.title.clone(),
                    status: task.status,
                    priority: task.priority,
                });
            }
        }
        let order = |task: &PlanTask| state.tasks.get(task.id.as_str()).map(|task| task.order);
        self.tasks.sort_by_key(order);
        self.bound();
    }

    /// Records the changes in a plan.
    pub(super) fn plan<'a>(
        &mut self,
        entries: impl Iterator<Item = PlanUpdateEntry<'a>>,
        batch: &mut RecordBatch,
    ) {
        let redactor = self.redactor.clone();
        let mut taken = vec![false; self.tasks.len()];
        for entry in entries.take(ENTRIES) {
            let content = redacted(redactor.as_ref(), entry.content);
            let title = start_of_name(&content, TITLE);
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
                    self.create(title, &content, &entry, batch);
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

    fn create(
        &mut self,
        title: &str,
        content: &str,
        entry: &PlanUpdateEntry<'_>,
        batch: &mut RecordBatch,
    ) {
        self.last = self.last.saturating_add(1);
        let mut task = PlanTask {
            id: TaskId(format!("{PREFIX}{}", self.last)),
            title: title.to_owned(),
            status: TaskStatus::Planned,
            priority: plan_entry_priority(entry),
        };
        let created = TaskCreated {
            task: task.id.clone(),
            title: task.title.clone(),
            priority: task.priority,
            details: (title.len() < content.len()).then(|| content.to_owned()),
            ..TaskCreated::default()
        };
        batch.fact(&Kind::TASK_CREATED, None, created);
        task.become_(plan_entry_status(entry), batch);
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

impl PlanTask {
    fn follow(&mut self, entry: &PlanUpdateEntry<'_>, batch: &mut RecordBatch) {
        let priority = plan_entry_priority(entry);
        if priority != self.priority {
            self.priority = priority;
            let change = TaskChange {
                task: self.id.clone(),
                priority: Some(priority),
                ..TaskChange::default()
            };
            batch.fact(&Kind::TASK_CHANGED, None, change);
        }
        let status = plan_entry_status(entry);
        // A complete task can only become obsolete, and an obsolete one planned.
        if self.status == TaskStatus::Complete && status != TaskStatus::Complete {
            self.become_(TaskStatus::Obsolete, batch);
        }
        if self.status == TaskStatus::Obsolete {
            self.become_(TaskStatus::Planned, batch);
        }
        self.become_(status, batch);
    }

    fn become_(&mut self, status: TaskStatus, batch: &mut RecordBatch) {
        if self.status != status {
            self.status = status;
            let change =
                TaskStatusChange { task: self.id.clone(), status, ..TaskStatusChange::default() };
            batch.fact(&Kind::TASK_STATUS, None, change);
        }
    }
}

fn plan_entry_status(entry: &PlanUpdateEntry<'_>) -> TaskStatus {
    match entry.status {
        EntryStatus::Pending => TaskStatus::Planned,
        EntryStatus::InProgress => TaskStatus::Implementing,
        EntryStatus::Completed => TaskStatus::Complete,
    }
}

fn plan_entry_priority(entry: &PlanUpdateEntry<'_>) -> i64 {
    match entry.priority {
        Priority::High => 1,
        Priority::Medium => 0,
        Priority::Low => -1,
    }
}
