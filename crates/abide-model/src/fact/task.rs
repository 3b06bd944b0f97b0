//! Facts about tasks.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::TaskId;

/// Where a task stands.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Not begun.
    #[default]
    Planned,
    /// Being looked into.
    Researching,
    /// Being done.
    Implementing,
    /// Being done again.
    Retrying,
    /// Done.
    Complete,
    /// Given up.
    Failed,
    /// Cannot go on.
    Blocked,
    /// No longer wanted.
    Obsolete,
}

impl TaskStatus {
    /// Every one.
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

    /// The name under which it is written.
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

    /// Is it over, so that nothing waits for it any more?
    #[must_use]
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Complete | Self::Obsolete)
    }

    /// Is somebody at it?
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Researching | Self::Implementing | Self::Retrying)
    }

    /// May it come after `before`? What is complete stays so, unless it becomes obsolete; what
    /// is obsolete may be planned anew.
    #[must_use]
    pub const fn may_follow(self, before: Self) -> bool {
        match before {
            Self::Complete => matches!(self, Self::Complete | Self::Obsolete),
            Self::Obsolete => matches!(self, Self::Obsolete | Self::Planned),
            Self::Failed => !matches!(self, Self::Complete),
            _ => true,
        }
    }

    /// May it come after `before` for a task that has so many parts, so many of them done? What
    /// follows from the parts is always legal: complete when all of them are done, planned again
    /// when one is not.
    #[must_use]
    pub const fn may_follow_with_parts(self, before: Self, (all, done): (u64, u64)) -> bool {
        let follows = match self {
            Self::Complete => done >= all,
            Self::Planned => done < all,
            _ => false,
        };
        self.may_follow(before) || all > 0 && follows
    }

    /// Does somebody begin with it, when it comes after `before`?
    pub(crate) const fn begins_after(self, before: Self) -> bool {
        self.is_active() && !before.is_active()
    }

    /// Did it come to nothing, when this comes after `before`: it failed, or somebody who was at it
    /// does it again because it did? That it is tried again later was counted when it failed.
    pub(crate) const fn fails_after(self, before: Self) -> bool {
        match self {
            Self::Failed => !matches!(before, Self::Failed),
            Self::Retrying => matches!(before, Self::Researching | Self::Implementing),
            _ => false,
        }
    }
}

/// `plan.recorded`: a plan was taken in. Its tasks follow.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PlanRecord {
    /// The form of its document: `prp`, `markdown`, `toml` or `json`.
    pub form: String,
    /// What its document calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What else the document says, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Box<RawValue>>,
}

/// `task.created`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Created {
    /// Its id.
    pub task: TaskId,
    /// What is to be done, in a line.
    #[serde(default)]
    pub title: String,
    /// The task it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// What must be done before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<TaskId>,
    /// Greater goes first.
    #[serde(default)]
    pub priority: i64,
    /// What is to be done, at length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// Documents that belong to it: paths or addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<String>,
    /// What the plan of another system says of it, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Box<RawValue>>,
}

/// `task.changed`: what is given is now so.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TaskChange {
    /// Which task.
    pub task: TaskId,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What must be done before, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends: Option<Vec<TaskId>>,
    /// Its priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// What is to be done, at length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// Documents that belong to it, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Vec<String>>,
}

/// `task.status`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TaskStatusChange {
    /// Which task.
    pub task: TaskId,
    /// Where it stands now.
    pub status: TaskStatus,
    /// The word another system uses for it, kept beside ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
}
