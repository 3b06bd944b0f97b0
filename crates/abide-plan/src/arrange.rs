//! Turns drafts into tasks: assigns missing ids, resolves names, and checks the limits and cycles.

use std::collections::{HashMap, HashSet};

use abide_model::{DependencyType, DependencyTypes, TaskId};

use crate::draft::{TaskDraft, draft_fault, draft_path};
use crate::{DocumentTask, TaskListError, TaskListFault};

/// Maximum number of tasks.
pub const MAX_TASKS: usize = 200_000;
/// Maximum nesting depth of tasks.
pub const MAX_DEPTH: usize = 64;
/// Maximum size of a document in bytes.
pub const MAX_BYTES: usize = 64 << 20;
/// Maximum length of an id in bytes.
const MAX_ID: usize = 200;

/// How a document may refer to tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskNaming {
    Ids,
    IdsAndTitles,
}

/// The id of a position: `P1.M2.T1.S3`, by depth and number.
pub(crate) fn arranged_id(parent: Option<&str>, depth: usize, number: usize) -> String {
    let letter = match depth {
        0 => 'P',
        1 => 'M',
        2 => 'T',
        _ => 'S',
    };
    match parent {
        Some(parent) => format!("{parent}.{letter}{number}"),
        None => format!("{letter}{number}"),
    }
}

/// The tasks of drafts, parents first.
pub(crate) fn arrange(
    mut drafts: Vec<TaskDraft>,
    names: TaskNaming,
    depends_field: &str,
) -> Result<Vec<DocumentTask>, TaskListError> {
    if drafts.len() > MAX_TASKS {
        return Err(draft_fault(
            &drafts,
            MAX_TASKS,
            "",
            TaskListFault::TooMany { limit: MAX_TASKS },
        ));
    }
    let mut by_id = arrange_given_ids(&drafts)?;
    arrange_parents(&mut drafts, &by_id)?;
    let order = arrange_preorder(&drafts)?;
    let ids = arrange_ids(&drafts, &order, &mut by_id)?;
    let depends = look_up_arranged(&drafts, names, &by_id, depends_field)?;
    refuse_arranged_cycles(&drafts, &ids, &depends, depends_field)?;
    let id_of = |at: usize| TaskId(ids.get(at).cloned().unwrap_or_default());
    let types_of = |at: usize| {
        let mut types = DependencyTypes::default();
        for need in depends.get(at).into_iter().flatten() {
            types.set(id_of(need.task), need.kind);
        }
        types
    };
    let mut drafts: Vec<Option<TaskDraft>> = drafts.into_iter().map(Some).collect();
    let mut tasks = Vec::with_capacity(order.len());
    for (at, _) in order {
        let Some(draft) = drafts.get_mut(at).and_then(Option::take) else { continue };
        tasks.push(DocumentTask {
            id: id_of(at),
            title: draft.title,
            parent: draft.parent.map(id_of),
            depends: depends.get(at).into_iter().flatten().map(|need| id_of(need.task)).collect(),
            dependency_types: types_of(at),
            priority: draft.priority,
            details: draft.details,
            documents: draft.documents,
            document_texts: draft.document_texts,
            check: draft.check,
            status: draft.status,
            foreign_status: draft.foreign_status,
            reason: None,
            result: draft.result,
            foreign: draft.foreign,
        });
    }
    Ok(tasks)
}

/// The order of the tasks of these drafts, of which only ids and parents count.
pub(crate) fn arranged_order(mut drafts: Vec<TaskDraft>) -> Result<Vec<usize>, TaskListError> {
    let by_id = arrange_given_ids(&drafts)?;
    arrange_parents(&mut drafts, &by_id)?;
    Ok(arrange_preorder(&drafts)?.into_iter().map(|(at, _)| at).collect())
}

/// The ids given in the document.
fn arrange_given_ids(drafts: &[TaskDraft]) -> Result<HashMap<String, usize>, TaskListError> {
    let mut by_id: HashMap<String, usize> = HashMap::with_capacity(drafts.len());
    for (at, draft) in drafts.iter().enumerate() {
        let Some(id) = &draft.id else { continue };
        if id.is_empty() || id.len() > MAX_ID || id.chars().any(char::is_control) {
            let wanted = "an id of 1 to 200 bytes on one line";
            return Err(draft_fault(drafts, at, "id", TaskListFault::Not { wanted }));
        }
        if let Some(other) = by_id.insert(id.clone(), at) {
            let other = draft_path(drafts, other);
            return Err(draft_fault(
                drafts,
                at,
                "id",
                TaskListFault::TakenId { id: id.clone(), other },
            ));
        }
    }
    Ok(by_id)
}

