//! What is around the agent: git, processes, dependencies, logs, recovery.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CallId, ObjectHash, Seq};

/// `git.observed`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GitState {
    /// The branch; none when detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit at HEAD; none before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Paths staged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub staged: Vec<String>,
    /// Paths modified.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modified: Vec<String>,
    /// Paths untracked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untracked: Vec<String>,
    /// Paths renamed, old and new.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<(String, String)>,
    /// Why the state could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `resources.sampled`: the agent's process tree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceSample {
    /// Processes.
    pub processes: u64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// Processor time so far in milliseconds.
    pub cpu_ms: u64,
}

/// `dependencies.resolved`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DependencyResolution {
    /// The package manager.
    pub manager: String,
    /// Its lock file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lockfile: Option<String>,
    /// Package and version.
    pub packages: BTreeMap<String, String>,
}

/// `log.recorded`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogRecord {
    /// `trace`, `debug`, `info`, `warn`, `error`, or another word.
    #[serde(default)]
    pub level: String,
    /// What it says.
    pub text: String,
}

/// `recovery.performed`: what a recovery found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// How: `tail` at opening; of a repair `reconstruct`, `partial`, `checkpoint`; `undo` of a
    /// repair; `accept` by a person.
    pub strategy: String,
    /// The repair that did it, by which what it replaced is found and put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<String>,
    /// Bytes of an unacknowledged write that were cut off.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_bytes: u64,
    /// Events that were acknowledged and cannot be read: first and last of each range.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<(Seq, Seq)>,
    /// Events that were lost and are written again: first and last of each range.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reconstructed: Vec<(Seq, Seq)>,
    /// What they were written from: `transcript`, `index`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Objects that events or checkpoints name and that are lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost_objects: Vec<ObjectHash>,
    /// Calls of which nobody knows how they ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<CallId>,
    /// A person has looked: the session wants no look any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// The session wants a look by a person.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub requires_validation: bool,
    /// Anything else, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// `payload.erased`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// The event whose data is gone.
    pub seq: Seq,
    /// Its data stays, and the snapshots that it names are gone. So it is with a rewind, whose data
    /// says how the session is to be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub files: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
