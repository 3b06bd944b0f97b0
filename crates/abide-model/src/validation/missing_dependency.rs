//! `missing-dependency`: a task depends on a task that was never created.

use std::collections::HashSet;

use super::bounded_findings::{BoundedFindings, joined, short};
use super::task_list::CreatedTasks;
use super::{LiveEvent, ValidationRule};
use crate::{
    Finding, FindingPlace, FindingType, Kind, Repair, RepairCommand, SessionState, Severity, TaskId,
};

/// The most dependencies that a command removes; a longer line may be too long for a system. They
/// are removed together, because what stays must be there.
const NAMED: usize = 500;

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
        let parents: HashSet<&TaskId> =
            list.tasks.iter().filter_map(|(_, task)| task.parent.as_ref()).collect();
        for (id, task) in &list.tasks {
            let missing: Vec<&TaskId> =
                task.depends.iter().filter(|id| list.place(id).is_none()).collect();
            if missing.is_empty() {
                continue;
            }
            // The repair of an orphaned task adds its parent.
            let gone: Vec<&TaskId> =
                missing.iter().copied().filter(|id| !parents.contains(id)).collect();
            let is_short = !gone.is_empty() && gone.len() <= NAMED;
            let command = is_short.then(|| removal_command(id, &gone));
            let (id, names) = (short(id), joined(missing.iter().map(|id| id.as_str())));
            few.add(
                severity,
                FindingPlace::subject(format!("task {id}")).of_event(task.created),
                format!("task {id} depends on tasks that were never created: {names}"),
                Repair::by_hand(format!("remove these dependencies of {id}, or add the tasks"))
                    .with_commands(command),
            );
        }
        few.finish(findings);
    }
}

fn removal_command(task: &str, gone: &[&TaskId]) -> RepairCommand {
    let mut arguments: Vec<String> = gone.iter().map(|id| format!("--off={id}")).collect();
    arguments.extend(["--".to_owned(), task.to_owned()]);
    RepairCommand::of_tasks("depend", arguments)
}
