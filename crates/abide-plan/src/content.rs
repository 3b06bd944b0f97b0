//! What a document says of a task, apart from where it stands: what makes it this task and no
//! other.

use crate::plan::foreign_of;
use crate::{PlanForm, PlanTask, json};

/// What is to be done, in a form that can be compared. What a task waits for is no part of it: ids
/// mean something only within one plan.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    details: Vec<String>,
    priority: i64,
    documents: Vec<String>,
    /// What only the document's own system understands.
    beside: Vec<(String, String)>,
}

impl Content {
    /// Of a task at this depth of a document; without a form, what is foreign is left out.
    pub(crate) fn of(task: &PlanTask, form: Option<PlanForm>, depth: usize) -> Self {
        let details = task.details.as_deref().unwrap_or_default().trim();
        let kept = form.and_then(|form| Some((form, foreign_of(task.foreign.as_deref(), form)?)));
        let beside = match kept {
            Some((PlanForm::Prp, kept)) => json::beside(&json::PRP, kept.get(), depth),
            Some((PlanForm::Json, kept)) => json::beside(&json::PLAIN, kept.get(), depth),
            Some((PlanForm::Toml, kept)) => vec![(String::new(), kept.get().to_owned())],
            // How a task is written is not what it is.
            Some((PlanForm::Markdown, _)) | None => Vec::new(),
        };
        Self {
            details: details.lines().map(|line| line.trim_end().to_owned()).collect(),
            priority: task.priority,
            documents: task.documents.clone(),
            beside,
        }
    }
}
