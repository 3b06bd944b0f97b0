//! What can go wrong with the bytes.

use std::io;
use std::path::{Path, PathBuf};

use abide_model::{SessionId, StoreError};

/// Why the bytes could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The storage said no.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Its answer.
        #[source]
        source: io::Error,
    },
    /// A file of a newer version.
    #[error("{} is of version {found}; this program knows {known}", path.display())]
    NewerVersion {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest this program knows.
        known: u64,
    },
    /// Something is not what it should be.
    #[error("{} is damaged at byte {offset}: {reason}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// In what way.
        reason: String,
    },
    /// The session that a fork shares its past with is gone.
    #[error("session {session} was forked from session {parent}, which is not in this store")]
    NoParent {
        /// The fork.
        session: SessionId,
        /// What it was forked from.
        parent: SessionId,
    },
    /// The session's lock is no longer at its place, or somebody else wrote to the journal.
    #[error("another writer has taken over: {reason}")]
    Fenced {
        /// How it showed.
        reason: &'static str,
    },
    /// The store that the lines went to said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The writer stopped before.
    #[error("the writer stopped before: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
    /// The writer was closed.
    #[error("the writer was closed")]
    Closed,
}

impl JournalError {
    /// An error of the storage, with what was tried on what.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
