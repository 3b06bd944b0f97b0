//! Errors that concern a workspace as a whole. A single file that cannot be captured is an
//! [`Omission`](crate::Omission), not an error.

use std::io;
use std::path::PathBuf;

use abide_model::StoreError;

use crate::compare::read::ReadError;

/// Why a snapshot was not taken or a restore was not planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// This directory cannot be a workspace.
    #[error("{} cannot be a workspace: {why}", root.display())]
    Refused {
        /// The directory.
        root: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// A pattern in the policy is invalid.
    #[error("invalid pattern {pattern:?} under [workspace] {list}: {reason}")]
    Pattern {
        /// `include` or `exclude`.
        list: &'static str,
        /// The pattern as written.
        pattern: String,
        /// The matcher's message.
        reason: String,
    },
    /// The disk that holds the store is nearly full.
    #[error(
        "the disk of {} has {free} bytes free, but {floor} are required: \
         free some space, or lower min_free_bytes under [workspace]",
        place.display()
    )]
    LowDisk {
        /// The store's directory.
        place: PathBuf,
        /// Bytes free.
        free: u64,
        /// The required number of free bytes.
        floor: u64,
    },
    /// The snapshot was cancelled. Nothing has changed.
    #[error("the snapshot was cancelled")]
    Cancelled,
    /// A file system operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The path it failed on.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A snapshot cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl WorkspaceError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::Io { action, path: path.into(), source: source.into() }
    }
}
