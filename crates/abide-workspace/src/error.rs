//! What can go wrong with a workspace as a whole. What cannot be taken of it is an
//! [`Omission`](crate::Omission), not an error.

use std::io;
use std::path::PathBuf;

use abide_model::StoreError;

use crate::compare::read::ReadError;

/// Why a snapshot was not taken, or going back to one not planned.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// This directory is never a workspace.
    #[error("{} is not taken as a workspace: {why}", root.display())]
    Refused {
        /// The directory.
        root: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A pattern of the policy is none.
    #[error("the pattern {pattern:?} under [workspace] {list} cannot be understood: {reason}")]
    Pattern {
        /// `include` or `exclude`.
        list: &'static str,
        /// As it was written.
        pattern: String,
        /// What the matcher says.
        reason: String,
    },
    /// The store's disk is nearly full.
    #[error(
        "the disk of {} has {free} bytes free, less than the floor of {floor}: \
         free some, or lower min_free_bytes under [workspace]",
        place.display()
    )]
    LowDisk {
        /// The store's directory.
        place: PathBuf,
        /// Bytes free.
        free: u64,
        /// The least that must be free.
        floor: u64,
    },
    /// It was cancelled. Nothing has changed.
    #[error("the snapshot was cancelled")]
    Cancelled,
    /// The file system said no.
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
    /// The store said no.
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
