//! Why objects cannot be reached.

use std::error::Error;
use std::io;
use std::sync::Arc;

use abide_model::StoreError;

use crate::bucket::RequestError;

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
        source: Box<dyn Error + Send + Sync>,
    },
    /// Objects in S3-compatible storage take the feature `s3`, which this build does not have.
    #[error("{place} cannot be reached: this build of abide has no S3 support")]
    WithoutS3 {
        /// Where they are.
        place: String,
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

/// Why a request failed, as the store's error.
pub(crate) fn storage(
    action: &'static str,
    place: impl ToString,
    source: Arc<RequestError>,
) -> StoreError {
    StoreError::Storage { action, place: place.to_string(), source }
}
