//! The difference between a session's tasks and an edited plan.
//!
//! Tasks are matched by their titles from the root, not by place or id: what stands in another
//! place is the same task, and what is put between two others is one new task.

use std::collections::{HashMap, HashSet, VecDeque};

use abide_model::{TaskId, TaskStatus};

use crate::arrange::placed;
use crate::{Plan, PlanTask};

/// Why a task is obsolete that is no longer in the plan.
pub const REMOVED: &str = "removed from the plan";

/// What an edited plan means for a new session.
#[derive(Debug, Clone)]
pub struct PlanDelta {
    /// The plan of the new session: its ids are settled, removed tasks are in it as obsolete.
    pub plan: Plan,
    /// Tasks that are as they were. They keep their id and, when they are complete, their result.
    pub kept: Vec<TaskId>,
    /// Tasks of which something is otherwise. They are to be done again.
    pub changed: Vec<TaskId>,
    /// Tasks that were not there.
    pub added: Vec<TaskId>,
    /// Tasks that are not there any more.
    pub removed: Vec<TaskId>,
}

/// The plan of a new session that goes on from an old one with an edited document.
#[must_use]
pub fn delta(old: &Plan, mut new: Plan) -> PlanDelta {
    let matches = match_titles(old, &new);
    let ids = settle_ids(old, &new, &matches);
    for (task, id) in new.tasks.iter_mut().zip(&ids.settled) {
        task.id.clone_from(id);
        let renamed = |id: &TaskId| ids.by_document.get(id).cloned().unwrap_or_else(|| id.clone());
        task.parent = task.parent.as_ref().map(renamed);
        task.depends = task.depends.iter().map(renamed).collect();
    }
    let (mut kept, mut changed, mut added, mut removed) = Default::default();
    let known = |list: &mut Vec<TaskId>, task: &PlanTask| list.push(task.id.clone());
    for (task, before) in new.tasks.iter_mut().zip(&matches) {
        let before = before.and_then(|at| old.tasks.get(at));
        match before {
            None => known(&mut added, task),
            Some(before) if is_same(before, task) && !is_removed(before) => {
                known(&mut kept, task);
                if before.status.is_done() {
                    keep(before, task);
                    continue;
                }
            }
            Some(_) => known(&mut changed, task),
        }
        // What the document itself calls done is done; all else is to be done.
        if !task.status.is_done() {
            task.status = TaskStatus::Planned;
            task.foreign_status = None;
            task.result = None;
        }
    }
    let there: HashSet<TaskId> = ids.settled.into_iter().collect();
    for task in old.tasks.iter().filter(|task| !there.contains(&task.id)) {
        let mut task = task.clone();
        if !is_removed(&task) {
            known(&mut removed, &task);
        }
        if task.status != TaskStatus::Obsolete {
            task.foreign_status = None;
        }
        task.status = TaskStatus::Obsolete;
        task.reason = Some(REMOVED.to_owned());
        // Nobody waits for it, and it waits for nobody.
        task.depends.clear();
        new.tasks.push(task);
    }
    new.title = new.title.or_else(|| old.title.clone());
    order(&mut new.tasks);
    open_parents(&mut new.tasks);
    PlanDelta { plan: new, kept, changed, added, removed }
}

/// Was it taken out of an earlier plan?
fn is_removed(task: &PlanTask) -> bool {
    task.status == TaskStatus::Obsolete && task.reason.as_deref() == Some(REMOVED)
}

fn keep(before: &PlanTask, task: &mut PlanTask) {
    task.status = before.status;
    task.foreign_status.clone_from(&before.foreign_status);
    task.reason.clone_from(&before.reason);
    task.result.clone_from(&before.result);
}

/// Does the document still say the same of it? The ids of both are those of the session.
fn is_same(before: &PlanTask, task: &PlanTask) -> bool {
    let set = |task: &PlanTask| task.depends.iter().cloned().collect::<HashSet<_>>();
    let said = |task: &PlanTask| {
        let details = task.details.as_deref().unwrap_or_default().trim();
        details.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
    };
    said(before) == said(task)
        && before.priority == task.priority
        && before.documents == task.documents
        && set(before) == set(task)
}

