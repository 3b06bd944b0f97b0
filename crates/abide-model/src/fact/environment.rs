//! Facts about the agent's environment: git, processes, dependencies, logs, recovery.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CallId, ObjectHash, Seq};

/// `git.observed`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GitState {
    /// The branch; `None` if HEAD is detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit at HEAD; `None` before the first commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Staged paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub staged: Vec<String>,
    /// Modified paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modified: Vec<String>,
    /// Untracked paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untracked: Vec<String>,
    /// Renamed paths, old and new.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<(String, String)>,
    /// Why the state could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `resources.sampled`: resource usage of the agent's process tree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceSample {
    /// Number of processes.
    pub processes: u64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// Processor time so far, in milliseconds.
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
    /// Package names and versions; several versions of one package are joined by commas.
    pub packages: BTreeMap<String, String>,
    /// How many packages were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Why the packages are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// `log.recorded`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogRecord {
    /// `trace`, `debug`, `info`, `warn`, `error`, or another word.
    #[serde(default)]
    pub level: String,
    /// The message.
    pub text: String,
}

/// `recovery.performed`: what a recovery found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// The strategy: `tail` when a session is opened; `reconstruct`, `partial` or `checkpoint` for
    /// a repair; `undo` of a repair; `accept` by a person.
    pub strategy: String,
    /// The id of the repair, which finds and restores what the repair replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<String>,
    /// Size of an unacknowledged write that was cut off.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_bytes: u64,
    /// Acknowledged events that cannot be read: first and last of each range.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<(Seq, Seq)>,
    /// Lost events that were written again: first and last of each range.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reconstructed: Vec<(Seq, Seq)>,
    /// What they were reconstructed from: `transcript`, `index`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Lost objects that events or checkpoints refer to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost_objects: Vec<ObjectHash>,
    /// Calls whose outcome is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<CallId>,
    /// A person has reviewed the session; it needs no more review.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// The session needs review by a person.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub requires_validation: bool,
    /// A note in words.
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
    /// The event whose data was erased.
    pub seq: Seq,
    /// The data stays, and the snapshots it refers to are gone. This is how a rewind is erased,
    /// because its data determines how the session is read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub files: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
