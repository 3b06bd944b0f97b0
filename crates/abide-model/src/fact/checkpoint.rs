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

/// `checkpoint.created`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Checkpoint {
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
    /// The digest of the state just before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The version of the fold that gave the digest.
    #[serde(default)]
    pub fold: u32,
    /// The workspace snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ObjectHash>,
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

/// `session.rewound`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewind {
    /// The last event that stays live.
    pub to: Seq,
    /// Whether the files went back too.
    #[serde(default)]
    pub files: bool,
    /// The snapshot taken of the files before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety: Option<ObjectHash>,
}
