//! Why a task list cannot be read or written.

use crate::TaskListForm;

/// Why a task list cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskListError {
    /// Not UTF-8.
    #[error("the task list is not UTF-8 (first bad byte at {at})")]
    NotUtf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// Its file name does not tell its format.
    #[error("cannot tell the format of {name:?} (expected .md, .json or .toml)")]
    UnknownForm {
        /// The file name.
        name: String,
    },
    /// Too large.
    #[error("the task list is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Invalid syntax.
    #[error("the task list is not valid {form}: {reason}")]
    Syntax {
        /// The expected format.
        form: &'static str,
        /// The parser's message, with line and column.
        reason: String,
    },
    /// A model's answer has none.
    #[error("the answer holds no complete JSON object with `tasks`")]
    NoList,
    /// Something in it is wrong.
    #[error("{place}: {fault}")]
    Fault {
        /// Where: a path such as `$.backlog[0].milestones[1].title`, or `line 7`.
        place: String,
        /// What is wrong.
        fault: TaskListFault,
    },
    /// It cannot be written in this format.
    #[error("task {task:?} cannot be written as {form}: {reason}")]
    Unwritable {
        /// The task.
        task: String,
        /// The format.
        form: TaskListForm,
        /// Why.
        reason: &'static str,
    },
}

/// What the type of a dependency must be.
pub(crate) const DEPENDENCY_TYPES: &str = "\"blocks\", \"needs-result\" or \"soft\"";

/// The texts of documents have the wrong form.
pub(crate) const DOCUMENT_TEXTS: TaskListFault =
    TaskListFault::Not { wanted: "a table of document names and texts" };
/// A text contains a zero byte, so no agent can be told it.
pub(crate) const ZERO_BYTE: TaskListFault =
    TaskListFault::Not { wanted: "text without zero bytes" };
/// There is a text of something that is not one of the task's documents.
pub(crate) const STRAY_TEXT: TaskListFault =
    TaskListFault::Not { wanted: "limited to the names in `documents`" };

/// What is wrong at some place of a task list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskListFault {
    /// A required field is missing.
    #[error("it is missing")]
    Missing,
    /// A field has the wrong type or value.
    #[error("it must be {wanted}")]
    Not {
        /// What is expected.
        wanted: &'static str,
    },
    /// A field occurs twice in one object.
    #[error("duplicate field")]
    Twice,
    /// The format does not have this field.
    #[error("unknown field ({known})")]
    UnknownField {
        /// The fields that it has.
        known: &'static str,
    },
    /// Not a status.
    #[error(
        "invalid status {word:?} (Planned, Researching, Implementing, Retrying, In Progress, Complete, Failed, Blocked, Obsolete)"
    )]
    Status {
        /// The word.
        word: String,
    },
    /// Two tasks have the same id.
    #[error("task id {id:?} is already used by {other}")]
    TakenId {
        /// The id.
        id: String,
        /// Where the other task is.
        other: String,
    },
    /// It refers to a task that does not exist.
    #[error("there is no task {name:?}")]
    NoTask {
        /// The name as given.
        name: String,
    },
    /// It refers to more than one task.
    #[error("{name:?} is ambiguous; use the id of the task")]
    Ambiguous {
        /// The name as given.
        name: String,
    },
    /// It gives the type of a dependency that the task does not have.
    #[error("the task does not depend on {name:?}")]
    NoDependency {
        /// The name as given.
        name: String,
    },
    /// Tasks wait for each other.
    #[error("these tasks wait for each other: {}", tasks.join(" → "))]
    Cycle {
        /// Each task waits for the next.
        tasks: Vec<String>,
    },
    /// A task is part of itself.
    #[error("this task is part of itself")]
    ParentCycle,
    /// Nested too deeply.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// Too many tasks.
    #[error("more than {limit} tasks")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}

impl TaskListError {
    pub(crate) fn at(place: impl Into<String>, fault: TaskListFault) -> Self {
        Self::Fault { place: place.into(), fault }
    }

    /// A short, stable code for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotUtf8 { .. } => "not_utf8",
            Self::UnknownForm { .. } => "unknown_form",
            Self::TooLarge { .. } => "too_large",
            Self::Syntax { .. } => "syntax",
            Self::NoList => "no_list",
            Self::Fault { .. } => "fault",
            Self::Unwritable { .. } => "unwritable",
        }
    }
}
