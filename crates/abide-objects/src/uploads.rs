//! Background uploads, and what is known about the objects in the store.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use abide_model::{ObjectHash, StoreError};
use bytes::Bytes;
use tokio::runtime::Handle;

use crate::bucket::{Bucket, ExistingPolicy, RequestError};
use crate::error::storage_error;

/// The most uploads at once. Their bytes are in memory.
pub(crate) const AT_ONCE: usize = 16;

/// The most objects remembered as whole; beyond that all are forgotten.
const REMEMBERED: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Uploads {
    bucket: Bucket,
    state: Mutex<UploadState>,
    /// Signals that an upload has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct UploadState {
    under_way: usize,
    /// Objects that were put and are not acknowledged.
    pending: HashMap<ObjectHash, Upload>,
    /// Objects seen in the store, or acknowledged.
    whole: HashSet<ObjectHash>,
    /// Objects in the store that do not match their names.
    damaged: HashSet<ObjectHash>,
    /// How often all were forgotten: what was asked before says nothing about now.
    generation: u64,
}

#[derive(Debug)]
struct Upload {
    sealed: Bytes,
    /// Why it failed; `None` while it is under way.
    failure: Option<Arc<RequestError>>,
    /// When it began: it may have found an object that was removed since.
    generation: u64,
}

/// What is known about an object without a request.
#[derive(Debug, Clone)]
pub(crate) enum KnownObject {
    /// It was put, and is not acknowledged.
    Pending(Bytes),
    /// The same, from before all were forgotten.
    Old(Bytes),
    /// It is in the store.
    Whole,
    /// It is in the store, and damaged.
    Damaged,
    /// Nothing.
    Nothing,
}

impl Uploads {
    pub(crate) fn new(bucket: Bucket) -> Arc<Self> {
        Arc::new(Self { bucket, state: Mutex::default(), ended: Condvar::new() })
    }

    pub(crate) fn bucket(&self) -> Bucket {
        self.bucket.clone()
    }

    pub(crate) fn known(&self, hash: ObjectHash) -> KnownObject {
        let state = self.lock();
        if let Some(upload) = state.pending.get(&hash) {
            let sealed = upload.sealed.clone();
            match upload.generation == state.generation {
                true => KnownObject::Pending(sealed),
                false => KnownObject::Old(sealed),
            }
        } else if state.damaged.contains(&hash) {
            KnownObject::Damaged
        } else if state.whole.contains(&hash) {
            KnownObject::Whole
        } else {
            KnownObject::Nothing
        }
    }

    /// How often all were forgotten.
    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Notes that an object is in the store, as was asked in this generation.
    pub(crate) fn saw(&self, hash: ObjectHash, asked: u64) {
        self.lock().remember(hash, asked);
    }

    /// Notes that an object is not in the store.
    pub(crate) fn saw_nothing(&self, hash: ObjectHash) {
        self.lock().whole.remove(&hash);
    }

    /// Notes that an object does not match its name.
    pub(crate) fn saw_damaged(&self, hash: ObjectHash) {
        let mut state = self.lock();
        state.whole.remove(&hash);
        state.damaged.insert(hash);
    }

