//! Facts about tasks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::DependencyTypes;
use crate::TaskId;

/// The status of a task.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Not started.
    #[default]
    Planned,
    /// Being researched.
    Researching,
    /// Being implemented.
    Implementing,
    /// Being tried again.
    Retrying,
    /// Completed.
    Complete,
    /// Failed.
    Failed,
    /// Blocked.
    Blocked,
    /// No longer needed.
    Obsolete,
}

impl TaskStatus {
    /// Every status.
    pub const ALL: [Self; 8] = [
        Self::Planned,
        Self::Researching,
        Self::Implementing,
        Self::Retrying,
        Self::Complete,
        Self::Failed,
        Self::Blocked,
        Self::Obsolete,
    ];

    /// Its name in the journal.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Researching => "researching",
            Self::Implementing => "implementing",
            Self::Retrying => "retrying",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Obsolete => "obsolete",
        }
    }

    /// Is the task over, so that nothing waits for it?
    #[must_use]
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Complete | Self::Obsolete)
    }

    /// Is the task in progress?
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Researching | Self::Implementing | Self::Retrying)
    }

    /// May it follow `before`? A complete task stays complete unless it becomes obsolete. An
    /// obsolete task may be planned again.
    #[must_use]
    pub const fn may_follow(self, before: Self) -> bool {
        match before {
            Self::Complete => matches!(self, Self::Complete | Self::Obsolete),
            Self::Obsolete => matches!(self, Self::Obsolete | Self::Planned),
            Self::Failed => !matches!(self, Self::Complete),
            _ => true,
        }
    }

    /// May it follow `before` for a task with `all` parts of which `done` are done? What follows
    /// from the parts is always legal: complete once all parts are done, planned again if one is
    /// not.
    #[must_use]
    pub const fn may_follow_with_parts(self, before: Self, (all, done): (u64, u64)) -> bool {
        let follows = match self {
            Self::Complete => done >= all,
            Self::Planned => done < all,
            _ => false,
        };
        self.may_follow(before) || all > 0 && follows
    }

    /// Does the task start when this status follows `before`?
    pub(crate) const fn begins_after(self, before: Self) -> bool {
        self.is_active() && !before.is_active()
    }

    /// Does an attempt fail when this status follows `before`: the task failed, or a task in
    /// progress is tried again? A retry after a failure does not count, because the failure did.
    pub(crate) const fn fails_after(self, before: Self) -> bool {
        match self {
            Self::Failed => !matches!(before, Self::Failed),
            Self::Retrying => matches!(before, Self::Researching | Self::Implementing),
            _ => false,
        }
    }
}

/// `plan.recorded`: a task list was recorded. Its tasks follow.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TaskListRecord {
    /// The format of its document: `prp`, `markdown`, `toml` or `json`.
    pub form: String,
    /// The title of the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The rest of the document, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Box<RawValue>>,
}

/// `task.created`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TaskCreated {
    /// Its id.
    pub task: TaskId,
    /// Its title, in one line.
    #[serde(default)]
    pub title: String,
    /// The task it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// The tasks it depends on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<TaskId>,
    /// The types of these dependencies, where they do not just block.
    #[serde(default, skip_serializing_if = "DependencyTypes::is_empty")]
    pub dependency_types: DependencyTypes,
    /// Its priority; higher goes first.
    #[serde(default)]
    pub priority: i64,
    /// Its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// Related documents: paths or URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<String>,
    /// The texts of those that are stored with it, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub document_texts: BTreeMap<String, String>,
    /// A shell command that decides whether it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Fields that only another system understands, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Box<RawValue>>,
}

/// Does a check say anything?
#[must_use]
pub fn is_check(command: &str) -> bool {
    !command.trim().is_empty()
}

/// `task.changed`: the new values of the fields that change.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TaskChange {
    /// The task.
    pub task: TaskId,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tasks it depends on, replacing all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends: Option<Vec<TaskId>>,
    /// The types of these dependencies, where they do not just block. Nothing without `depends`.
    #[serde(default, skip_serializing_if = "DependencyTypes::is_empty")]
    pub dependency_types: DependencyTypes,
    /// Its priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// Related documents, replacing all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Vec<String>>,
    /// The texts of those that are stored with it, by their names. Nothing without `documents`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub document_texts: BTreeMap<String, String>,
    /// Its check; without a word in it, the task has none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
}

/// `task.status`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TaskStatusChange {
    /// The task.
    pub task: TaskId,
    /// The new status.
    pub status: TaskStatus,
    /// Another system's word for the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
}
