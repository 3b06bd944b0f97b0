//! `orphaned-task`: a task is part of a task that was never created.

use super::few::{Few, short};
use super::task_list::TaskList;
use super::{Rule, Seen};
use crate::{Finding, FindingType, FoundAt, Kind, Repair, SessionState, Severity};

/// The `orphaned-task` rule.
#[derive(Debug, Default)]
pub(super) struct OrphanedTask {
    /// The creation of a task was erased; it may be the missing one.
    erased: bool,
}

impl Rule for OrphanedTask {
    fn event(&mut self, seen: &Seen<'_>) {
        self.erased |= seen.event.kind == Kind::TASK_CREATED && seen.event.data.is_none();
    }

    fn finish(&mut self, state: &SessionState, findings: &mut Vec<Finding>) {
        let severity = if self.erased { Severity::Warning } else { Severity::Error };
        let mut few = Few::new("orphaned-task", FindingType::Referential);
        let list = TaskList::new(state);
        for (id, task) in &list.tasks {
            let Some(parent) = task.parent.as_ref().filter(|id| list.place(id).is_none()) else {
                continue;
            };
            let (id, parent) = (short(id), short(parent.as_str()));
            few.add(
                severity,
                FoundAt::subject(format!("task {id}")).of_event(task.created),
                format!("task {id} is part of {parent}, which was never created"),
                Repair::by_hand(format!("record `task.created` for {parent}")),
            );
        }
        few.finish(findings);
    }
}