    /// Forgets which objects are in the store.
    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        state.generation += 1;
        state.whole.clear();
    }

    /// Starts to store an object. Blocks while too many uploads are under way. A failure is
    /// reported by [`finish`](Self::finish).
    pub(crate) fn begin(self: &Arc<Self>, runtime: &Handle, hash: ObjectHash, sealed: Bytes) {
        let mut state = self.lock();
        loop {
            let under_way = state.pending.get(&hash).filter(|upload| upload.failure.is_none());
            match under_way.map(|upload| upload.generation == state.generation) {
                Some(true) => return,
                None if state.under_way < AT_ONCE => break,
                _ => state = self.wait(state),
            }
        }
        let replace = state.damaged.contains(&hash);
        let existing = if replace { ExistingPolicy::Replace } else { ExistingPolicy::Check };
        state.under_way += 1;
        let generation = state.generation;
        state.pending.insert(hash, Upload { sealed: sealed.clone(), failure: None, generation });
        drop(state);
        let uploads = Arc::clone(self);
        runtime.spawn(async move {
            let put = uploads.bucket().put(hash, sealed, existing);
            // In a task of its own, so that a panic there does not stop this one.
            let stored = tokio::spawn(put).await.unwrap_or_else(|error| Err(error.into()));
            uploads.end(hash, stored);
        });
    }

    /// Waits until everything put so far is acknowledged. Retries what failed before.
    pub(crate) fn finish(self: &Arc<Self>, runtime: &Handle) -> Result<(), StoreError> {
        for (hash, sealed) in self.failed() {
            self.begin(runtime, hash, sealed);
        }
        let mut state = self.lock();
        let awaited: Vec<ObjectHash> = state.pending.keys().copied().collect();
        loop {
            let mut open = awaited.iter().filter_map(|hash| Some((hash, state.pending.get(hash)?)));
            if open.clone().all(|(_, upload)| upload.failure.is_some()) {
                let failed = open.find_map(|(hash, upload)| Some((hash, upload.failure.clone()?)));
                return failed.map_or(Ok(()), |(hash, failure)| {
                    Err(storage_error("store", format_args!("object {hash}"), failure))
                });
            }
            state = self.wait(state);
        }
    }

    /// Whether an upload has failed and was not stored since.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().pending.values().any(|upload| upload.failure.is_some())
    }

    fn failed(&self) -> Vec<(ObjectHash, Bytes)> {
        let state = self.lock();
        let failed = state.pending.iter().filter(|(_, upload)| upload.failure.is_some());
        failed.map(|(hash, upload)| (*hash, upload.sealed.clone())).collect()
    }

    fn end(&self, hash: ObjectHash, stored: Result<(), RequestError>) {
        let mut state = self.lock();
        state.under_way -= 1;
        match stored {
            Ok(()) => {
                state.damaged.remove(&hash);
                if let Some(upload) = state.pending.remove(&hash) {
                    state.remember(hash, upload.generation);
                }
            }
            Err(error) => {
                if let Some(upload) = state.pending.get_mut(&hash) {
                    upload.failure = Some(Arc::new(error));
                }
            }
        }
        self.ended.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, UploadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, UploadState>) -> MutexGuard<'a, UploadState> {
        self.ended.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl UploadState {
    fn remember(&mut self, hash: ObjectHash, asked: u64) {
        if asked != self.generation {
            return;
        }
        if self.whole.len() >= REMEMBERED {
            self.whole.clear();
        }
        self.whole.insert(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObjectsOptions, ObjectsUrl};

    #[test]
    fn what_was_asked_before_all_were_forgotten_is_not_known() {
        let room = tempfile::tempdir().unwrap();
        let url = ObjectsUrl::parse(&format!("file://{}", room.path().display())).unwrap();
        let uploads = Uploads::new(Bucket::new(&url, &ObjectsOptions::default()).unwrap());
        let hash = ObjectHash::of(b"one");
        let asked = uploads.generation();
        uploads.forget();
        uploads.saw(hash, asked);
        assert!(matches!(uploads.known(hash), KnownObject::Nothing));
        uploads.saw(hash, uploads.generation());
        assert!(matches!(uploads.known(hash), KnownObject::Whole));
        // Nor is what was begun before.
        let sealed = Bytes::from_static(b"sealed");
        let upload = Upload { sealed, failure: None, generation: uploads.generation() };
        let mut state = uploads.lock();
        state.pending.insert(hash, upload);
        state.under_way += 1;
        drop(state);
        assert!(matches!(uploads.known(hash), KnownObject::Pending(_)));
        uploads.forget();
        assert!(matches!(uploads.known(hash), KnownObject::Old(_)));
        uploads.end(hash, Ok(()));
        assert!(matches!(uploads.known(hash), KnownObject::Nothing));
    }
}