/// The words of a title, however they are spaced.
fn words(title: &str) -> String {
    title.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// For each new task the old one that it is.
fn match_titles(old: &Plan, new: &Plan) -> Vec<Option<usize>> {
    let old_at: HashMap<&TaskId, usize> =
        old.tasks.iter().enumerate().map(|(at, task)| (&task.id, at)).collect();
    // Old tasks by parent and title; those of the same title in their order.
    let mut open: HashMap<(Option<usize>, String), VecDeque<usize>> = HashMap::new();
    for (at, task) in old.tasks.iter().enumerate() {
        let parent = task.parent.as_ref().and_then(|parent| old_at.get(parent).copied());
        open.entry((parent, words(&task.title))).or_default().push_back(at);
    }
    // Whoever is in the plan goes before whoever was taken out of it.
    for queue in open.values_mut().filter(|queue| queue.len() > 1) {
        let gone = |at: &usize| old.tasks.get(*at).is_some_and(is_removed);
        let (last, first): (VecDeque<_>, VecDeque<_>) = queue.drain(..).partition(gone);
        queue.extend(first.into_iter().chain(last));
    }
    let wrapper = wrapper(old, new);
    let new_at: HashMap<&TaskId, usize> =
        new.tasks.iter().enumerate().map(|(at, task)| (&task.id, at)).collect();
    let mut matches: Vec<Option<usize>> = Vec::with_capacity(new.tasks.len());
    for task in &new.tasks {
        let parent = task.parent.as_ref().and_then(|parent| new_at.get(parent).copied());
        let below = match parent {
            None => match wrapper {
                Some(Wrapper::Old(at)) => Some(Some(at)),
                _ => Some(None),
            },
            Some(at) if wrapper == Some(Wrapper::New(at)) => Some(None),
            // Parents come first, so that theirs is known.
            Some(at) => matches.get(at).copied().flatten().map(Some),
        };
        let found = below.and_then(|below| open.get_mut(&(below, words(&task.title)))?.pop_front());
        matches.push(found);
    }
    matches
}

/// A task that has the title that the other plan has as a whole: the only heading of the first
/// level is a document's title, until there is a second one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrapper {
    Old(usize),
    New(usize),
}

fn wrapper(old: &Plan, new: &Plan) -> Option<Wrapper> {
    let root = |plan: &Plan, title: &Option<String>| {
        let title = words(title.as_deref()?);
        plan.tasks.iter().position(|task| task.parent.is_none() && words(&task.title) == title)
    };
    match (root(old, &new.title), root(new, &old.title)) {
        (Some(at), None) if new.title != old.title => Some(Wrapper::Old(at)),
        (None, Some(at)) if new.title != old.title => Some(Wrapper::New(at)),
        _ => None,
    }
}

struct Ids {
    /// Of each new task.
    settled: Vec<TaskId>,
    /// From those of the document.
    by_document: HashMap<TaskId, TaskId>,
}

/// Matched tasks keep the id of the old one; the others get one that no old task has.
fn settle_ids(old: &Plan, new: &Plan, matches: &[Option<usize>]) -> Ids {
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
                    let id = placed(parent.as_ref().map(TaskId::as_str), depth, *number);
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
    Ids { settled, by_document }
}

/// Each before its parts, otherwise in the order in which they are.
pub(crate) fn order(tasks: &mut Vec<PlanTask>) {
    let known: HashSet<TaskId> = tasks.iter().map(|task| task.id.clone()).collect();
    let mut parts: HashMap<Option<TaskId>, Vec<PlanTask>> = HashMap::new();
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
        // What is left are parts of each other: one of them is made a root.
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

/// What has an open part is not complete.
fn open_parents(tasks: &mut [PlanTask]) {
    let mut open: HashSet<TaskId> = HashSet::new();
    // Parts come behind their parents.
    for task in tasks.iter_mut().rev() {
        if task.status == TaskStatus::Complete && open.contains(&task.id) {
            task.status = TaskStatus::Planned;
            task.foreign_status = None;
            task.result = None;
        }
        if !task.status.is_done() {
            open.extend(task.parent.clone());
        }
    }
}
