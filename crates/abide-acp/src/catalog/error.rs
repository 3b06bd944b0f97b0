//! Why a session is not available, in words for the user of an editor.

use std::error::Error as _;

use abide::{SessionId, StoreError, liveness::WriterHolder};

/// Why a session is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The session does not exist.
    #[error(
        "there is no session {id:?} in {place}: it was deleted, or it belongs to another directory"
    )]
    NoSession {
        /// The client's id of the session.
        id: String,
        /// Where it was looked for.
        place: String,
    },
    /// The id matches more than one session.
    #[error(
        "session id {id:?} is ambiguous, found in {}: open it from its own directory",
        places.join(" and ")
    )]
    Ambiguous {
        /// The client's id of the session.
        id: String,
        /// The directories of those sessions, or the stores that have one.
        places: Vec<String>,
    },
    /// Another process writes to the session.
    #[error(
        "session {id:?} is open in {holder}: close it there and try again, or continue in a fork"
    )]
    Held {
        /// The client's id of the session.
        id: String,
        /// The writer.
        holder: Box<WriterHolder>,
    },
    /// The session has a fork.
    #[error("cannot delete session {id:?}: session {fork} is a fork of it, delete that one first")]
    Forked {
        /// The client's id of the session.
        id: String,
        /// The fork.
        fork: SessionId,
    },
    /// The cursor does not come from a list.
    #[error("invalid cursor {cursor:?}: list again from the beginning")]
    BadCursor {
        /// The cursor, cut to 100 characters.
        cursor: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] abide::Error),
}

impl From<StoreError> for CatalogError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

impl CatalogError {
    /// Turns an error of the store into one about the session that the client calls `id`.
    pub(super) fn about(id: &str, error: abide::Error) -> Self {
        match error {
            abide::Error::Store(StoreError::Held { holder, .. }) => {
                Self::Held { id: id.to_owned(), holder }
            }
            error => Self::Store(error),
        }
    }

    /// The error with its causes and what to do about it, on one line.
    #[must_use]
    pub fn message(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        if let Self::Store(
            abide::Error::Place(_)
            | abide::Error::NotAccepted { .. }
            | abide::Error::LocalObjects { .. },
        ) = self
        {
            text.push_str("; run `abide status` in that directory to see what to do");
        }
        if let Self::Store(abide::Error::Store(error)) = self {
            text.push_str(match error {
                StoreError::Damaged { .. } | StoreError::NoParent { .. } => {
                    "; run `abide doctor` to see what can be read and what is lost"
                }
                StoreError::NewerVersion { .. } => "; update abide (nothing was changed)",
                StoreError::Storage { .. } => {
                    "; check that it exists, is writable and has space, then try again"
                }
                _ => "",
            });
        }
        text
    }
}
