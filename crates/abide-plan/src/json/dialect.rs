//! How the two forms of JSON name things.

use abide_model::TaskStatus;

use crate::{PlanForm, status};

/// The names that a form uses.
pub(crate) struct Dialect {
    pub(crate) form: PlanForm,
    /// The list at the top.
    pub(crate) root: &'static str,
    /// The field of the document's title.
    pub(crate) title: Option<&'static str>,
    /// The field of what must be done before.
    pub(crate) depends: &'static str,
    /// Must a task have an id and a status?
    pub(crate) exact: bool,
}

/// `{"backlog":[{"type":"Phase",…,"milestones":[…]}]}`.
pub(crate) const PRP: Dialect = Dialect {
    form: PlanForm::Prp,
    root: "backlog",
    title: None,
    depends: "dependencies",
    exact: true,
};

/// `{"title":…,"tasks":[{…,"tasks":[…]}]}`.
pub(crate) const PLAIN: Dialect = Dialect {
    form: PlanForm::Json,
    root: "tasks",
    title: Some("title"),
    depends: "depends",
    exact: false,
};

/// What a field of a task is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Type,
    Id,
    Title,
    Status,
    Depends,
    Details,
    Priority,
    Documents,
    Result,
    Children,
}

impl Dialect {
    /// The list of a task's parts; none where it can have none.
    pub(crate) fn children(&self, depth: usize) -> Option<&'static str> {
        match (self.form, depth) {
            (PlanForm::Prp, 0) => Some("milestones"),
            (PlanForm::Prp, 1) => Some("tasks"),
            (PlanForm::Prp, 2) => Some("subtasks"),
            (PlanForm::Prp, _) => None,
            _ => Some("tasks"),
        }
    }

    /// What a task at this depth is called.
    pub(crate) fn sort(&self, depth: usize) -> Option<&'static str> {
        match (self.form, depth) {
            (PlanForm::Prp, 0) => Some("Phase"),
            (PlanForm::Prp, 1) => Some("Milestone"),
            (PlanForm::Prp, 2) => Some("Task"),
            (PlanForm::Prp, _) => Some("Subtask"),
            _ => None,
        }
    }

    /// The field that says what is to be done at length.
    pub(crate) fn details(&self, depth: usize) -> &'static str {
        match (self.form, depth) {
            (PlanForm::Prp, 0..=2) => "description",
            (PlanForm::Prp, _) => "context_scope",
            _ => "details",
        }
    }

    /// The word for a status.
    pub(crate) fn word(&self) -> fn(TaskStatus) -> &'static str {
        if self.form == PlanForm::Prp { status::prp } else { TaskStatus::as_str }
    }

    /// What a field is, at this depth.
    pub(crate) fn field(&self, name: &str, depth: usize) -> Option<Field> {
        Some(match name {
            "type" if self.sort(depth).is_some() => Field::Type,
            "id" => Field::Id,
            "title" => Field::Title,
            "status" => Field::Status,
            "priority" => Field::Priority,
            "documents" => Field::Documents,
            "result" => Field::Result,
            name if name == self.depends => Field::Depends,
            name if name == self.details(depth) => Field::Details,
            name if Some(name) == self.children(depth) => Field::Children,
            _ => return None,
        })
    }

    /// The fields that a task has where no document says which, and what else stands there.
    pub(crate) fn usual(&self, depth: usize) -> Vec<(&'static str, Option<String>)> {
        if self.form != PlanForm::Prp {
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
