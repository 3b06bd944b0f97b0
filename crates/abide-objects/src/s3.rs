//! Objects in a bucket of an S3-compatible server.

use std::error::Error as StdError;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use abide_model::{ObjectHash, StoredObject};
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, Result,
    RetryConfig, WriteMultipart,
};

use crate::bucket::ExistingPolicy;
use crate::transport::Transport;
use crate::{ObjectsOptions, envelope};

/// Larger objects are sent in parts of this many bytes.
const PART: usize = 8 << 20;

/// The most parts of one object sent at once.
const PARTS: usize = 4;

/// The timeout of one request, including the part it sends.
const REQUEST: Duration = Duration::from_secs(120);

/// Certificates of the authorities to trust for the server, instead of the web's.
const AUTHORITIES: &str = "AWS_CA_BUNDLE";

/// Below it, an empty object for each store that keeps its objects here.
const STORES: &str = "stores";

/// Objects below a prefix of a bucket.
#[derive(Debug, Clone)]
pub(crate) struct S3 {
    store: AmazonS3,
    prefix: String,
}

impl S3 {
    /// Sends no request.
    pub(crate) fn new(
        bucket: &str,
        prefix: &str,
        options: &ObjectsOptions,
    ) -> std::result::Result<Self, Box<dyn StdError + Send + Sync>> {
        let authorities = options.environment.iter().find(|(name, _)| name == AUTHORITIES);
        let transport = Transport::new(authorities.map(|(_, path)| path.as_ref()))?;
        let mut builder = AmazonS3Builder::new()
            .with_http_connector(transport)
            .with_client_options(ClientOptions::new().with_timeout(REQUEST))
            .with_retry(RetryConfig {
                backoff: BackoffConfig {
                    max_backoff: Duration::from_secs(5),
                    ..BackoffConfig::default()
                },
                max_retries: usize::MAX,
                // A put may take two requests, one after the other.
                retry_timeout: options.patience / 2,
            });
        for (name, value) in &options.environment {
            // Variables that are not settings of the client are skipped.
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, value);
            }
        }
        let store = builder.with_bucket_name(bucket).build()?;
        Ok(Self { store, prefix: prefix.to_owned() })
    }

    /// Whether there is an object of this name, judging by its length.
    pub(crate) async fn has(&self, hash: ObjectHash) -> Result<bool> {
        match self.store.head(&self.path(hash)).await {
            Ok(found) => Ok(found.size >= envelope::HEADER as u64),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// An object in its envelope, not verified.
    pub(crate) async fn get(&self, hash: ObjectHash) -> Result<Option<Bytes>> {
        match self.store.get(&self.path(hash)).await {
            Ok(found) => found.bytes().await.map(Some),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores an object in its envelope. When this returns, the object is there and whole, whoever
    /// stored it.
    pub(crate) async fn put(
        &self,
        hash: ObjectHash,
        sealed: Bytes,
        existing: ExistingPolicy,
    ) -> Result<()> {
        if existing == ExistingPolicy::Check {
            let there = if sealed.len() > PART {
                self.has(hash).await?
            } else {
                let payload = PutPayload::from(sealed.clone());
                match self.store.put_opts(&self.path(hash), payload, PutMode::Create.into()).await {
                    Ok(_) => return Ok(()),
                    Err(Error::AlreadyExists { .. }) => true,
                    // The server may not support the condition, or its answer was lost: an
                    // unconditional request can be repeated.
                    Err(_) => false,
                }
            };
            if there && self.is_whole(hash).await? {
                return Ok(());
            }
        }
        if sealed.len() > PART {
            return self.put_in_parts(hash, sealed).await;
        }
        self.store.put(&self.path(hash), PutPayload::from(sealed)).await.map(drop)
    }

    /// Every object, damaged ones too.
    pub(crate) async fn list(&self) -> Result<Vec<StoredObject>> {
        let prefix = Path::from_iter(self.prefix.split('/').filter(|part| !part.is_empty()));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut listed = self.store.list(Some(&prefix));
        let mut objects = Vec::new();
        while let Some(found) = listed.try_next().await? {
            let Some(rest) = found.location.prefix_match(&prefix) else { continue };
            let name: String = rest.map(|part| part.as_ref().to_owned()).collect();
            let Ok(hash) = name.parse() else { continue };
            let stored = u64::try_from(found.last_modified.timestamp()).unwrap_or(0);
            let age = now.saturating_sub(Duration::from_secs(stored));
            objects.push(StoredObject { hash, bytes: found.size, age });
        }
        Ok(objects)
    }

    /// Removes an object, if it is there.
    pub(crate) async fn remove(&self, hash: ObjectHash) -> Result<()> {
        match self.store.delete(&self.path(hash)).await {
            Err(Error::NotFound { .. }) => Ok(()),
            removed => removed,
        }
    }

    /// Notes that a store keeps its objects here.
    pub(crate) async fn claim(&self, store: &str) -> Result<()> {
        let path = self.stores().join(store);
        match self.store.head(&path).await {
            Err(Error::NotFound { .. }) => {
                self.store.put(&path, PutPayload::from_static(b"")).await.map(drop)
            }
            found => found.map(drop),
        }
    }

    /// The stores that are noted to keep their objects here.
    pub(crate) async fn claims(&self) -> Result<Vec<String>> {
        let prefix = self.stores();
        let found: Vec<_> = self.store.list(Some(&prefix)).try_collect().await?;
        let names = found.iter().filter_map(|found| found.location.filename());
        Ok(names.map(str::to_owned).collect())
    }

    /// Where the stores are noted that keep their objects here.
    fn stores(&self) -> Path {
        let parts = self.prefix.split('/').chain([STORES]);
        Path::from_iter(parts.filter(|part| !part.is_empty()))
    }

    async fn is_whole(&self, hash: ObjectHash) -> Result<bool> {
        let found = self.get(hash).await?;
        Ok(found.is_some_and(|sealed| envelope::open_envelope(hash, &sealed).is_some()))
    }

    async fn put_in_parts(&self, hash: ObjectHash, mut sealed: Bytes) -> Result<()> {
        let upload = self.store.put_multipart(&self.path(hash)).await?;
        let mut parts = WriteMultipart::new_with_chunk_size(upload, PART);
        while !sealed.is_empty() {
            if let Err(error) = parts.wait_for_capacity(PARTS).await {
                // The parts are useless; the first error says why.
                let _ = parts.abort().await;
                return Err(error);
            }
            parts.put(sealed.split_to(sealed.len().min(PART)));
        }
        parts.finish().await.map(drop)
    }

    fn path(&self, hash: ObjectHash) -> Path {
        let name = hash.to_string();
        let (first, rest) = name.split_at(2);
        let parts = self.prefix.split('/').chain([first, rest]);
        Path::from_iter(parts.filter(|part| !part.is_empty()))
    }
}
