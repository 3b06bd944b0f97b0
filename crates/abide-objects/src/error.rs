//! Why objects cannot be reached.

use std::io;
use std::sync::Arc;

use abide_model::StoreError;

/// Why an [`ObjectsUrl`](crate::ObjectsUrl) is none, or cannot be opened. The message never repeats
/// the URL as it was given, which may hold what must not be shown.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// It is of no form that we know.
    #[error("objects are kept at s3://bucket/prefix or file:///directory")]
    Form,
    /// It says who we are.
    #[error("credentials of an object store come from the environment, not from its URL")]
    Credentials,
    /// It has parameters, or a fragment.
    #[error("the URL of an object store has no parameters")]
    Parameters,
    /// The settings make no client.
    #[error("cannot reach objects at {place}")]
    Settings {
        /// Where they are.
        place: String,
        /// What is wrong.
        #[source]
        source: object_store::Error,
    },
    /// A directory or a thread cannot be had.
    #[error("cannot {action} {place}")]
    Local {
        /// What was tried.
        action: &'static str,
        /// On what.
        place: String,
        /// The answer.
        #[source]
        source: io::Error,
    },
}

/// What a server said, as the store's error.
pub(crate) fn storage(
    action: &'static str,
    place: impl ToString,
    source: Arc<object_store::Error>,
) -> StoreError {
    StoreError::Storage { action, place: place.to_string(), source }
}
