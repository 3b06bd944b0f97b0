//! What a document says about a task apart from its position and status: what identifies the task.

use crate::task_list::foreign_of;
use crate::{DocumentTask, TaskListForm, json};

/// The content of a task in a comparable form. Dependencies are left out: ids mean something only
/// within one task list.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TaskContent {
    details: Vec<String>,
    priority: i64,
    documents: Vec<String>,
    check: Option<String>,
    /// Fields that only the document's own system understands.
    beside: Vec<(String, String)>,
}

impl TaskContent {
    /// The content without the documents: some may be stored by the session, which the document does
    /// not know.
    pub(crate) fn without_documents(mut self) -> Self {
        self.documents.clear();
        self
    }

    /// The content of a task at this depth of a document. Without a format, foreign fields are left
    /// out.
    pub(crate) fn of(task: &DocumentTask, form: Option<TaskListForm>, depth: usize) -> Self {
        let details = task.details.as_deref().unwrap_or_default().trim();
        let kept = form.and_then(|form| Some((form, foreign_of(task.foreign.as_deref(), form)?)));
        let beside = match kept {
            Some((TaskListForm::Prp, kept)) => {
                json::json_fields_beside(&json::PRP, kept.get(), depth)
            }
            Some((TaskListForm::Json, kept)) => {
                json::json_fields_beside(&json::PLAIN, kept.get(), depth)
            }
            Some((TaskListForm::Toml, kept)) => vec![(String::new(), kept.get().to_owned())],
            // The spelling of a task in Markdown is not part of its content.
            Some((TaskListForm::Markdown, _)) | None => Vec::new(),
        };
        Self {
            details: details.lines().map(|line| line.trim_end().to_owned()).collect(),
            priority: task.priority,
            documents: task.documents.clone(),
            check: task.check.clone(),
            beside,
        }
    }
}
