//! A plan and its tasks.

use abide_model::{
    InputError, NewEvent, PlanRecord, TaskCreated, TaskId, TaskStatus, TaskStatusChange,
};
use serde_json::value::RawValue;

use crate::arrange::MAX_BYTES;
use crate::{PlanError, PlanForm, json, markdown, toml};

/// The tasks of a document, each before its parts, in the order of the document.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The form that it came in.
    pub form: PlanForm,
    /// What people call it.
    pub title: Option<String>,
    /// Its tasks.
    pub tasks: Vec<PlanTask>,
    /// The rest of the document, by the name of its form.
    pub foreign: Option<Box<RawValue>>,
}

/// A task of a plan.
#[derive(Debug, Clone, Default)]
pub struct PlanTask {
    /// Its id.
    pub id: TaskId,
    /// What is to be done, in a line.
    pub title: String,
    /// The task it is a part of.
    pub parent: Option<TaskId>,
    /// What must be done before.
    pub depends: Vec<TaskId>,
    /// Greater goes first.
    pub priority: i64,
    /// What is to be done, at length.
    pub details: Option<String>,
    /// Documents that belong to it.
    pub documents: Vec<String>,
    /// Where it stands.
    pub status: TaskStatus,
    /// The word another system uses for that, where it is not ours.
    pub foreign_status: Option<String>,
    /// Why it stands there.
    pub reason: Option<String>,
    /// What came of it.
    pub result: Option<Box<RawValue>>,
    /// What else the document says of it, by the name of the document's form.
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

    /// Writes it as a document. What only another form can say is left out, and so are the tasks
    /// that were taken out of the document.
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

    /// The events that tell it: the plan; each task, parents first; then where those stand that
    /// are not just planned, parts first.
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

    /// The event that tells of it without its tasks, which come right behind.
    pub fn recorded(&self) -> Result<NewEvent, InputError> {
        NewEvent::try_from(PlanRecord {
            form: self.form.to_string(),
            title: self.title.clone(),
            foreign: self.foreign.clone(),
        })
    }
}

impl PlanTask {
    /// The fact that creates it.
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

    /// The fact of where it stands.
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

    /// The event that creates it.
    pub fn created(&self) -> Result<NewEvent, InputError> {
        Ok(NewEvent::try_from(self.fact())?.for_task(self.id.as_str()))
    }

    /// The event that says where it stands; none where it is only planned.
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

/// What a document of this form says beside what a plan knows.
pub(crate) fn foreign_of(foreign: Option<&RawValue>, form: PlanForm) -> Option<Box<RawValue>> {
    let mut fields = json::fields(foreign?.get())?;
    let place = fields.iter().position(|(name, _)| name == form.as_str())?;
    Some(fields.swap_remove(place).1.to_owned())
}

/// The same, to keep: under the name of its form.
pub(crate) fn as_foreign(form: PlanForm, json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(format!("{{\"{form}\":{json}}}")).ok()
}
