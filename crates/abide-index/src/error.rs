//! Index errors, grouped by how the caller should respond.

use rusqlite::ErrorCode;

/// Why the index cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Not an index, another version, or damaged: delete it and build it again.
    #[error("the index is unusable: {reason}")]
    Unusable {
        /// What is wrong with it.
        reason: String,
    },
    /// Another process holds the lock.
    #[error("the index is locked by another program")]
    Locked(#[source] rusqlite::Error),
    /// The disk is full or read-only, or permission is denied.
    #[error("the index cannot be written")]
    Unwritable(#[source] rusqlite::Error),
    /// Any other SQLite error.
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
            // The file does not hold what was put there. Our queries are correct, so a missing
            // table or a value of another type is also damage.
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => {
                Self::Unusable { reason: error.to_string() }
            }
            Some(_) => Self::Sqlite(error),
            None => Self::Unusable { reason: error.to_string() },
        }
    }
}
