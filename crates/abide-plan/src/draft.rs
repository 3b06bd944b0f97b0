//! A task as read: its id may be missing, and names are not resolved yet.

use std::collections::BTreeMap;

use abide_model::{DependencyType, TaskStatus};
use serde_json::value::RawValue;

use crate::{TaskListError, TaskListFault};

/// A task that is not part of a task list yet.
#[derive(Debug, Default)]
pub(crate) struct TaskDraft {
    pub(crate) id: Option<String>,
    pub(crate) title: String,
    /// The draft it is part of.
    pub(crate) parent: Option<usize>,
    /// The id of the task it is part of.
    pub(crate) parent_id: Option<String>,
    /// Its dependencies, as the document names them.
    pub(crate) depends: Vec<String>,
    /// The types of these, where they do not just block, by the same names.
    pub(crate) dependency_types: BTreeMap<String, DependencyType>,
    pub(crate) priority: i64,
    pub(crate) details: Option<String>,
    pub(crate) documents: Vec<String>,
    /// The texts of those that are stored with it.
    pub(crate) document_texts: BTreeMap<String, String>,
    pub(crate) check: Option<String>,
    pub(crate) status: TaskStatus,
    pub(crate) foreign_status: Option<String>,
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) foreign: Option<Box<RawValue>>,
    pub(crate) place: DraftPlace,
}

/// The position of a draft in the document.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DraftPlace {
    /// In this list of its parent, at this index.
    Json(&'static str, usize),
    /// In this line, counted from 1.
    Line(usize),
}

impl Default for DraftPlace {
    fn default() -> Self {
        Self::Line(1)
    }
}

/// The path to a draft, for errors.
pub(crate) fn draft_path(drafts: &[TaskDraft], at: usize) -> String {
    let mut steps = Vec::new();
    let mut next = Some(at);
    while let Some(draft) = next.and_then(|at| drafts.get(at)) {
        match draft.place {
            DraftPlace::Line(line) => return format!("line {line}"),
            DraftPlace::Json(list, index) => steps.push(format!(".{list}[{index}]")),
        }
        // A parent found by its id is not part of the path.
        next = draft.parent.filter(|_| draft.parent_id.is_none());
    }
    steps.reverse();
    format!("${}", steps.concat())
}

/// An error about a field of a draft.
pub(crate) fn draft_fault(
    drafts: &[TaskDraft],
    at: usize,
    field: &str,
    fault: TaskListFault,
) -> TaskListError {
    let mut place = draft_path(drafts, at);
    if !field.is_empty() && place.starts_with('$') {
        place.push('.');
        place.push_str(field);
    }
    TaskListError::at(place, fault)
}
