//! `parent-mismatch`: tasks and their parts contradict each other.

use std::collections::HashMap;

use super::bounded_findings::{BoundedFindings, joined, short};
use super::task_list::CreatedTasks;
use super::{LiveEvent, ValidationRule};
use crate::{
    Fact, Finding, FindingPlace, FindingType, Repair, Seq, SessionState, Severity, TaskId,
    TaskState,
};

/// The `parent-mismatch` rule.
#[derive(Debug, Default)]
pub(super) struct ParentMismatchRule {
    /// Tasks recorded as parts of themselves. The fold does not keep these.
    own: Vec<(TaskId, Seq)>,
}

impl ValidationRule for ParentMismatchRule {
    fn event(&mut self, seen: &LiveEvent<'_>) {
        if let Ok(Fact::TaskCreated(fact)) = seen.fact
            && fact.parent.as_ref() == Some(&fact.task)
            && !seen.before.tasks.get(fact.task.as_str()).is_some_and(|task| task.known)
        {
            self.own.push((fact.task.clone(), seen.event.seq));
        }
    }

    fn finish(&mut self, state: &SessionState, findings: &mut Vec<Finding>) {
        let mut few = BoundedFindings::new("parent-mismatch", FindingType::BusinessLogic);
        for (task, seq) in self.own.drain(..) {
            is_own_parent_ancestor(&mut few, &[task.as_str()], seq);
        }
        let list = CreatedTasks::new(state);
        find_parent_circles(&list, &mut few);
        check_parent_counters(state, &mut few);
        check_parent_prefixes(&list, &mut few);
        few.finish(findings);
    }
}

fn is_own_parent_ancestor(few: &mut BoundedFindings, circle: &[&str], seq: Seq) {
    let first = short(circle.first().copied().unwrap_or_default());
    few.add(
        Severity::Error,
        FindingPlace::subject(format!("task {first}")).of_event(seq),
        format!("task {first} is part of itself: {}", joined(circle.iter().copied())),
        Repair::by_hand("record the tasks again with other ids, and make these obsolete"),
    );
}

/// Each task has at most one parent, so a walk upwards either ends or returns to itself.
fn find_parent_circles(list: &CreatedTasks<'_>, few: &mut BoundedFindings) {
    let mut walk_of = vec![0_usize; list.tasks.len()];
    for start in 0..list.tasks.len() {
        let walk = start + 1;
        let mut at = Some(start);
        while let Some(place) = at {
            let Some(seen) = walk_of.get_mut(place) else { break };
            if *seen == walk {
                let mut circle = vec![list.id(place)];
                let mut next = parent_of_created(list, place);
                while let Some(other) = next.filter(|other| *other != place) {
                    circle.push(list.id(other));
                    next = parent_of_created(list, other);
                }
                let seq = list.tasks.get(place).map_or(Seq::ZERO, |(_, task)| task.created);
                is_own_parent_ancestor(few, &circle, seq);
            }
            if *seen != 0 {
                break;
            }
            *seen = walk;
            at = parent_of_created(list, place);
        }
    }
}

fn parent_of_created(list: &CreatedTasks<'_>, place: usize) -> Option<usize> {
    list.tasks.get(place).and_then(|(_, task)| list.place(task.parent.as_ref()?))
}

/// The part counts in a state must match the tasks.
fn check_parent_counters(state: &SessionState, few: &mut BoundedFindings) {
    let mut parts: HashMap<&str, (u64, u64)> = HashMap::new();
    for (_, task) in state.tasks.iter() {
        if let Some(parent) = &task.parent {
            let count = parts.entry(parent.as_str()).or_default();
            count.0 += 1;
            count.1 += u64::from(task.status.is_done());
        }
    }
    let mut wrong: Vec<(&str, &TaskState, (u64, u64))> = Vec::new();
    for (id, task) in state.tasks.iter() {
        let count = parts.get(id).copied().unwrap_or_default();
        if count != task.children {
            wrong.push((id, task, count));
        }
    }
    wrong.sort_by_key(|(id, task, _)| (task.order, *id));
    for (id, task, (all, done)) in wrong {
        let (id, (kept, kept_done)) = (short(id), task.children);
        few.add(
            Severity::Error,
            FindingPlace::subject(format!("task {id}")),
            format!(
                "task {id} counts {kept} parts, {kept_done} of them done; there are {all}, {done} of them done"
            ),
            Repair::by_hand("the state is derived: rebuild it"),
        );
    }
}

/// An id such as `P1.M2` implies that the task is part of `P1`.
fn check_parent_prefixes(list: &CreatedTasks<'_>, few: &mut BoundedFindings) {
    for (id, task) in &list.tasks {
        let Some(parent) = &task.parent else { continue };
        let mut prefix = *id;
        let named = loop {
            let Some((shorter, _)) = prefix.rsplit_once('.') else { break None };
            prefix = shorter;
            if list.place(&TaskId(prefix.to_owned())).is_some() {
                break Some(prefix);
            }
        };
        if let Some(named) = named.filter(|named| *named != parent.as_str()) {
            let (id, parent, named) = (short(id), short(parent.as_str()), short(named));
            few.add(
                Severity::Warning,
                FindingPlace::subject(format!("task {id}")).of_event(task.created),
                format!("task {id} is part of {parent}, but its id implies {named}"),
                Repair::by_hand("nothing is lost; give it the parent that its id implies"),
            );
        }
    }
}
