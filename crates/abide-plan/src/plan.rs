//! A task list and its tasks.

use abide_model::{
    InputError, NewEvent, PlanRecord, TaskCreated, TaskId, TaskStatus, TaskStatusChange,
};
use serde_json::value::RawValue;

use crate::arrange::MAX_BYTES;
use crate::{PlanError, PlanForm, json, markdown, toml};

/// The tasks of a document in its order, each before its parts.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The format it was read from.
    pub form: PlanForm,
    /// Its title.
    pub title: Option<String>,
    /// Its tasks.
    pub tasks: Vec<PlanTask>,
    /// The rest of the document, under the name of its format.
    pub foreign: Option<Box<RawValue>>,
}

/// A task of a task list.
#[derive(Debug, Clone, Default)]
pub struct PlanTask {
    /// Its id.
    pub id: TaskId,
    /// Its title, in one line.
    pub title: String,
    /// The task it is part of.
    pub parent: Option<TaskId>,
    /// The tasks it depends on.
    pub depends: Vec<TaskId>,
    /// Its priority; higher goes first.
    pub priority: i64,
    /// Its description.
    pub details: Option<String>,
    /// Related documents.
    pub documents: Vec<String>,
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

impl Plan {
    /// Reads a document.
    pub fn read(form: PlanForm, bytes: &[u8]) -> Result<Self, PlanError> {
        if bytes.len() > MAX_BYTES {
            return Err(PlanError::TooLarge { limit: MAX_BYTES });
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|error| PlanError::NotUtf8 { at: error.valid_up_to() })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match form {
            PlanForm::Prp => json::read(&json::PRP, text),
            PlanForm::Json => json::read(&json::PLAIN, text),
            PlanForm::Markdown => markdown::read(text),
            PlanForm::Toml => toml::read(text),
        }
    }

    /// Writes it as a document. Omits what only another format can express, and tasks that were
    /// removed from the document.
    pub fn write(&self, form: PlanForm) -> Result<String, PlanError> {
        let without;
        let mut plan = self;
        if plan.tasks.iter().any(PlanTask::is_removed) {
            without = plan.without_removed();
            plan = &without;
        }
        match form {
            PlanForm::Prp => json::write(&json::PRP, plan),
            PlanForm::Json => json::write(&json::PLAIN, plan),
            PlanForm::Markdown => markdown::write(plan),
            PlanForm::Toml => toml::write(plan),
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
        NewEvent::try_from(PlanRecord {
            form: self.form.to_string(),
            title: self.title.clone(),
            foreign: self.foreign.clone(),
        })
    }
}

impl PlanTask {
    /// The fact that creates the task.
    #[must_use]
    pub fn fact(&self) -> TaskCreated {
        TaskCreated {
            task: self.id.clone(),
            title: self.title.clone(),
            parent: self.parent.clone(),
            depends: self.depends.clone(),
            priority: self.priority,
            details: self.details.clone(),
            documents: self.documents.clone(),
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
pub(crate) fn foreign_of(foreign: Option<&RawValue>, form: PlanForm) -> Option<Box<RawValue>> {
    let mut fields = json::fields(foreign?.get())?;
    let place = fields.iter().position(|(name, _)| name == form.as_str())?;
    Some(fields.swap_remove(place).1.to_owned())
}

/// Fields to keep, under the name of their format.
pub(crate) fn as_foreign(form: PlanForm, json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(format!("{{\"{form}\":{json}}}")).ok()
}
