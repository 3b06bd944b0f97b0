//! Files touched and artifacts made.

use serde::{Deserialize, Serialize};

use crate::{ObjectHash, TaskId};

/// What was done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileOp {
    /// Read.
    Read,
    /// Created or written.
    Write,
    /// Deleted.
    Delete,
    /// Renamed.
    Rename,
}

impl FileOp {
    /// The name under which it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Rename => "rename",
        }
    }
}

/// `file.touched`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileTouch {
    /// Which file, from the workspace.
    pub path: String,
    /// What was done.
    pub op: FileOp,
    /// Its new path, for a rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The hash of what it held before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ObjectHash>,
    /// The hash of what it holds now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ObjectHash>,
}

/// `artifact.recorded`: something built or tested.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Artifact {
    /// What it is called.
    pub name: String,
    /// `build`, `test`, or what else.
    #[serde(default)]
    pub kind: String,
    /// The task it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Whether it went well.
    #[serde(default = "yes")]
    pub ok: bool,
    /// Its bytes, where they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectHash>,
}

const fn yes() -> bool {
    true
}
