//! What can go wrong, in one type.

use abide_local::{BundleError, ExportError, ImportError};
use abide_model::{AppendError, InputError, StoreError};

use crate::PositionError;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no store here or above.
    #[error("there is no abide store in {} or above it", from.display())]
    NoStore {
        /// Where the search began.
        from: std::path::PathBuf,
    },
    /// The store could not do what was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An append failed.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// An event was not one.
    #[error(transparent)]
    Input(#[from] InputError),
    /// There is no such place in the session.
    #[error(transparent)]
    Position(#[from] PositionError),
    /// A session was not put into a bundle.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A bundle was not taken in.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The current directory is not known.
    #[error("cannot tell the current directory")]
    CurrentDir(#[from] std::io::Error),
}

impl From<BundleError> for Error {
    fn from(error: BundleError) -> Self {
        Self::Import(error.into())
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
