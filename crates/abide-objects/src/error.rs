//! Why an object store cannot be used.

use std::error::Error;
use std::io;
use std::sync::Arc;

use abide_model::StoreError;

use crate::bucket::RequestError;

/// Why an [`ObjectsUrl`](crate::ObjectsUrl) is invalid or cannot be opened. The message never
/// repeats the URL as given, which may contain secrets.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// The URL has an unknown form.
    #[error("objects are kept at s3://bucket/prefix or file:///directory")]
    Form,
    /// The URL contains credentials.
    #[error("credentials of an object store come from the environment, not from its URL")]
    Credentials,
    /// The URL has parameters or a fragment.
    #[error("the URL of an object store has no parameters")]
    Parameters,
    /// The settings are invalid.
    #[error("cannot reach objects at {place}")]
    Settings {
        /// Where the objects are.
        place: String,
        /// The underlying error.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// S3-compatible storage needs the feature `s3`, which this build does not have.
    #[error("{place} cannot be reached: this build of abide has no S3 support")]
    WithoutS3 {
        /// Where the objects are.
        place: String,
    },
    /// A directory or a thread could not be made.
    #[error("cannot {action} {place}")]
    Local {
        /// What failed.
        action: &'static str,
        /// For which objects.
        place: String,
        /// The underlying error.
        #[source]
        source: io::Error,
    },
}

/// Turns a failed request into an error of the store.
pub(crate) fn storage(
    action: &'static str,
    place: impl ToString,
    source: Arc<RequestError>,
) -> StoreError {
    StoreError::Storage { action, place: place.to_string(), source }
}
