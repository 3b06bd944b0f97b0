//! Why something was not imported or given back.

use std::io;
use std::path::{Path, PathBuf};

/// An error of an import.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportFilesError {
    /// A file of an agent cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file of abide's cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A database of an agent cannot be read.
    #[error("cannot read {}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] abide::Error),
    /// An event that was made of a record was refused.
    #[error("a record could not become an event")]
    Event(#[from] abide_model::InputError),
    /// The import was interrupted. What was read is recorded.
    #[error("the import was interrupted")]
    Interrupted,
}

impl ImportFilesError {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }

    pub(crate) fn database(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Database { path: path.to_owned(), source }
    }
}
