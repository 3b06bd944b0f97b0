//! A task list and its tasks.

use std::collections::BTreeMap;

use abide_model::{
    DependencyTypes, InputError, NewEvent, TaskCreated, TaskId, TaskListRecord, TaskStatus,
    TaskStatusChange,
};
use serde_json::value::RawValue;

use crate::arrange::MAX_BYTES;
use crate::{TaskListError, TaskListForm, json, markdown, toml};

/// The tasks of a document in its order, each before its parts.
#[derive(Debug, Clone)]
pub struct TaskList {
    /// The format it was read from.
    pub form: TaskListForm,
    /// Its title.
    pub title: Option<String>,
    /// Its tasks.
    pub tasks: Vec<DocumentTask>,
    /// The rest of the document, under the name of its format.
    pub foreign: Option<Box<RawValue>>,
}

/// A task of a task list.
#[derive(Debug, Clone, Default)]
pub struct DocumentTask {
    /// Its id.
    pub id: TaskId,
    /// Its title, in one line.
    pub title: String,
    /// The task it is part of.
    pub parent: Option<TaskId>,
    /// The tasks it depends on.
    pub depends: Vec<TaskId>,
    /// The types of these dependencies, where they do not just block.
    pub dependency_types: DependencyTypes,
    /// Its priority; higher goes first.
    pub priority: i64,
    /// Its description.
    pub details: Option<String>,
    /// Related documents.
    pub documents: Vec<String>,
    /// The texts of those that are stored with it, by their names.
    pub document_texts: BTreeMap<String, String>,
    /// A shell command that decides whether it is done.
    pub check: Option<String>,
    /// Its status.
    pub status: TaskStatus,
    /// Another system's word for the status, if it differs from ours.
    pub foreign_status: Option<String>,
    /// The reason for the status.
    pub reason: Option<String>,
    /// Its result.
    pub result: Option<Box<RawValue>>,
    /// The rest of what the document says about it, under the name of the format.
    pub foreign: Option<Box<RawValue>>,
}

impl TaskList {
    /// Reads a document.
    pub fn read(form: TaskListForm, bytes: &[u8]) -> Result<Self, TaskListError> {
        if bytes.len() > MAX_BYTES {
            return Err(TaskListError::TooLarge { limit: MAX_BYTES });
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|error| TaskListError::NotUtf8 { at: error.valid_up_to() })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match form {
            TaskListForm::Prp => json::read_json(&json::PRP, text),
            TaskListForm::Json => json::read_json(&json::PLAIN, text),
            TaskListForm::Markdown => markdown::read_markdown(text),
            TaskListForm::Toml => toml::read_toml(text),
        }
    }

    /// Writes it as a document. Omits what only another format can express, and tasks that were
    /// removed from the document.
    pub fn write(&self, form: TaskListForm) -> Result<String, TaskListError> {
        let without;
        let mut plan = self;
        if plan.tasks.iter().any(DocumentTask::is_removed) {
            without = plan.without_removed();
            plan = &without;
        }
        match form {
            TaskListForm::Prp => json::write_json(&json::PRP, plan),
            TaskListForm::Json => json::write_json(&json::PLAIN, plan),
            TaskListForm::Markdown => markdown::write_markdown(plan),
            TaskListForm::Toml => toml::write_toml(plan),
        }
    }

    /// The events that record it: the task list; each task, parents first; then the status of every
    /// task that is not just planned, parts first.
    pub fn events(&self) -> Result<Vec<NewEvent>, InputError> {
        let mut events = Vec::with_capacity(self.tasks.len() + 1);
        events.push(self.recorded()?);
        for task in &self.tasks {
            events.push(task.created()?);
        }
        for task in self.tasks.iter().rev() {
            events.extend(task.standing()?);
        }
        Ok(events)
    }

    /// The event that records the task list itself. Its tasks must follow directly.
    pub fn recorded(&self) -> Result<NewEvent, InputError> {
        NewEvent::try_from(TaskListRecord {
            form: self.form.to_string(),
            title: self.title.clone(),
            foreign: self.foreign.clone(),
        })
    }
}

impl DocumentTask {
    /// The fact that creates the task.
    #[must_use]
    pub fn fact(&self) -> TaskCreated {
        TaskCreated {
            task: self.id.clone(),
            title: self.title.clone(),
            parent: self.parent.clone(),
            depends: self.depends.clone(),
            dependency_types: self.dependency_types.clone(),
            priority: self.priority,
            details: self.details.clone(),
            documents: self.documents.clone(),
            document_texts: self.document_texts.clone(),
            check: self.check.clone(),
            foreign: self.foreign.clone(),
        }
    }

    /// The fact that sets its status.
    #[must_use]
    pub fn standing_fact(&self) -> TaskStatusChange {
        TaskStatusChange {
            task: self.id.clone(),
            status: self.status,
            foreign: self.foreign_status.clone(),
            reason: self.reason.clone(),
            result: self.result.clone(),
        }
    }

    /// The event that creates the task.
    pub fn created(&self) -> Result<NewEvent, InputError> {
        Ok(NewEvent::try_from(self.fact())?.for_task(self.id.as_str()))
    }

    /// The event that sets its status; `None` if it is only planned.
    pub fn standing(&self) -> Result<Option<NewEvent>, InputError> {
        if self.status == TaskStatus::Planned
            && self.foreign_status.is_none()
            && self.result.is_none()
        {
            return Ok(None);
        }
        Ok(Some(NewEvent::try_from(self.standing_fact())?.for_task(self.id.as_str())))
    }
}

/// The kept fields of a document in this format.
pub(crate) fn foreign_of(foreign: Option<&RawValue>, form: TaskListForm) -> Option<Box<RawValue>> {
    let mut fields = json::json_object_fields(foreign?.get())?;
    let place = fields.iter().position(|(name, _)| name == form.as_str())?;
    Some(fields.swap_remove(place).1.to_owned())
}

/// Fields to keep, under the name of their format.
pub(crate) fn as_foreign(form: TaskListForm, json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(format!("{{\"{form}\":{json}}}")).ok()
}
