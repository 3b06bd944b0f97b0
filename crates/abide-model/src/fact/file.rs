//! Facts about files and artifacts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ObjectHash, TaskId};

/// An operation on a file.
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
    /// Its name in the journal.
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
    /// Its path, relative to the workspace.
    pub path: String,
    /// The operation.
    pub op: FileOp,
    /// Its new path, for a rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The hash of its content before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ObjectHash>,
    /// The hash of its content after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ObjectHash>,
}

/// `artifact.recorded`: the result of a build or a test.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Artifact {
    /// Its name.
    pub name: String,
    /// `build`, `test`, or another word.
    #[serde(default)]
    pub kind: String,
    /// The task it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Whether it succeeded.
    #[serde(default = "yes")]
    pub ok: bool,
    /// The object with its content, if stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectHash>,
    /// The command that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The command's exit code; `None` if a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// What the command printed; the end of it, if that is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// How many bytes of it were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// What it counted, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<ArtifactCounts>,
}

/// What a test or a build counted. A count that is not known is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ArtifactCounts {
    /// Tests that passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<u64>,
    /// Tests that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Tests that were not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// Errors of a compiler, and tests that could not be loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// Warnings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<u64>,
}

impl ArtifactCounts {
    /// Is nothing known?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for ArtifactCounts {
    /// `12 passed, 1 failed`; what is zero is left out, except that nothing passed.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.passed, "passed"),
            (self.failed.filter(|count| *count > 0), "failed"),
            (self.skipped.filter(|count| *count > 0), "skipped"),
            (self.errors.filter(|count| *count > 0), "errors"),
            (self.warnings.filter(|count| *count > 0), "warnings"),
        ];
        let mut separator = "";
        for (count, what) in counts {
            if let Some(count) = count {
                write!(out, "{separator}{count} {what}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

const fn yes() -> bool {
    true
}
