//! Why an object store cannot be used.

use std::error::Error;
use std::io;
use std::sync::Arc;

use abide_model::StoreError;

use crate::bucket::RequestError;

/// Why an [`ObjectsUrl`](crate::ObjectsUrl) is invalid or cannot be opened. The message never
/// repeats the URL as given, which may contain secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// The URL has an unknown form.
    #[error("invalid object store URL (examples: s3://bucket/prefix, file:///directory)")]
    Form,
    /// The URL contains credentials.
    #[error("an object store URL must not contain credentials; set them in the environment")]
    Credentials,
    /// The URL has parameters or a fragment.
    #[error("an object store URL must not have parameters")]
    Parameters,
    /// The settings are invalid.
    #[error("cannot set up access to objects at {place}")]
    Settings {
        /// Where the objects are.
        place: String,
        /// The underlying error.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// S3-compatible storage needs the feature `s3`, which this build does not have.
    #[error("cannot reach {place}: this build of abide has no S3 support")]
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
pub(crate) fn storage_error(
    action: &'static str,
    place: impl ToString,
    source: Arc<RequestError>,
) -> StoreError {
    StoreError::Storage { action, place: place.to_string(), source }
}
