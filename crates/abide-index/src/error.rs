//! What can go wrong with an index, sorted by what is to be done about it.

use rusqlite::ErrorCode;

/// Why the index could not be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// It is no index, of another version, or damaged: throw it away and make it again.
    #[error("the index is unusable: {reason}")]
    Unusable {
        /// In what way.
        reason: String,
    },
    /// Another program holds it.
    #[error("the index is locked by another program")]
    Locked(#[source] rusqlite::Error),
    /// It cannot be written: a full disk, a read-only one, no permission.
    #[error("the index cannot be written")]
    Unwritable(#[source] rusqlite::Error),
    /// Anything else.
    #[error("the index cannot be used")]
    Sqlite(#[source] rusqlite::Error),
}

impl From<rusqlite::Error> for IndexError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked(error),
            Some(
                ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::SystemIoFailure,
            ) => Self::Unwritable(error),
            // What the file holds is not what we have put there. A query of ours is never wrong by
            // itself, so a missing table or a value of another type is damage too.
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => {
                Self::Unusable { reason: error.to_string() }
            }
            Some(_) => Self::Sqlite(error),
            None => Self::Unusable { reason: error.to_string() },
        }
    }
}
