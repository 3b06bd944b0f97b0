//! `task-status`: a task is ahead of its parts or of its dependencies.

use std::collections::HashMap;

use super::bounded_findings::{BoundedFindings, joined, short};
use super::task_list::CreatedTasks;
use super::{LiveEvent, ValidationRule};
use crate::{
    Finding, FindingPlace, FindingType, Repair, SessionState, Severity, TaskId, TaskState,
    TaskStatus,
};

/// The `task-status` rule.
#[derive(Debug)]
pub(super) struct TaskStatusRule;

impl ValidationRule for TaskStatusRule {
    fn event(&mut self, _: &LiveEvent<'_>) {}

    fn finish(&mut self, state: &SessionState, findings: &mut Vec<Finding>) {
        let mut few = BoundedFindings::new("task-status", FindingType::BusinessLogic);
        let list = CreatedTasks::new(state);
        let mut open_parts: HashMap<&str, Vec<&str>> = HashMap::new();
        for (id, task) in &list.tasks {
            if let Some(parent) = task.parent.as_ref().filter(|_| !task.status.is_done()) {
                open_parts.entry(parent.as_str()).or_default().push(id);
            }
        }
        // Tasks that were never created are left to another rule.
        let waits = |of: &TaskState, id: &TaskId| {
            let need = list.place(id).and_then(|place| list.tasks.get(place));
            need.is_some_and(|(_, need)| !of.dependency_types.of(id).is_met_by(Some(need.status)))
        };
        for (id, task) in &list.tasks {
            let place =
                || FindingPlace::subject(format!("task {}", short(id))).of_event(task.changed);
            let parts = open_parts.get(id).filter(|_| task.status == TaskStatus::Complete);
            if let Some(parts) = parts {
                let (id, parts) = (short(id), joined(parts.iter().copied()));
                few.add(
                    Severity::Warning,
                    place(),
                    format!("task {id} is complete, but these parts of it are not: {parts}"),
                    Repair::by_hand("complete the parts, or make them obsolete"),
                );
            }
            let begun = match task.status {
                TaskStatus::Complete => "complete",
                TaskStatus::Implementing | TaskStatus::Retrying => "in progress",
                _ => continue,
            };
            let open: Vec<&TaskId> = task.depends.iter().filter(|id| waits(task, id)).collect();
            if !open.is_empty() {
                let (id, open) = (short(id), joined(open.iter().map(|id| id.as_str())));
                few.add(
                    Severity::Warning,
                    place(),
                    format!("task {id} is {begun}, but depends on incomplete tasks: {open}"),
                    Repair::by_hand("complete its dependencies, or remove them"),
                );
            }
        }
        few.finish(findings);
    }
}
