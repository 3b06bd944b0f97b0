//! The objects at a URL, behind the model's trait.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use abide_model::{
    CollectableObjects, NewObject, ObjectBatch, ObjectHash, ObjectReceiver, Objects, StoreError,
    StoredObject,
};
use bytes::Bytes;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::bucket::{Bucket, RequestError};
use crate::error::storage_error;
use crate::object_cache::ObjectCache;
use crate::uploads::{AT_ONCE, KnownObject, Uploads};
use crate::{ObjectsError, ObjectsOptions, ObjectsUrl, envelope};

/// Objects in a bucket or a shared directory. Threads may share it.
///
/// Dropping it loses what was put and not yet synced.
pub struct RemoteObjects {
    url: ObjectsUrl,
    uploads: Arc<Uploads>,
    cache: Option<ObjectCache>,
    /// `Some` until it is dropped.
    runtime: Option<Runtime>,
    handle: Handle,
}

impl RemoteObjects {
    /// The objects at a URL. Sends no request yet.
    pub fn open(url: ObjectsUrl, options: &ObjectsOptions) -> Result<Self, ObjectsError> {
        let bucket = Bucket::new(&url, options)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            // Reads do not wait for uploads, each of which sends up to four parts at once.
            .max_blocking_threads(6 * AT_ONCE)
            .thread_name("abide-objects")
            .enable_all()
            .build()
            .map_err(|source| ObjectsError::Local {
                action: "start",
                place: "a thread".to_owned(),
                source,
            })?;
        Ok(Self {
            url,
            uploads: Uploads::new(bucket),
            cache: options.cache.clone().map(ObjectCache::new),
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }

    /// Where the objects are.
    #[must_use]
    pub fn url(&self) -> &ObjectsUrl {
        &self.url
    }

    /// Starts to store an object. Returns its stored size.
    fn put(&self, hash: ObjectHash, plain: &[u8]) -> u64 {
        let sealed = Bytes::from(envelope::seal_envelope(plain));
        let length = sealed.len() as u64;
        if let Some(cache) = &self.cache {
            cache.keep(hash, &sealed);
        }
        self.uploads.begin(&self.handle, hash, sealed);
        length
    }

    /// Reports an earlier failure before more is put and piles up.
    fn check(&self) -> Result<(), StoreError> {
        if self.uploads.has_failed() { self.uploads.finish(&self.handle) } else { Ok(()) }
    }

    /// An object that need not be fetched.
    fn at_hand(&self, hash: ObjectHash) -> Option<Vec<u8>> {
        match self.uploads.known(hash) {
            KnownObject::Pending(sealed) | KnownObject::Old(sealed) => {
                envelope::open_envelope(hash, &sealed)
            }
            _ => self.cache.as_ref()?.read(hash),
        }
    }

    /// Verifies a fetched object.
    fn verified(&self, hash: ObjectHash, fetched: Option<Bytes>, asked: u64) -> Option<Vec<u8>> {
        let Some(sealed) = fetched else {
            self.uploads.saw_nothing(hash);
            return None;
        };
        let plain = envelope::open_envelope(hash, &sealed);
        if plain.is_none() {
            self.uploads.saw_damaged(hash);
            return None;
        }
        self.uploads.saw(hash, asked);
        if let Some(cache) = &self.cache {
            cache.keep(hash, &sealed);
        }
        plain
    }

    /// Sends a request about the store as a whole.
    fn alone<T, A>(
        &self,
        action: &'static str,
        request: impl FnOnce(Bucket) -> A,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        A: Future<Output = Result<T, RequestError>> + Send + 'static,
    {
        let (sender, answer) = mpsc::channel();
        let request = request(self.uploads.bucket());
        self.handle.spawn(async move {
            let answer = tokio::spawn(request).await;
            let _ = sender.send(answer.unwrap_or_else(|it| Err(it.into())));
        });
        let failed = |error| storage_error(action, &self.url, Arc::new(error));
        match answer.recv() {
            Ok(answer) => answer.map_err(failed),
            // The runtime has ended.
            Err(error) => Err(StoreError::Storage {
                action,
                place: self.url.to_string(),
                source: Arc::new(error),
            }),
        }
    }

    /// Sends many requests, a bounded number at once, and passes on each answer as it comes.
    fn ask<T, A>(
        &self,
        action: &'static str,
        wanted: &[(usize, ObjectHash)],
        request: impl Fn(Bucket, ObjectHash) -> A,
        mut each: impl FnMut(usize, ObjectHash, T) -> ControlFlow<()>,
    ) -> Result<(), StoreError>
    where
        T: Send + 'static,
        A: Future<Output = Result<T, RequestError>> + Send + 'static,
    {
        // A plain channel: unlike one of the runtime, it can be waited on from anywhere.
        let (sender, answers) = mpsc::channel();
        let mut rest = wanted.iter();
        let mut asked = 0;
        loop {
            for (at, hash) in rest.by_ref().take(AT_ONCE - asked) {
                let (at, hash, sender) = (*at, *hash, sender.clone());
                let request = request(self.uploads.bucket(), hash);
                asked += 1;
                self.handle.spawn(async move {
                    let answer = tokio::spawn(request).await;
                    // Fails if an earlier answer was enough and nobody waits.
                    let _ = sender.send((at, hash, answer.unwrap_or_else(|it| Err(it.into()))));
                });
            }
            if asked == 0 {
                return Ok(());
            }
            // This function holds a sender, so every request is answered.
            let Ok((at, hash, answer)) = answers.recv() else { return Ok(()) };
            asked -= 1;
            let answer = answer.map_err(|error| {
                storage_error(
                    action,
                    format_args!("object {hash} at {}", self.url),
                    Arc::new(error),
                )
            })?;
            if each(at, hash, answer).is_break() {
                return Ok(());
            }
        }
    }
}

impl Objects for RemoteObjects {
    /// For an object neither put nor read here, only the length is checked.
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        let asked = self.uploads.generation();
        let (mut has, mut unknown) = (Vec::with_capacity(hashes.len()), Vec::new());
        for (at, hash) in hashes.iter().enumerate() {
            let known = self.uploads.known(*hash);
            has.push(matches!(known, KnownObject::Pending(_) | KnownObject::Whole));
            if matches!(known, KnownObject::Nothing | KnownObject::Old(_)) {
                unknown.push((at, *hash));
            }
        }
        self.ask("look for", &unknown, Bucket::has, |at, hash, there| {
            if there {
                self.uploads.saw(hash, asked);
            }
            if let Some(has) = has.get_mut(at) {
                *has = there;
            }
            ControlFlow::Continue(())
        })?;
        Ok(has)
    }

    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError> {
        self.check()?;
        let mut rest = batch.plain();
        let mut taken = 0;
        for (hash, length) in batch.rows() {
            let length = usize::try_from(*length).unwrap_or(usize::MAX).min(rest.len());
            let (plain, after) = rest.split_at(length);
            taken += self.put(*hash, plain);
            rest = after;
        }
        Ok(taken)
    }

    /// Stores each whole: reading a difference would take two requests, one after the other.
    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError> {
        self.check()?;
        Ok(objects.iter().map(|object| self.put(object.hash, &object.bytes)).sum())
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.uploads.finish(&self.handle)
    }

    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError> {
        let mut read = None;
        self.read_many(&[hash], &mut |_, bytes| {
            read = bytes.map(<[u8]>::to_vec);
            ControlFlow::Continue(())
        })?;
        Ok(read)
    }

    fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut ObjectReceiver<'_>,
    ) -> Result<(), StoreError> {
        let asked = self.uploads.generation();
        let mut missing = Vec::new();
        for (at, hash) in hashes.iter().enumerate() {
            match self.at_hand(*hash) {
                Some(plain) if each(at, Some(&plain)).is_break() => return Ok(()),
                Some(_) => {}
                None => missing.push((at, *hash)),
            }
        }
        self.ask("read", &missing, Bucket::get, |at, hash, fetched| {
            each(at, self.verified(hash, fetched, asked).as_deref())
        })
    }

    /// Each object stands alone; no request is sent.
    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError> {
        let place =
            |hash: &ObjectHash| hash.0.first_chunk().map(|start| u64::from_be_bytes(*start));
        Ok(hashes.iter().map(place).collect())
    }
}

impl CollectableObjects for RemoteObjects {
    fn each_stored(&self, each: &mut dyn FnMut(StoredObject)) -> Result<(), StoreError> {
        self.alone("list", Bucket::list)?.into_iter().for_each(each);
        Ok(())
    }

