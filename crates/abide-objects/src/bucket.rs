//! Access to objects: one request at a time, without memory of earlier ones.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use abide_model::{ObjectHash, StoredObject};
use bytes::Bytes;
use tokio::task::{JoinError, spawn_blocking};

use crate::object_directory::ObjectDirectory;
#[cfg(feature = "s3")]
use crate::s3::S3;
use crate::{ObjectsError, ObjectsOptions, ObjectsUrl};

/// What a put does if the object exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingPolicy {
    /// Checks it, and replaces it if it is damaged.
    Check,
    /// Replaces it: it is known to be damaged.
    Replace,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What failed.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// The underlying error.
        #[source]
        source: io::Error,
    },
    /// The server refused, or cannot be reached.
    #[cfg(feature = "s3")]
    #[error(transparent)]
    Server(#[from] object_store::Error),
    /// It would have begun after the time that was given to it.
    #[error("it took too long until it could begin; try again")]
    Late,
    /// The request ended without an answer.
    #[error("the request ended without an answer")]
    Ended(#[from] JoinError),
}

/// Where objects are.
#[derive(Debug, Clone)]
pub(crate) enum Bucket {
    Directory(Arc<ObjectDirectory>),
    #[cfg(feature = "s3")]
    S3(S3),
}

impl Bucket {
    /// The objects at a URL. Sends no request.
    pub(crate) fn new(url: &ObjectsUrl, options: &ObjectsOptions) -> Result<Self, ObjectsError> {
        match url {
            ObjectsUrl::Directory(root) => {
                Ok(Self::Directory(Arc::new(ObjectDirectory::open(root)?)))
            }
            #[cfg(feature = "s3")]
            ObjectsUrl::S3 { bucket, prefix } => {
                let settings = |source| ObjectsError::Settings { place: url.to_string(), source };
                Ok(Self::S3(S3::new(bucket, prefix, options).map_err(settings)?))
            }
            #[cfg(not(feature = "s3"))]
            ObjectsUrl::S3 { .. } => {
                let _ = options;
                Err(ObjectsError::WithoutS3 { place: url.to_string() })
            }
        }
    }

    /// Whether there is an object of this name, judging by its length.
    pub(crate) async fn has(self, hash: ObjectHash) -> Result<bool, RequestError> {
        match self {
            Self::Directory(it) => spawn_blocking(move || it.has(hash)).await?,
            #[cfg(feature = "s3")]
            Self::S3(it) => Ok(it.has(hash).await?),
        }
    }

    /// An object in its envelope, not verified.
    pub(crate) async fn get(self, hash: ObjectHash) -> Result<Option<Bytes>, RequestError> {
        match self {
            Self::Directory(it) => {
                Ok(spawn_blocking(move || it.get(hash)).await??.map(Bytes::from))
            }
            #[cfg(feature = "s3")]
            Self::S3(it) => Ok(it.get(hash).await?),
        }
    }

    /// Every object, damaged ones too.
    pub(crate) async fn list(self) -> Result<Vec<StoredObject>, RequestError> {
        match self {
            Self::Directory(it) => spawn_blocking(move || it.list()).await?,
            #[cfg(feature = "s3")]
            Self::S3(it) => Ok(it.list().await?),
        }
    }

    /// Removes an object durably, if it is there.
    pub(crate) async fn remove(self, hash: ObjectHash) -> Result<(), RequestError> {
        match self {
            Self::Directory(it) => spawn_blocking(move || it.remove(hash)).await?,
            #[cfg(feature = "s3")]
            Self::S3(it) => Ok(it.remove(hash).await?),
        }
    }

    /// Notes that a store keeps its objects here.
    pub(crate) async fn claim(self, store: String) -> Result<(), RequestError> {
        match self {
            Self::Directory(it) => spawn_blocking(move || it.claim(&store)).await?,
            #[cfg(feature = "s3")]
            Self::S3(it) => Ok(it.claim(&store).await?),
        }
    }

    /// The stores that are noted to keep their objects here.
    pub(crate) async fn claims(self) -> Result<Vec<String>, RequestError> {
        match self {
            Self::Directory(it) => spawn_blocking(move || it.claims()).await?,
            #[cfg(feature = "s3")]
            Self::S3(it) => Ok(it.claims().await?),
        }
    }

    /// Removes what processes that were killed have left half written.
    pub(crate) async fn remove_remains(self) -> Result<(), RequestError> {
        match self {
            Self::Directory(it) => spawn_blocking(move || it.remove_remains()).await?,
            #[cfg(feature = "s3")]
            Self::S3(_) => Ok(()),
        }
    }

    /// Stores an object in its envelope. When this returns, the object is there and whole, whoever
    /// stored it.
    pub(crate) async fn put(
        self,
        hash: ObjectHash,
        sealed: Bytes,
        existing: ExistingPolicy,
    ) -> Result<(), RequestError> {
        match self {
            Self::Directory(it) => spawn_blocking(move || it.put(hash, &sealed, existing)).await?,
            #[cfg(feature = "s3")]
            Self::S3(it) => Ok(it.put(hash, sealed, existing).await?),
        }
    }
}
