//! Tasks that were removed from the document.
//!
//! A removed task stays in the session as obsolete. Its previous fields are kept with it, so that a
//! task that comes back unchanged gets its status and result back.

use std::collections::HashSet;

use abide_model::{DependencyTypes, TaskId, TaskStatus};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{DocumentTask, TaskList, json};

/// The reason of a task that is obsolete because it was removed from the document.
pub const REMOVED: &str = "removed from the plan";

/// The name of a removal among the kept fields of a task; no format has this name.
const NAME: &str = "removed";

/// A task before it was removed. Its result stays in the task.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Removal {
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<TaskId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    depends: Vec<TaskId>,
    #[serde(skip_serializing_if = "DependencyTypes::is_empty")]
    dependency_types: DependencyTypes,
    status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign_status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl DocumentTask {
    /// Was it removed from the document?
    #[must_use]
    pub fn is_removed(&self) -> bool {
        let why = self.reason.as_deref();
        self.status == TaskStatus::Obsolete
            && (why == Some(REMOVED) || why.is_none() && kept_removal(self).is_some())
    }
}

impl TaskList {
    /// Without the tasks that were removed from the document, except those with a part that was
    /// not.
    #[must_use]
    pub fn without_removed(&self) -> Self {
        let mut plan = self.clone();
        let mut needed: HashSet<TaskId> = HashSet::new();
        // Parts come after the task they belong to.
        for task in plan.tasks.iter().rev() {
            if !task.is_removed() || needed.contains(&task.id) {
                needed.insert(task.id.clone());
                needed.extend(task.parent.clone());
            }
        }
        plan.tasks.retain(|task| needed.contains(&task.id));
        for task in &mut plan.tasks {
            task.depends.retain(|id| needed.contains(id));
            task.dependency_types = task.dependency_types.among(&task.depends);
        }
        plan
    }
}

/// Removes a task. Nothing waits for it then, and it waits for nothing.
pub(crate) fn remove_document_task(task: &mut DocumentTask) {
    let was = Removal {
        parent: task.parent.clone(),
        depends: std::mem::take(&mut task.depends),
        dependency_types: std::mem::take(&mut task.dependency_types),
        status: task.status,
        foreign_status: task.foreign_status.take(),
        reason: task.reason.take(),
    };
    let was = serde_json::to_string(&was).unwrap_or_default();
    task.foreign = with_removal(task.foreign.as_deref(), Some(was));
    task.status = TaskStatus::Obsolete;
    task.reason = Some(REMOVED.to_owned());
}

/// Restores a task as it was before it was removed; planned, if that was not kept.
pub(crate) fn restore_removed_task(task: &mut DocumentTask) {
    let Some(was) = kept_removal(task) else {
        (task.status, task.reason, task.result) = (TaskStatus::Planned, None, None);
        return;
    };
    task.parent = was.parent;
    task.depends = was.depends;
    task.dependency_types = was.dependency_types;
    task.status = was.status;
    task.foreign_status = was.foreign_status;
    task.reason = was.reason;
    task.foreign = with_removal(task.foreign.as_deref(), None);
}

fn kept_removal(task: &DocumentTask) -> Option<Removal> {
    let fields = json::json_object_fields(task.foreign.as_ref()?.get())?;
    let (_, raw) = fields.iter().find(|(name, _)| name == NAME)?;
    serde_json::from_str(raw.get()).ok()
}

/// The kept fields of a task, with this removal instead of any other.
fn with_removal(foreign: Option<&RawValue>, was: Option<String>) -> Option<Box<RawValue>> {
    let kept =
        foreign.and_then(|foreign| json::json_object_fields(foreign.get())).unwrap_or_default();
    let kept = kept.into_iter().filter(|(name, _)| name != NAME);
    let mut fields: Vec<String> =
        kept.map(|(name, raw)| format!("{}:{}", json::json_text(&name), raw.get())).collect();
    fields.extend(was.map(|was| format!("\"{NAME}\":{was}")));
    if fields.is_empty() {
        return None;
    }
    RawValue::from_string(format!("{{{}}}", fields.join(","))).ok()
}
