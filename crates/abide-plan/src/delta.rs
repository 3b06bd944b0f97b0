//! The difference between a session's tasks and an edited task list.
//!
//! Tasks are matched by their titles from the root, not by position or id: a task that moved is the
//! same task, and inserting one between two others adds just one.

use std::collections::{HashMap, HashSet};

use abide_model::{DependencyType, DependencyTypes, TaskId, TaskStatus};

use crate::arrange::arranged_id;
use crate::content::{TaskContent, has_same_texts};
use crate::matching::{TaskMatcher, depths, matching_form};
use crate::removal::{remove_document_task, restore_removed_task};
use crate::{DocumentTask, TaskList, TaskListForm};

/// What an edited task list means for a new session.
#[derive(Debug, Clone)]
pub struct TaskListDelta {
    /// The task list of the new session, with final ids. It includes removed tasks as obsolete.
    pub plan: TaskList,
    /// Unchanged tasks. They keep their id and, if complete, their result.
    pub kept: Vec<TaskId>,
    /// Changed tasks. They are to be done again.
    pub changed: Vec<TaskId>,
    /// New tasks.
    pub added: Vec<TaskId>,
    /// Tasks that are no longer in the document.
    pub removed: Vec<TaskId>,
}

/// The task list of a new session that continues an old one with an edited document.
///
/// - An unchanged task keeps its status: complete with its result; obsolete, blocked or failed with
///   the reason, whoever set it. A failed task is tried again on request. A task in progress or not
///   started is planned.
/// - A changed task is planned again, and a new task is planned, unless the document itself says
///   that it is done.
/// - A removed task is obsolete, with [`REMOVED`](crate::REMOVED) as its reason, and waits for
///   nothing. If it comes back unchanged, it is restored. A task whose parts are all removed is to
///   be done itself, so they are no longer its parts.
/// - A task with parts follows them: it is complete when all are done, obsolete when none of these
///   is complete, and planned again when one is open. A task that was made obsolete stays so over
///   parts that were open all along, but not over new ones, unless the document calls it obsolete.
#[must_use]
pub fn delta(old: &TaskList, mut new: TaskList) -> TaskListDelta {
    let gone: HashSet<TaskId> =
        old.tasks.iter().filter(|task| task.is_removed()).map(|task| task.id.clone()).collect();
    let mut old = old.clone();
    for task in old.tasks.iter_mut().filter(|task| gone.contains(&task.id)) {
        restore_removed_task(task);
    }
    let old = old;
    let matches = TaskMatcher::new(&old, &new).find(|id| gone.contains(id));
    let (form, depths) = (matching_form(&old, &new), depths(&new));
    let ids = settle_delta_ids(&old, &new, &matches);
    for (task, id) in new.tasks.iter_mut().zip(&ids.settled) {
        task.id.clone_from(id);
        let renamed = |id: &TaskId| ids.by_document.get(id).cloned().unwrap_or_else(|| id.clone());
        task.parent = task.parent.as_ref().map(renamed);
        let mut types = DependencyTypes::default();
        for (id, kind) in task.dependency_types.iter() {
            types.set(renamed(id), kind);
        }
        task.dependency_types = types;
        task.depends = task.depends.iter().map(renamed).collect();
    }
    let new_form = new.form;
    let (mut kept, mut changed, mut added, mut removed) = Default::default();
    let known = |list: &mut Vec<TaskId>, task: &DocumentTask| list.push(task.id.clone());
    let mut parents = DeltaParentReview::default();
    for ((task, before), depth) in new.tasks.iter_mut().zip(&matches).zip(depths) {
        if task.status == TaskStatus::Obsolete {
            parents.obsolete.insert(task.id.clone());
        }
        let before = before.and_then(|at| old.tasks.get(at));
        if let Some(before) = before.filter(|_| new_form == TaskListForm::Prp) {
            keep_types(before, task);
        }
        if let Some(before) = before {
            keep_texts(before, task);
        }
        match before {
            Some(before) if is_same_in_delta(before, task, form, depth) => {
                known(&mut kept, task);
                keep_in_delta(before, task);
                if !gone.contains(&task.id) {
                    continue;
                }
            }
            Some(_) => {
                known(&mut changed, task);
                plan_in_delta(task);
            }
            None => {
                known(&mut added, task);
                plan_in_delta(task);
            }
        }
        parents.new.insert(task.id.clone());
    }
    let there: HashSet<TaskId> = ids.settled.into_iter().collect();
    let with_parts: HashSet<TaskId> =
        new.tasks.iter().filter_map(|task| task.parent.clone()).collect();
    for task in old.tasks.iter().filter(|task| !there.contains(&task.id)) {
        let mut task = task.clone();
        if !gone.contains(&task.id) {
            known(&mut removed, &task);
        }
        remove_document_task(&mut task);
        let is_leaf = |id: &TaskId| there.contains(id) && !with_parts.contains(id);
        task.parent = task.parent.filter(|parent| !is_leaf(parent));
        new.tasks.push(task);
    }
    new.title = new.title.or_else(|| old.title.clone());
    order_delta_tasks(&mut new.tasks);
    parents.settle(&mut new.tasks);
    TaskListDelta { plan: new, kept, changed, added, removed }
}

