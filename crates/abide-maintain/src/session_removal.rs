//! A session that a cleanup removes.

use abide_model::{RemovalReason, Seq, SessionId, Timestamp};

/// A session to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRemoval {
    /// Its id.
    pub id: SessionId,
    /// Its title.
    pub title: Option<String>,
    /// What lists show it under.
    pub name: Option<String>,
    /// When it was last used.
    pub last_used: Timestamp,
    /// Its last event: a session that has more was used since.
    pub last: Seq,
    /// The bytes of its events as they are stored, its payloads, and what its checkpoints stored.
    pub bytes: u64,
    /// Why it is removed.
    pub reason: RemovalReason,
    /// The id of its project, if it has one.
    pub project: Option<String>,
}