    fn remove(&self, hashes: &[ObjectHash], within: Duration) -> Result<(), StoreError> {
        let began = since_boot();
        for hash in hashes {
            self.uploads.saw_nothing(*hash);
            if let Some(cache) = &self.cache {
                cache.remove(*hash);
            }
        }
        let wanted: Vec<(usize, ObjectHash)> = hashes.iter().copied().enumerate().collect();
        let remove = |bucket: Bucket, hash| async move {
            match since_boot().saturating_sub(began) < within {
                true => bucket.remove(hash).await,
                false => Err(RequestError::Late),
            }
        };
        self.ask("remove", &wanted, remove, |_, _, ()| ControlFlow::Continue(()))
    }

    fn remove_remains(&self) -> Result<(), StoreError> {
        self.alone("clear", Bucket::remove_remains)
    }

    fn claim(&self, store: &str) -> Result<(), StoreError> {
        let store = store.to_owned();
        self.alone("note a store in", |bucket| bucket.claim(store))
    }

    fn claimed_by(&self) -> Result<Vec<String>, StoreError> {
        self.alone("list the stores of", Bucket::claims)
    }

    fn forget_known(&self) {
        self.uploads.forget();
    }
}

/// The time since the machine was started, that in which it slept included.
fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default()
}

impl fmt::Debug for RemoteObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteObjects").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Drop for RemoteObjects {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Does not wait: that is not allowed inside another runtime.
            runtime.shutdown_background();
        }
    }
}