/// Sets the status of a task that the document describes as before.
fn keep_in_delta(before: &DocumentTask, task: &mut DocumentTask) {
    let stays = match before.status {
        TaskStatus::Complete | TaskStatus::Obsolete => true,
        TaskStatus::Failed | TaskStatus::Blocked => !task.status.is_done(),
        _ => false,
    };
    if !stays {
        return plan_in_delta(task);
    }
    task.status = before.status;
    task.foreign_status.clone_from(&before.foreign_status);
    task.reason.clone_from(&before.reason);
    task.result.clone_from(&before.result);
}

/// Complete if the document says so; otherwise to be done.
fn plan_in_delta(task: &mut DocumentTask) {
    if task.status.is_done() {
        return;
    }
    if task.status != TaskStatus::Planned {
        task.foreign_status = None;
    }
    task.status = TaskStatus::Planned;
    task.result = None;
}

/// Keeps the types of its dependencies, which the PRP form does not say, and those that are soft,
/// which it leaves out.
fn keep_types(before: &DocumentTask, task: &mut DocumentTask) {
    for (id, kind) in before.dependency_types.iter() {
        if kind == DependencyType::Soft && !task.depends.contains(id) {
            task.depends.push(id.clone());
        }
    }
    task.dependency_types = before.dependency_types.among(&task.depends);
}

/// Keeps the documents that are stored with it: they belong to the session, so a task list that does
/// not name them says nothing about them. One that gives their text replaces it.
fn keep_texts(before: &DocumentTask, task: &mut DocumentTask) {
    for name in &before.documents {
        let Some(text) = before.document_texts.get(name) else { continue };
        if !task.documents.contains(name) {
            task.documents.push(name.clone());
        }
        task.document_texts.entry(name.clone()).or_insert_with(|| text.clone());
    }
}

/// Does the document describe it as before? Both use the ids of the session.
fn is_same_in_delta(
    before: &DocumentTask,
    task: &DocumentTask,
    form: Option<TaskListForm>,
    depth: usize,
) -> bool {
    let set = |task: &DocumentTask| task.depends.iter().cloned().collect::<HashSet<_>>();
    let said = |task: &DocumentTask| TaskContent::of(task, form, depth);
    said(before).is_same_but_for_marks(&said(task))
        && set(before) == set(task)
        && before.dependency_types == task.dependency_types
        && has_same_texts(before, task)
}

struct SettledIds {
    /// The id of each new task.
    settled: Vec<TaskId>,
    /// From the document's ids to the final ones.
    by_document: HashMap<TaskId, TaskId>,
}

