//! Errors of reading and writing the store's files.

use std::io;
use std::path::{Path, PathBuf};

use abide_model::{SessionId, StoreError};

/// Why reading or writing failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// An I/O operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file has a newer format version.
    #[error("{} is of version {found}; this program knows {known}", path.display())]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version this program reads.
        known: u64,
    },
    /// A file holds something invalid.
    #[error("{} is damaged at byte {offset}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset in the file.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The parent of a fork is not in the store.
    #[error("session {session} was forked from session {parent}, which is not in this store")]
    NoParent {
        /// The fork.
        session: SessionId,
        /// Its parent.
        parent: SessionId,
    },
    /// The session's lock file was replaced, or another writer wrote to the journal.
    #[error("another writer has taken over: {reason}")]
    Fenced {
        /// How it was noticed.
        reason: &'static str,
    },
    /// The underlying store refused the lines.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The writer stopped earlier.
    #[error("the writer has stopped: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
    /// The writer is closed.
    #[error("the writer is closed")]
    Closed,
}

impl JournalError {
    /// Wraps an I/O error with the operation and the path, which is copied only then.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}
