//! Why a session cannot be given, in words for who sits before an editor.

use std::error::Error as _;

use abide::{SessionId, StoreError, WriterHolder};

/// Why a session cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// There is no such session.
    #[error(
        "there is no session {id:?} in {place}: it was deleted, or it belongs to another directory"
    )]
    NoSession {
        /// As the client calls it.
        id: String,
        /// Where it was looked for.
        place: String,
    },
    /// More than one session goes by that id.
    #[error(
        "session {id:?} could be any of those in {}: open it from its own directory",
        places.join(" and ")
    )]
    Ambiguous {
        /// As the client calls it.
        id: String,
        /// The directories of those sessions, or the stores that have one.
        places: Vec<String>,
    },
    /// Somebody writes to it.
    #[error(
        "session {id:?} is open in {holder}: close it there and try again, or go on in a fork of it"
    )]
    Held {
        /// As the client calls it.
        id: String,
        /// By whom.
        holder: Box<WriterHolder>,
    },
    /// Another session needs its past.
    #[error("session {id:?} stays, for session {fork} is a fork of it: delete that one first")]
    Forked {
        /// As the client calls it.
        id: String,
        /// The fork.
        fork: SessionId,
    },
    /// A cursor that no list gave.
    #[error("{cursor:?} is not a cursor of this list: ask for the list from its beginning")]
    BadCursor {
        /// As it was given.
        cursor: String,
    },
    /// The store says no.
    #[error(transparent)]
    Store(#[from] abide::Error),
}

impl From<StoreError> for CatalogError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

impl CatalogError {
    /// An error of the store about the session that a client calls so.
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
            text.push_str("; `abide status` in that directory, in a terminal, says what to do");
        }
        if let Self::Store(abide::Error::Store(error)) = self {
            text.push_str(match error {
                StoreError::Damaged { .. } | StoreError::NoParent { .. } => {
                    "; `abide doctor` says what can be read and what is lost"
                }
                StoreError::NewerVersion { .. } => "; update abide, nothing was changed",
                StoreError::Storage { .. } => {
                    "; see that the place is there, can be written and has space, and try again"
                }
                _ => "",
            });
        }
        text
    }
}
