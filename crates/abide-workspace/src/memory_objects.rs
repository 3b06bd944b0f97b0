//! An in-memory object store, for tests and for snapshots that are compared and thrown away.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use abide_model::{NewObject, ObjectBatch, ObjectHash, ObjectReceiver, Objects, StoreError};

/// Objects in memory. Nothing is compressed, and `sync` does nothing.
#[derive(Debug, Default)]
pub struct MemoryObjects {
    objects: Mutex<HashMap<ObjectHash, Vec<u8>>>,
}

impl MemoryObjects {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns true if there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The total size of all objects in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lock().values().map(|bytes| bytes.len() as u64).sum()
    }

    /// Adds an object and returns its hash.
    pub fn insert(&self, bytes: &[u8]) -> ObjectHash {
        let hash = ObjectHash::of(bytes);
        self.lock().insert(hash, bytes.to_vec());
        hash
    }

    /// Removes an object. Returns whether it existed.
    pub fn remove(&self, hash: ObjectHash) -> bool {
        self.lock().remove(&hash).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectHash, Vec<u8>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects for MemoryObjects {
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        let objects = self.lock();
        Ok(hashes.iter().map(|hash| objects.contains_key(hash)).collect())
    }

    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError> {
        let mut objects = self.lock();
        let mut rest = batch.plain();
        for (hash, length) in batch.rows() {
            let length = usize::try_from(*length).unwrap_or(usize::MAX).min(rest.len());
            let (bytes, after) = rest.split_at(length);
            objects.insert(*hash, bytes.to_vec());
            rest = after;
        }
        Ok(batch.plain().len() as u64)
    }

    fn put_like(&self, new: &[NewObject]) -> Result<u64, StoreError> {
        let mut objects = self.lock();
        for object in new {
            objects.insert(object.hash, object.bytes.clone());
        }
        Ok(new.iter().map(|object| object.bytes.len() as u64).sum())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.lock().get(&hash).cloned();
        Ok(found.filter(|bytes| ObjectHash::of(bytes) == hash))
    }

    fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut ObjectReceiver<'_>,
    ) -> Result<(), StoreError> {
        for (at, hash) in hashes.iter().enumerate() {
            if each(at, self.read(*hash)?.as_deref()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError> {
        let objects = self.lock();
        Ok(hashes.iter().map(|hash| objects.contains_key(hash).then_some(0)).collect())
    }
}
