//! What a document says about a task apart from its position and status: what identifies the task.

use std::collections::BTreeMap;

use crate::mark_digits::{is_same_but_for_marks, without_mark_digits};
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

    /// Whether it says the same, if a mark may stand for something that the other says.
    pub(crate) fn is_same_but_for_marks(&self, other: &Self) -> bool {
        let sizes = |content: &Self| {
            let lists = [&content.details, &content.documents].map(Vec::len);
            (content.priority, lists, content.check.is_some(), content.beside.len())
        };
        let mut pairs = self.texts().zip(other.texts());
        sizes(self) == sizes(other) && pairs.all(|(one, other)| is_same_but_for_marks(one, other))
    }

    /// All that it says, in order.
    fn texts(&self) -> impl Iterator<Item = &String> {
        let beside = self.beside.iter().flat_map(|(name, raw)| [name, raw]);
        self.details.iter().chain(&self.documents).chain(&self.check).chain(beside)
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
        let comparable = |text: &str| without_mark_digits(text).into_owned();
        Self {
            details: details.lines().map(|line| comparable(line.trim_end())).collect(),
            priority: task.priority,
            documents: task.documents.iter().map(|name| comparable(name)).collect(),
            check: task.check.as_deref().map(comparable),
            beside: beside.into_iter().map(|(name, raw)| (name, comparable(&raw))).collect(),
        }
    }
}

/// Are the same texts stored with both tasks?
pub(crate) fn has_same_texts(before: &DocumentTask, task: &DocumentTask) -> bool {
    let comparable = |task: &DocumentTask| -> BTreeMap<String, String> {
        let texts = task.document_texts.iter();
        texts
            .map(|(name, text)| {
                (without_mark_digits(name).into_owned(), without_mark_digits(text).into_owned())
            })
            .collect()
    };
    if before.document_texts == task.document_texts {
        return true;
    }
    let (before, task) = (comparable(before), comparable(task));
    let mut pairs = before.iter().zip(&task);
    before.len() == task.len()
        && pairs.all(|(one, other)| one.0 == other.0 && is_same_but_for_marks(one.1, other.1))
}
