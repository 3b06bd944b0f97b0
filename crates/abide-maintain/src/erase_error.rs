//! Why something was not erased or collected, and what was.

use abide_model::{Kind, ObjectHash, Seq, SessionId, StoreError};
use abide_workspace::ReachError;
use serde::Serialize;

/// Why nothing was collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// Another process is storing objects.
    #[error("a writer is storing objects")]
    Busy,
    /// It is unknown which objects a journal names.
    #[error(
        "{place} cannot be read completely ({reason}), so it is unknown which objects it names"
    )]
    Unreadable {
        /// The journal.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is unknown which objects a snapshot leads to.
    #[error("{reason}; {place} names it")]
    Snapshot {
        /// The event that names it.
        place: String,
        /// What is wrong with it.
        reason: ReachError,
    },
    /// Objects to remove are in damaged packs, whose unreadable parts may hold objects that are
    /// needed.
    #[error(
        "{objects} objects to remove are in damaged packs, which may hold objects that are needed"
    )]
    DamagedPacks {
        /// How many objects could not be removed.
        objects: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why nothing, or not everything, was erased.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// There is no such event.
    #[error("session {session} has no event {seq}")]
    NoEvent {
        /// The session.
        session: SessionId,
        /// The event.
        seq: Seq,
    },
    /// The event determines how the session is read.
    #[error(
        "event {seq} is a {kind}, which determines how the session is read and cannot be erased"
    )]
    Structural {
        /// The event.
        seq: Seq,
        /// Its kind.
        kind: Kind,
    },
    /// A damaged journal is not rewritten.
    #[error("{place} is damaged ({reason}); a damaged journal is not rewritten")]
    Damaged {
        /// The place of the damage.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The payloads were erased, their objects were not.
    #[error("the payloads were erased from the journal, but their objects were not removed")]
    Objects(#[source] CollectError),
    /// Objects that nothing names are still there, or some of them.
    #[error("some objects that nothing refers to could not be erased")]
    Unnamed(#[source] CollectError),
    /// Nothing was done.
    #[error("nothing was erased")]
    NotBegun(#[source] CollectError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What was erased.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EraseOutcome {
    /// The number of payloads.
    pub payloads: u64,
    /// The number of objects removed: payloads, snapshots, and the files of snapshots.
    pub objects: u64,
    /// Payloads and snapshots that stay because something else names them.
    pub shared: Vec<ObjectHash>,
    /// The first events that name those.
    pub named_by: Vec<(SessionId, Seq)>,
    /// The number of snapshot files that stay because other checkpoints hold them.
    pub shared_files: u64,
    /// Notes: earlier erasures that cannot be finished, and names without an object.
    pub notes: Vec<String>,
}

/// What was left of removed sessions and interrupted imports, and has been deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// The number of sessions.
    pub sessions: u64,
    /// The number of imports.
    pub imports: u64,
    /// Imports that are running, and may bring in what is to be erased.
    pub notes: Vec<String>,
}
