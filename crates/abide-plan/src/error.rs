//! Why a document is not a plan, or a plan not a document.

use crate::PlanForm;

/// Why a plan could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Not UTF-8.
    #[error("the plan is not UTF-8 (first bad byte at {at})")]
    NotUtf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// Its name does not tell its form.
    #[error("{name:?} does not tell the form of the plan (.md, .json or .toml)")]
    UnknownForm {
        /// The file's name.
        name: String,
    },
    /// More bytes than allowed.
    #[error("the plan is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// Not even the syntax is right.
    #[error("the plan is not {form}: {reason}")]
    Syntax {
        /// What it should be.
        form: &'static str,
        /// What the parser says, with line and column.
        reason: String,
    },
    /// Something in it is wrong.
    #[error("{place}: {fault}")]
    Fault {
        /// Where: a path such as `$.backlog[0].milestones[1].title`, or `line 7`.
        place: String,
        /// What.
        fault: PlanFault,
    },
    /// It cannot be written in this form.
    #[error("task {task:?} cannot be written as {form}: {reason}")]
    Unwritable {
        /// Which task.
        task: String,
        /// In which form.
        form: PlanForm,
        /// Why.
        reason: &'static str,
    },
}

/// What is wrong at a place of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// It must be there.
    #[error("it is missing")]
    Missing,
    /// It is something else.
    #[error("it must be {wanted}")]
    Not {
        /// What it must be.
        wanted: &'static str,
    },
    /// The same field twice in one object.
    #[error("it is there twice")]
    Twice,
    /// Not a word for a status.
    #[error(
        "{word:?} is no status (Planned, Researching, Implementing, Retrying, In Progress, Complete, Failed, Blocked, Obsolete)"
    )]
    Status {
        /// The word.
        word: String,
    },
    /// Another task has the id.
    #[error("task id {id:?} is taken already, by {other}")]
    TakenId {
        /// The id.
        id: String,
        /// Where the other one is.
        other: String,
    },
    /// It names a task that is not there.
    #[error("there is no task {name:?}")]
    NoTask {
        /// As it was named.
        name: String,
    },
    /// It names more than one task.
    #[error("more than one task is called {name:?}; name it by its id")]
    Ambiguous {
        /// As it was named.
        name: String,
    },
    /// Tasks that wait for each other.
    #[error("these tasks wait for each other: {}", tasks.join(" → "))]
    Cycle {
        /// Each waits for the next.
        tasks: Vec<String>,
    },
    /// Tasks that are parts of each other.
    #[error("this task is a part of itself")]
    ParentCycle,
    /// Nested too deep.
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

impl PlanError {
    pub(crate) fn at(place: impl Into<String>, fault: PlanFault) -> Self {
        Self::Fault { place: place.into(), fault }
    }

    /// A short, stable name for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotUtf8 { .. } => "not_utf8",
            Self::UnknownForm { .. } => "unknown_form",
            Self::TooLarge { .. } => "too_large",
            Self::Syntax { .. } => "syntax",
            Self::Fault { .. } => "fault",
            Self::Unwritable { .. } => "unwritable",
        }
    }
}
