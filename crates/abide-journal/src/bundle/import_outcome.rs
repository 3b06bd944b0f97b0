//! Outcomes and errors of importing and exporting bundles.

use abide_model::{ReadFinding, Seq, SessionId, StoreError};

use super::{BundleError, BundleHeader};

/// Why a bundle was not imported. The sessions in the store are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is not a bundle, or not a complete one.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The session in the store and the one in the bundle have diverged.
    #[error("session {session} has diverged: event {seq} differs from the bundle")]
    Diverged {
        /// The session.
        session: SessionId,
        /// The first event that differs.
        seq: Seq,
    },
    /// The session in the bundle is a fork, and its parent is not in the store.
    #[error(
        "session {session} goes on from event {seq} of session {parent}, which is not in this store"
    )]
    NoParent {
        /// The session in the bundle.
        session: SessionId,
        /// The parent.
        parent: SessionId,
        /// The last event that they share.
        seq: Seq,
    },
    /// Another session in the store has the same client key; a key names only one session.
    #[error("session {session} already has the key {key:?} of the bundled session")]
    KeyTaken {
        /// The key.
        key: String,
        /// The session that has it.
        session: SessionId,
    },
    /// There is not enough free space.
    #[error("it unpacks to {needed} bytes, but the store has only {free} free")]
    NoRoom {
        /// The bytes it needs.
        needed: u64,
        /// The bytes that are free.
        free: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the import of a bundle did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportOutcome {
    /// The session was created.
    Made,
    /// The session was fast-forwarded: the events after `from` were added.
    Forwarded {
        /// The last event that was already in the store.
        from: Seq,
    },
    /// The session in the store is identical to the bundle.
    Same,
    /// The session in the store has more events than the bundle.
    Behind {
        /// The last event in the store.
        here: Seq,
    },
}

/// A bundle that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedBundle {
    /// What it holds.
    pub bundle: BundleHeader,
    /// What became of it.
    pub outcome: ImportOutcome,
    /// Events that are erased in the bundle but not in the store. An import erases nothing.
    pub unerased: Vec<Seq>,
    /// Events whose data is in the bundle and was erased in the store before: it was left out.
    pub kept_erased: Vec<Seq>,
    /// Events whose data was erased in the store before and is there again, since the import was told
    /// to bring it back.
    pub brought_back: Vec<Seq>,
    /// What was found, and possibly repaired, in the existing session.
    pub notes: Vec<ReadFinding>,
}

impl ImportedBundle {
    /// Whether the session was created.
    #[must_use]
    pub const fn made(bundle: BundleHeader) -> Self {
        Self {
            bundle,
            outcome: ImportOutcome::Made,
            unerased: Vec::new(),
            kept_erased: Vec::new(),
            brought_back: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Why a session was not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A part of the session is unreadable, and a bundle holds whole sessions only.
    #[error("session {session} is damaged, and a bundle holds whole sessions only: {reason}")]
    Damaged {
        /// The session.
        session: SessionId,
        /// What is unreadable.
        reason: String,
    },
    /// The end of the session disappeared while it was read: a write failed.
    #[error("session {session} changed while it was read")]
    Changed {
        /// The session.
        session: SessionId,
    },
    /// The bundle could not be written.
    #[error("cannot write the bundle of session {session}")]
    Bundle {
        /// The session.
        session: SessionId,
        /// The cause.
        #[source]
        source: BundleError,
    },
    /// The store could not read the session.
    #[error(transparent)]
    Store(#[from] StoreError),
}
