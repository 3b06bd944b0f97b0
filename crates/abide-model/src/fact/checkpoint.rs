//! Checkpoints and rewinds.

use serde::{Deserialize, Serialize};

use crate::{GitState, ObjectHash, ResourceSample, Seq};

/// Counts of what was there at a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// Tasks in all.
    pub total_tasks: u64,
    /// Tasks done.
    pub completed_tasks: u64,
    /// Tasks somebody is at.
    pub active_tasks: u64,
    /// Files written, deleted or renamed so far.
    pub file_modifications: u64,
    /// Messages so far.
    pub messages: u64,
    /// Bytes the session takes on disk.
    pub storage_bytes: u64,
    /// Edges between tasks.
    pub dependencies: u64,
}

/// What a workspace snapshot holds, counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkspaceCounts {
    /// The directory it was taken of.
    pub root: String,
    /// Files and links.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files and directories that are there and not in it: over a cap, special, unreadable.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// Objects that were new, and the bytes they took in the store.
    pub stored: (u64, u64),
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// `checkpoint.created`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its id, which no other checkpoint has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its number; one more than the last where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What brought it about: `hand`, `turn`, `interval`, `error`, `shutdown` …
    #[serde(default)]
    pub trigger: String,
    /// Milliseconds since the session began.
    #[serde(default)]
    pub duration_ms: u64,
    /// Counts.
    #[serde(default)]
    pub manifest: Manifest,
    /// The digest of the state before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The last event of that state. Others may have been recorded between it and this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Seq>,
    /// The version of the fold that gave the digest.
    #[serde(default)]
    pub fold: u32,
    /// The workspace snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ObjectHash>,
    /// What that snapshot holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceCounts>,
    /// Why there is no snapshot although there should be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitState>,
    /// Files modified since the checkpoint before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// What the agent's processes use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceSample>,
    /// Stays when checkpoints are thinned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

/// `checkpoint.thinned`: retention let checkpoints go; their snapshots may be collected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Thinning {
    /// Their numbers.
    pub checkpoints: Vec<u64>,
}

/// `session.rewound`. It is written before the files are touched: until `files.restored` follows,
/// they may be half-way.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rewind {
    /// The last event that stays live. The one just before this, when only files go back.
    pub to: Seq,
    /// Whether the files go back too.
    #[serde(default)]
    pub files: bool,
    /// The snapshot that the files go back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ObjectHash>,
    /// The snapshot taken of the files before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety: Option<ObjectHash>,
    /// The directory whose files they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Only these paths go back; all of them where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The rewind that this one takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<Seq>,
}

/// `files.restored`: the files of a rewind are all where they should be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FilesRestored {
    /// The rewind.
    pub rewind: Seq,
    /// Files and directories made.
    #[serde(default)]
    pub created: u64,
    /// Files changed.
    #[serde(default)]
    pub changed: u64,
    /// Files and directories removed.
    #[serde(default)]
    pub deleted: u64,
    /// What could not be put back, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<(String, String)>,
}
