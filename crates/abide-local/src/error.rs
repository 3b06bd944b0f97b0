//! Converts journal errors to store errors.

use std::sync::Arc;

use abide_journal::JournalError;
use abide_model::StoreError;

/// Converts a journal error to a store error.
pub(crate) fn store_error(error: JournalError) -> StoreError {
    match error {
        JournalError::Io { action, path, source } => StoreError::Storage {
            action,
            place: path.display().to_string(),
            source: Arc::new(source),
        },
        JournalError::NewerVersion { path, found, known } => {
            StoreError::NewerVersion { place: path.display().to_string(), found, known }
        }
        JournalError::Damaged { path, offset, reason } => {
            StoreError::Damaged { place: format!("{} at byte {offset}", path.display()), reason }
        }
        JournalError::Store(error) => error,
        JournalError::NoParent { session, parent } => StoreError::NoParent { session, parent },
        error @ (JournalError::Fenced { .. }
        | JournalError::Stopped { .. }
        | JournalError::Closed) => StoreError::Storage {
            action: "write to",
            place: "the session".to_owned(),
            source: Arc::new(error),
        },
    }
}

/// Wraps an I/O error of the storage.
pub(crate) fn storage_error(
    action: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(std::io::Error) -> StoreError {
    let place = path.display().to_string();
    move |source| StoreError::Storage { action, place, source: Arc::new(source) }
}