/// Matched tasks keep the id of the old one; the others get an id that no old task has.
fn settle_delta_ids(old: &TaskList, new: &TaskList, matches: &[Option<usize>]) -> SettledIds {
    let mut taken: HashSet<TaskId> = old.tasks.iter().map(|task| task.id.clone()).collect();
    let mut by_document: HashMap<TaskId, TaskId> = HashMap::with_capacity(new.tasks.len());
    let mut settled = Vec::with_capacity(new.tasks.len());
    let mut depths: HashMap<&TaskId, usize> = HashMap::new();
    let mut numbers: HashMap<Option<TaskId>, usize> = HashMap::new();
    for task in &old.tasks {
        *numbers.entry(task.parent.clone()).or_default() += 1;
    }
    for (task, before) in new.tasks.iter().zip(matches) {
        let depth = task.parent.as_ref().and_then(|id| depths.get(id)).map_or(0, |depth| depth + 1);
        depths.insert(&task.id, depth);
        let id = match before.and_then(|at| old.tasks.get(at)) {
            Some(before) => before.id.clone(),
            None if !taken.contains(&task.id) => task.id.clone(),
            None => {
                let parent = task.parent.as_ref().and_then(|id| by_document.get(id)).cloned();
                let number = numbers.entry(parent.clone()).or_default();
                loop {
                    *number += 1;
                    let id = arranged_id(parent.as_ref().map(TaskId::as_str), depth, *number);
                    let id = TaskId(id);
                    if !taken.contains(&id) {
                        break id;
                    }
                }
            }
        };
        taken.insert(id.clone());
        by_document.insert(task.id.clone(), id.clone());
        settled.push(id);
    }
    SettledIds { settled, by_document }
}

/// Sorts each task before its parts, otherwise in the given order.
pub(crate) fn order_delta_tasks(tasks: &mut Vec<DocumentTask>) {
    let known: HashSet<TaskId> = tasks.iter().map(|task| task.id.clone()).collect();
    let mut parts: HashMap<Option<TaskId>, Vec<DocumentTask>> = HashMap::new();
    for mut task in tasks.drain(..) {
        task.parent = task.parent.filter(|parent| known.contains(parent));
        parts.entry(task.parent.clone()).or_default().push(task);
    }
    let mut stack = parts.remove(&None).unwrap_or_default();
    stack.reverse();
    loop {
        while let Some(task) = stack.pop() {
            let below = parts.remove(&Some(task.id.clone())).unwrap_or_default();
            stack.extend(below.into_iter().rev());
            tasks.push(task);
        }
        // The rest are parts of each other: one of them becomes a root.
        let Some(mut key) = parts.keys().min().cloned() else { break };
        let mut left = parts.remove(&key).unwrap_or_default();
        if left.is_empty() {
            continue;
        }
        let mut first = left.remove(0);
        if !left.is_empty() {
            parts.insert(std::mem::take(&mut key), left);
        }
        first.parent = None;
        stack.push(first);
    }
}

/// Derives the status of tasks from their parts.
#[derive(Debug, Default)]
struct DeltaParentReview {
    /// Tasks that are new or changed.
    new: HashSet<TaskId>,
    /// Tasks that the document itself calls obsolete.
    obsolete: HashSet<TaskId>,
}

/// The parts of a task that are in the document.
#[derive(Debug, Default, Clone, Copy)]
struct PartsSummary {
    open: bool,
    complete: bool,
    /// At some depth there is an open part that is new or changed.
    new: bool,
}

impl DeltaParentReview {
    fn settle(&self, tasks: &mut [DocumentTask]) {
        let mut parts: HashMap<TaskId, PartsSummary> = HashMap::new();
        // Parts come after the task they belong to.
        for task in tasks.iter_mut().rev().filter(|task| !task.is_removed()) {
            let own = parts.get(&task.id).copied();
            if let Some(own) = own
                && let Some(status) = self.follows(task, own)
            {
                task.status = status;
                (task.foreign_status, task.reason, task.result) = (None, None, None);
            }
            let Some(parent) = &task.parent else { continue };
            let above = parts.entry(parent.clone()).or_default();
            let open = !task.status.is_done();
            above.open |= open;
            above.complete |= task.status == TaskStatus::Complete;
            let is_new = self.new.contains(&task.id) || own.is_some_and(|own| own.new);
            above.new |= open && is_new;
        }
    }

    /// The new status of a task because of its parts.
    fn follows(&self, task: &DocumentTask, parts: PartsSummary) -> Option<TaskStatus> {
        let stays = !parts.new || self.obsolete.contains(&task.id);
        match task.status {
            TaskStatus::Complete => parts.open.then_some(TaskStatus::Planned),
            TaskStatus::Obsolete => (parts.open && !stays).then_some(TaskStatus::Planned),
            _ if parts.open => None,
            _ if parts.complete => Some(TaskStatus::Complete),
            _ => Some(TaskStatus::Obsolete),
        }
    }
}

#[cfg(test)]
mod tests;
