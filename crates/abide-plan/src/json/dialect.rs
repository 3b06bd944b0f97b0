//! The field names of the two JSON formats.

use abide_model::{DependencyType, TaskId, TaskStatus};

use crate::{DocumentTask, TaskListForm, status};

/// The names that a format uses.
pub(crate) struct JsonDialect {
    pub(crate) form: TaskListForm,
    /// The top-level list.
    pub(crate) root: &'static str,
    /// The field of the document's title.
    pub(crate) title: Option<&'static str>,
    /// The field of a task's dependencies.
    pub(crate) depends: &'static str,
    /// Whether a task must have an id and a status.
    pub(crate) exact: bool,
}

/// `{"backlog":[{"type":"Phase",…,"milestones":[…]}]}`.
pub(crate) const PRP: JsonDialect = JsonDialect {
    form: TaskListForm::Prp,
    root: "backlog",
    title: None,
    depends: "dependencies",
    exact: true,
};

/// `{"title":…,"tasks":[{…,"tasks":[…]}]}`.
pub(crate) const PLAIN: JsonDialect = JsonDialect {
    form: TaskListForm::Json,
    root: "tasks",
    title: Some("title"),
    depends: "depends",
    exact: false,
};

/// The meaning of a task's field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskField {
    Type,
    Id,
    Title,
    Status,
    Depends,
    DependencyTypes,
    Details,
    Priority,
    Documents,
    DocumentTexts,
    Check,
    Result,
    Children,
}

impl JsonDialect {
    /// The field of a task's parts; `None` if it can have none.
    pub(crate) fn children(&self, depth: usize) -> Option<&'static str> {
        match (self.form, depth) {
            (TaskListForm::Prp, 0) => Some("milestones"),
            (TaskListForm::Prp, 1) => Some("tasks"),
            (TaskListForm::Prp, 2) => Some("subtasks"),
            (TaskListForm::Prp, _) => None,
            _ => Some("tasks"),
        }
    }

    /// The type of a task at this depth.
    pub(crate) fn sort(&self, depth: usize) -> Option<&'static str> {
        match (self.form, depth) {
            (TaskListForm::Prp, 0) => Some("Phase"),
            (TaskListForm::Prp, 1) => Some("Milestone"),
            (TaskListForm::Prp, 2) => Some("Task"),
            (TaskListForm::Prp, _) => Some("Subtask"),
            _ => None,
        }
    }

    /// The dependencies that it writes. The PRP form has no types: what is soft would block, so it
    /// is left out.
    pub(crate) fn depends_of(&self, task: &DocumentTask) -> Vec<String> {
        let soft = |id: &&TaskId| task.dependency_types.of(id) == DependencyType::Soft;
        let written = task.depends.iter().filter(|id| !(self.exact && soft(id)));
        written.map(|id| id.0.clone()).collect()
    }

    /// The field of the description.
    pub(crate) fn details(&self, depth: usize) -> &'static str {
        match (self.form, depth) {
            (TaskListForm::Prp, 0..=2) => "description",
            (TaskListForm::Prp, _) => "context_scope",
            _ => "details",
        }
    }

    /// The word for a status.
    pub(crate) fn word(&self) -> fn(TaskStatus) -> &'static str {
        if self.form == TaskListForm::Prp { status::prp_status } else { TaskStatus::as_str }
    }

    /// The meaning of a field at this depth.
    pub(crate) fn field(&self, name: &str, depth: usize) -> Option<TaskField> {
        Some(match name {
            "type" if self.sort(depth).is_some() => TaskField::Type,
            "id" => TaskField::Id,
            "title" => TaskField::Title,
            "status" => TaskField::Status,
            "priority" => TaskField::Priority,
            "documents" => TaskField::Documents,
            "document_texts" => TaskField::DocumentTexts,
            "check" => TaskField::Check,
            "result" => TaskField::Result,
            name if name == self.depends => TaskField::Depends,
            "dependency_types" if !self.exact => TaskField::DependencyTypes,
            name if name == self.details(depth) => TaskField::Details,
            name if Some(name) == self.children(depth) => TaskField::Children,
            _ => return None,
        })
    }

    /// The fields of a task that did not come from this format, with fixed values for some.
    pub(crate) fn usual(&self, depth: usize) -> Vec<(&'static str, Option<String>)> {
        if self.form != TaskListForm::Prp {
            return vec![("id", None), ("title", None), ("status", None)];
        }
        let sort = self.sort(depth).map(|sort| format!("\"{sort}\""));
        let mut usual = vec![("type", sort), ("id", None), ("title", None), ("status", None)];
        match self.children(depth) {
            Some(children) => usual.extend([(self.details(depth), None), (children, None)]),
            None => usual.extend([
                ("story_points", Some("1".to_owned())),
                (self.depends, None),
                (self.details(depth), None),
            ]),
        }
        usual
    }
}