fn arrange_parents(
    drafts: &mut [TaskDraft],
    by_id: &HashMap<String, usize>,
) -> Result<(), TaskListError> {
    for at in 0..drafts.len() {
        let Some(parent) = drafts.get(at).and_then(|draft| draft.parent_id.clone()) else {
            continue;
        };
        let Some(found) = by_id.get(&parent) else {
            return Err(draft_fault(drafts, at, "parent", TaskListFault::NoTask { name: parent }));
        };
        if let Some(draft) = drafts.get_mut(at) {
            draft.parent = Some(*found);
        }
    }
    Ok(())
}

/// The children of each draft, in order.
fn draft_children(drafts: &[TaskDraft]) -> Vec<Vec<usize>> {
    let mut children = vec![Vec::new(); drafts.len()];
    for (at, draft) in drafts.iter().enumerate() {
        if let Some(children) = draft.parent.and_then(|parent| children.get_mut(parent)) {
            children.push(at);
        }
    }
    children
}

/// A draft, its depth, and its number among its siblings.
type NumberedDraft = (usize, (usize, usize));

/// Every draft, each before its parts.
fn arrange_preorder(drafts: &[TaskDraft]) -> Result<Vec<NumberedDraft>, TaskListError> {
    let children = draft_children(drafts);
    let roots = (0..drafts.len()).filter(|at| drafts.get(*at).is_some_and(|d| d.parent.is_none()));
    let mut order = Vec::with_capacity(drafts.len());
    let number = |depth: usize, list: Vec<usize>| {
        let numbered = list.into_iter().enumerate().map(move |(n, at)| (at, (depth, n + 1)));
        numbered.rev().collect::<Vec<_>>()
    };
    let mut stack = number(0, roots.collect());
    while let Some((at, (depth, place))) = stack.pop() {
        if depth >= MAX_DEPTH {
            return Err(draft_fault(drafts, at, "", TaskListFault::TooDeep { limit: MAX_DEPTH }));
        }
        order.push((at, (depth, place)));
        stack.extend(number(depth + 1, children.get(at).cloned().unwrap_or_default()));
    }
    if order.len() < drafts.len() {
        let reached: HashSet<usize> = order.iter().map(|(at, _)| *at).collect();
        let lost = (0..drafts.len()).find(|at| !reached.contains(at)).unwrap_or_default();
        return Err(draft_fault(drafts, lost, "parent", TaskListFault::ParentCycle));
    }
    Ok(order)
}

/// The id of each draft: its own, or else that of its position.
fn arrange_ids(
    drafts: &[TaskDraft],
    order: &[NumberedDraft],
    by_id: &mut HashMap<String, usize>,
) -> Result<Vec<String>, TaskListError> {
    let mut ids = vec![String::new(); drafts.len()];
    let mut moved: HashMap<Option<usize>, usize> = HashMap::new();
    for &(at, (depth, number)) in order {
        let Some(draft) = drafts.get(at) else { continue };
        let id = match &draft.id {
            Some(id) => id.clone(),
            None => {
                let parent = draft.parent.and_then(|parent| ids.get(parent)).cloned();
                let mut number = number;
                number = number.max(moved.get(&draft.parent).copied().unwrap_or_default());
                let mut id = arranged_id(parent.as_deref(), depth, number);
                // Another task has the id of this position.
                while by_id.contains_key(&id) {
                    number += 1;
                    id = arranged_id(parent.as_deref(), depth, number);
                    moved.insert(draft.parent, number);
                }
                if id.len() > 2 * MAX_ID {
                    return Err(draft_fault(
                        drafts,
                        at,
                        "",
                        TaskListFault::TooDeep { limit: MAX_DEPTH },
                    ));
                }
                by_id.insert(id.clone(), at);
                id
            }
        };
        if let Some(place) = ids.get_mut(at) {
            *place = id;
        }
    }
    Ok(ids)
}

/// A dependency of a draft.
struct DraftDependency {
    /// The draft that it depends on.
    task: usize,
    kind: DependencyType,
}

