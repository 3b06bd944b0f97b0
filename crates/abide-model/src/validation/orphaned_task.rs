//! `orphaned-task`: a task is part of a task that was never created.

use std::collections::HashSet;

use super::bounded_findings::{BoundedFindings, short};
use super::task_list::CreatedTasks;
use super::{LiveEvent, ValidationRule};
use crate::{
    Finding, FindingPlace, FindingType, Kind, Repair, RepairCommand, SessionState, Severity,
};

/// The `orphaned-task` rule.
#[derive(Debug, Default)]
pub(super) struct OrphanedTaskRule {
    /// The creation of a task was erased; it may be the missing one.
    erased: bool,
}

impl ValidationRule for OrphanedTaskRule {
    fn event(&mut self, seen: &LiveEvent<'_>) {
        self.erased |= seen.event.kind == Kind::TASK_CREATED && seen.event.data.is_none();
    }

    fn finish(&mut self, state: &SessionState, findings: &mut Vec<Finding>) {
        let severity = if self.erased { Severity::Warning } else { Severity::Error };
        let mut few = BoundedFindings::new("orphaned-task", FindingType::Referential);
        let list = CreatedTasks::new(state);
        let mut added = HashSet::new();
        for (id, task) in &list.tasks {
            let Some(parent) = task.parent.as_ref().filter(|id| list.place(id).is_none()) else {
                continue;
            };
            // One command for all parts of the same task.
            let id_option = format!("--id={parent}");
            let command = added
                .insert(parent)
                .then(|| RepairCommand::of_tasks("add", [&*id_option, "--", parent.as_str()]));
            let (id, parent) = (short(id), short(parent.as_str()));
            few.add(
                severity,
                FindingPlace::subject(format!("task {id}")).of_event(task.created),
                format!("task {id} is part of {parent}, which was never created"),
                Repair::by_hand(format!("add the task {parent}")).with_commands(command.flatten()),
            );
        }
        few.finish(findings);
    }
}
