//! `orphaned-task`: a task is part of a task that was never created.

use std::collections::HashSet;

use super::bounded_findings::{BoundedFindings, short};
use super::task_list::CreatedTasks;
use super::{LiveEvent, ValidationRule};
use crate::{
    Finding, FindingPlace, FindingType, Kind, Repair, RepairCommand, SessionState, Severity, TaskId,
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
            let command = added.insert(parent).then(|| add_command(&list, parent));
            let (id, parent) = (short(id), short(parent.as_str()));
            few.add(
                severity,
                FindingPlace::subject(format!("task {id}")).of_event(task.created),
                format!("task {id} is part of {parent}, which was never created"),
                Repair::by_hand(format!("add the task {parent}")).with_commands(command),
            );
        }
        few.finish(findings);
    }
}

/// Adds a task under the one that its id implies: `P1.M1` is a part of `P1`.
fn add_command(list: &CreatedTasks<'_>, id: &TaskId) -> RepairCommand {
    let mut arguments = vec![format!("--id={id}")];
    let mut shorter = id.as_str().rsplit_once('.');
    while let Some((prefix, _)) = shorter {
        if list.place(&TaskId(prefix.to_owned())).is_some() {
            arguments.push(format!("--parent={prefix}"));
            break;
        }
        shorter = prefix.rsplit_once('.');
    }
    arguments.extend(["--".to_owned(), id.to_string()]);
    RepairCommand::of_tasks("add", arguments)
}