/// Resolves the dependencies of each draft.
fn look_up_arranged(
    drafts: &[TaskDraft],
    names: TaskNaming,
    by_id: &HashMap<String, usize>,
    field: &str,
) -> Result<Vec<Vec<DraftDependency>>, TaskListError> {
    let mut by_title: HashMap<&str, Option<usize>> = HashMap::new();
    if names == TaskNaming::IdsAndTitles {
        for (at, draft) in drafts.iter().enumerate() {
            by_title.entry(&draft.title).and_modify(|one| *one = None).or_insert(Some(at));
        }
    }
    let find = |name: &str| match by_id.get(name) {
        Some(at) => Ok(*at),
        None => match by_title.get(name) {
            Some(Some(at)) => Ok(*at),
            Some(None) => Err(TaskListFault::Ambiguous { name: name.to_owned() }),
            None => Err(TaskListFault::NoTask { name: name.to_owned() }),
        },
    };
    let mut all = Vec::with_capacity(drafts.len());
    for (at, draft) in drafts.iter().enumerate() {
        let mut found = Vec::new();
        for (number, name) in draft.depends.iter().enumerate() {
            let wrong = |wrong| draft_fault(drafts, at, &format!("{field}[{number}]"), wrong);
            let kind = draft.dependency_types.get(name).copied().unwrap_or_default();
            match find(name) {
                Ok(task) => found.push(DraftDependency { task, kind }),
                // A line of Markdown may name several tasks.
                Err(TaskListFault::NoTask { .. }) if names == TaskNaming::IdsAndTitles => {
                    for part in name.split(',').map(str::trim).filter(|part| !part.is_empty()) {
                        found.push(DraftDependency { task: find(part).map_err(wrong)?, kind });
                    }
                }
                Err(error) => return Err(wrong(error)),
            }
        }
        let stray = draft.dependency_types.keys().find(|name| !draft.depends.contains(name));
        if let Some(name) = stray {
            let stray = TaskListFault::NoDependency { name: name.clone() };
            return Err(draft_fault(drafts, at, "dependency_types", stray));
        }
        all.push(found);
    }
    Ok(all)
}

/// Refuses tasks that could never be done. The start of a task waits for the start of the task it
/// is part of and for the end of what it depends on. Its end waits for the ends of its parts or,
/// without parts, for its own start. This must not form a cycle.
fn refuse_arranged_cycles(
    drafts: &[TaskDraft],
    ids: &[String],
    depends: &[Vec<DraftDependency>],
    field: &str,
) -> Result<(), TaskListError> {
    let children = draft_children(drafts);
    // The start of a task has an even number, its end the odd number after it.
    let waits_for = |moment: usize| -> Vec<usize> {
        let at = moment / 2;
        let parts = children.get(at).map(Vec::as_slice).unwrap_or_default();
        if moment.is_multiple_of(2) {
            let parent = drafts.get(at).and_then(|draft| draft.parent).map(|parent| 2 * parent);
            // Nothing waits for a soft dependency, but none is on the task itself.
            let hard =
                |need: &&DraftDependency| need.kind != DependencyType::Soft || need.task == at;
            let depends = depends.get(at).into_iter().flatten().filter(hard);
            parent.into_iter().chain(depends.map(|need| 2 * need.task + 1)).collect()
        } else if parts.is_empty() {
            vec![moment - 1]
        } else {
            parts.iter().map(|part| 2 * part + 1).collect()
        }
    };
    let moments = 2 * drafts.len();
    let mut open: Vec<usize> = Vec::with_capacity(moments);
    let mut waiting = vec![Vec::new(); moments];
    for moment in 0..moments {
        let others = waits_for(moment);
        open.push(others.len());
        for other in others {
            if let Some(waiting) = waiting.get_mut(other) {
                waiting.push(moment);
            }
        }
    }
    let is_free = |open: &[usize], at: usize| open.get(at).is_some_and(|count| *count == 0);
    let mut free: Vec<usize> = (0..moments).filter(|at| is_free(&open, *at)).collect();
    while let Some(at) = free.pop() {
        for other in waiting.get(at).into_iter().flatten() {
            if let Some(count) = open.get_mut(*other) {
                *count -= 1;
            }
            if is_free(&open, *other) {
                free.push(*other);
            }
        }
    }
    let Some(start) = (0..moments).find(|at| !is_free(&open, *at)) else { return Ok(()) };
    // Every task left waits for another one left: follow them until one repeats.
    let mut way = vec![start];
    let mut seen = HashMap::from([(start, 0)]);
    loop {
        let at = way.last().copied().unwrap_or(start);
        let next = waits_for(at).into_iter().find(|other| !is_free(&open, *other));
        let Some(next) = next else { break };
        let first = seen.insert(next, way.len());
        way.push(next);
        if let Some(first) = first {
            way.drain(..first);
            break;
        }
    }
    // Report it at a task of the cycle that has dependencies.
    let says = |moment: &&usize| {
        moment.is_multiple_of(2)
            && depends.get(*moment / 2).is_some_and(|depends| !depends.is_empty())
    };
    let at = way.iter().find(says).or(way.first()).map_or(0, |moment| moment / 2);
    let mut tasks: Vec<String> = Vec::new();
    for id in way.iter().filter_map(|moment| ids.get(moment / 2)) {
        if tasks.last() != Some(id) {
            tasks.push(id.clone());
        }
    }
    if tasks.len() > 12 {
        let last = tasks.pop();
        tasks.truncate(10);
        tasks.extend(["…".to_owned()].into_iter().chain(last));
    }
    Err(draft_fault(drafts, at, field, TaskListFault::Cycle { tasks }))
}
