//! Checkpoints and rewinds.

use serde::{Deserialize, Serialize};

use super::{DependencyType, TaskStatus};
use crate::{GitState, ObjectHash, ResourceSample, Seq, TaskId};

/// Counts as of a checkpoint, and what was under way.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// Tasks in all.
    pub total_tasks: u64,
    /// Completed tasks.
    pub completed_tasks: u64,
    /// Tasks in progress.
    pub active_tasks: u64,
    /// Files written, deleted or renamed so far.
    pub file_modifications: u64,
    /// Messages so far.
    pub messages: u64,
    /// The session's size on disk.
    pub storage_bytes: u64,
    /// Dependencies between tasks.
    pub dependencies: u64,
    /// The tasks in progress, at most [`Manifest::MOST`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<ManifestTask>,
    /// What tasks that are not done depend on, at most [`Manifest::MOST`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<TaskDependency>,
}

impl Manifest {
    /// Maximum number of tasks, and of dependencies, that it names.
    pub const MOST: usize = 200;
}

/// A task in progress.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ManifestTask {
    /// Its id.
    pub task: TaskId,
    /// Its title, at most 200 characters.
    pub title: String,
    /// Its status.
    pub status: TaskStatus,
}

/// A dependency of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskDependency {
    /// The task.
    pub task: TaskId,
    /// The task that it depends on.
    pub on: TaskId,
    /// The type of the dependency.
    #[serde(rename = "type")]
    pub kind: DependencyType,
}

/// How the files of a checkpoint differ from those of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileChanges {
    /// Files and empty directories that were not there.
    pub added: u64,
    /// Files whose content, mode or type changed.
    pub changed: u64,
    /// Files and empty directories that are not there any more.
    pub removed: u64,
}

/// What a workspace snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkspaceCounts {
    /// The directory it was taken of.
    pub root: String,
    /// Files and symbolic links.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Files and directories left out: too large, special or unreadable.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// The number of new objects, and their size in the store.
    pub stored: (u64, u64),
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// `checkpoint.created`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its unique id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its number; by default one more than the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What triggered it: `hand`, `prompt`, `turn`, `interval`, `error`, `shutdown` …
    #[serde(default)]
    pub trigger: String,
    /// Milliseconds since the session began.
    #[serde(default)]
    pub duration_ms: u64,
    /// Counts.
    #[serde(default)]
    pub manifest: Manifest,
    /// The digest of the state before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The last event of that state. Other events may have been recorded in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Seq>,
    /// The version of the fold that computed the digest.
    #[serde(default)]
    pub fold: u32,
    /// The workspace snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ObjectHash>,
    /// What the snapshot holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceCounts>,
    /// Why the snapshot could not be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The state of the git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitState>,
    /// Files modified since the previous checkpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// How many files came, changed and went since the previous checkpoint, all counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<FileChanges>,
    /// Resource usage of the agent's processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceSample>,
    /// Never thinned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// The agent went on while the snapshot was taken: it may hold what was done meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

/// `checkpoint.thinned`: retention dropped checkpoints. Their snapshots may be collected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Thinning {
    /// Their numbers.
    pub checkpoints: Vec<u64>,
}

/// `session.rewound`. Recorded before the files are touched: until `files.restored` follows, they
/// may be partly restored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rewind {
    /// The last event that stays live. If only files are restored, the event just before this one.
    pub to: Seq,
    /// Whether the files are restored too.
    #[serde(default)]
    pub files: bool,
    /// The snapshot the files are restored to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ObjectHash>,
    /// The safety snapshot taken of the files before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety: Option<ObjectHash>,
    /// The workspace directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Restore only these paths; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The rewind that this one undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<Seq>,
}

/// `files.restored`: the files of a rewind are completely restored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FilesRestored {
    /// The rewind.
    pub rewind: Seq,
    /// Files and directories created.
    #[serde(default)]
    pub created: u64,
    /// Files changed.
    #[serde(default)]
    pub changed: u64,
    /// Files and directories removed.
    #[serde(default)]
    pub deleted: u64,
    /// Paths that could not be restored, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<(String, String)>,
}
