//! Why something that a hook told was not recorded.

use std::io;
use std::path::{Path, PathBuf};

use abide_import::ImportFilesError;

/// An error of the recording of hooks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HooksError {
    /// A file of the inbox cannot be read or written.
    #[error("cannot use {}", path.display())]
    Inbox {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The store refused.
    #[error(transparent)]
    Store(#[from] abide::Error),
    /// The agent's own file cannot be imported.
    #[error(transparent)]
    Import(#[from] ImportFilesError),
}

impl HooksError {
    pub(crate) fn inbox(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Inbox { path, source }
    }
}
