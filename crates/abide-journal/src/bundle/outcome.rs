//! What becomes of a bundle that is made or taken in, and why it may not be.

use abide_model::{ReadNote, Seq, SessionId, StoreError};

use super::{BundleError, BundleHeader};

/// Why a bundle was not taken in. The sessions here are as they were.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is not a bundle, or not a whole one.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The session here and the one in the bundle have gone different ways.
    #[error("session {session} has diverged: event {seq} here is another than in the bundle")]
    Diverged {
        /// Which session.
        session: SessionId,
        /// The first event that differs.
        seq: Seq,
    },
    /// The session in the bundle shares the past of another one, and that is not here.
    #[error(
        "session {session} goes on from event {seq} of session {parent}, which is not in this store"
    )]
    NoParent {
        /// The session in the bundle.
        session: SessionId,
        /// What it was forked from.
        parent: SessionId,
        /// The last event that they share.
        seq: Seq,
    },
    /// Another session here has the client's key, and a key leads to one session.
    #[error("session {session} here has the key {key:?} of the session in the bundle")]
    KeyTaken {
        /// The key.
        key: String,
        /// Who has it.
        session: SessionId,
    },
    /// There is not enough room for what it unpacks to.
    #[error("it unpacks to {needed} bytes, and {free} are free where the store is")]
    NoRoom {
        /// The bytes that it would take.
        needed: u64,
        /// The bytes that are free.
        free: u64,
    },
    /// The store could not take it in.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What became of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportOutcome {
    /// The session was not here.
    Made,
    /// The session was here up to this event, and has now what came after it.
    Forwarded {
        /// The last event that was here.
        from: Seq,
    },
    /// The session is here as it is in the bundle.
    Same,
    /// The session is here and has more events than in the bundle.
    Behind {
        /// The last event here.
        here: Seq,
    },
}

/// A bundle that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// What it holds.
    pub bundle: BundleHeader,
    /// What became of it.
    pub outcome: ImportOutcome,
    /// Events whose data is erased in the bundle and is still here. An import erases nothing.
    pub unerased: Vec<Seq>,
    /// What was found, and perhaps mended, in the session that was here.
    pub notes: Vec<ReadNote>,
}

impl Imported {
    /// The session was not here.
    #[must_use]
    pub const fn made(bundle: BundleHeader) -> Self {
        Self { bundle, outcome: ImportOutcome::Made, unerased: Vec::new(), notes: Vec::new() }
    }
}

/// Why a session was not put into a bundle.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A part of the session cannot be read, and a bundle holds a whole one.
    #[error("session {session} is damaged, and a bundle holds whole sessions only: {reason}")]
    Damaged {
        /// Which session.
        session: SessionId,
        /// What cannot be read.
        reason: String,
    },
    /// Its end was there and was gone again: a write that failed.
    #[error("session {session} changed while it was read")]
    Changed {
        /// Which session.
        session: SessionId,
    },
    /// The bundle could not be written.
    #[error("cannot write the bundle of session {session}")]
    Bundle {
        /// Which session.
        session: SessionId,
        /// Why.
        #[source]
        source: BundleError,
    },
    /// The store could not read the session.
    #[error(transparent)]
    Store(#[from] StoreError),
}
