//! `missing-dependency`: a task depends on a task that was never created.

use super::bounded_findings::{BoundedFindings, joined, short};
use super::task_list::CreatedTasks;
use super::{LiveEvent, ValidationRule};
use crate::{
    Finding, FindingPlace, FindingType, Kind, Repair, RepairCommand, SessionState, Severity, TaskId,
};

/// The `missing-dependency` rule.
#[derive(Debug, Default)]
pub(super) struct MissingDependencyRule {
    /// The creation of a task was erased; it may be the missing one.
    erased: bool,
}

impl ValidationRule for MissingDependencyRule {
    fn event(&mut self, seen: &LiveEvent<'_>) {
        self.erased |= seen.event.kind == Kind::TASK_CREATED && seen.event.data.is_none();
    }

    fn finish(&mut self, state: &SessionState, findings: &mut Vec<Finding>) {
        let severity = if self.erased { Severity::Warning } else { Severity::Error };
        let mut few = BoundedFindings::new("missing-dependency", FindingType::Referential);
        let list = CreatedTasks::new(state);
        for (id, task) in &list.tasks {
            let missing: Vec<&TaskId> =
                task.depends.iter().filter(|id| list.place(id).is_none()).collect();
            if missing.is_empty() {
                continue;
            }
            let mut arguments: Vec<String> =
                missing.iter().map(|id| format!("--off={id}")).collect();
            arguments.extend(["--".to_owned(), (*id).to_owned()]);
            let command = RepairCommand::of_tasks("depend", arguments.iter().map(String::as_str));
            let (id, names) = (short(id), joined(missing.iter().map(|id| id.as_str())));
            few.add(
                severity,
                FindingPlace::subject(format!("task {id}")).of_event(task.created),
                format!("task {id} depends on tasks that were never created: {names}"),
                Repair::by_hand(format!("add them, or let {id} not depend on them"))
                    .with_commands(command),
            );
        }
        few.finish(findings);
    }
}
