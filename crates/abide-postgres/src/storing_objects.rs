//! The objects of a store for one who stores some: nothing is removed from the first look until it
//! is dropped.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use abide_model::{NewObject, ObjectBatch, ObjectHash, ObjectReceiver, Objects, StoreError};

use crate::storing_lock::{COLLECTION, StoringLock, StoringWindow};

/// Objects with a window that opens by itself. Reading needs none.
#[derive(Debug)]
pub(crate) struct StoringObjects {
    objects: Arc<dyn Objects>,
    lock: Arc<StoringLock>,
    window: Mutex<Option<Arc<StoringWindow>>>,
}

impl StoringObjects {
    pub(crate) fn new(objects: Arc<dyn Objects>, lock: Arc<StoringLock>) -> Self {
        Self { objects, lock, window: Mutex::default() }
    }

    /// Makes sure that nothing was removed since the first look, and will be.
    fn open(&self) -> Result<Arc<StoringWindow>, StoreError> {
        self.open_within(COLLECTION)
    }

    /// The same, without waiting longer for a collection.
    pub(crate) fn open_within(&self, limit: Duration) -> Result<Arc<StoringWindow>, StoreError> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = match &*window {
            Some(open) if !open.is_lost() => return Ok(open.clone()),
            lost => lost.as_ref().map(|lost| lost.mark()),
        };
        let opened = self.lock.open(limit)?;
        if lost.is_some_and(|mark| mark != opened.mark()) {
            // The lost one stays, so that what it covered is not named either.
            return Err(self.lock.collected());
        }
        *window = Some(opened.clone());
        Ok(opened)
    }

    /// Opens a window to store these. One whose removal may not have ended is not stored: it could
    /// be removed afterwards.
    fn open_for(&self, hashes: impl Iterator<Item = ObjectHash>) -> Result<(), StoreError> {
        let window = self.open()?;
        let mut hashes = hashes;
        if hashes.any(|hash| window.is_condemned(hash)) {
            return Err(self.lock.condemned());
        }
        Ok(())
    }
}

impl Objects for StoringObjects {
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        let window = self.open()?;
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let mut there = self.objects.has(hashes)?;
        for (hash, there) in hashes.iter().zip(&mut there) {
            *there &= !window.is_condemned(*hash);
        }
        Ok(there)
    }

    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError> {
        self.open_for(batch.rows().iter().map(|(hash, _)| *hash))?;
        self.objects.put_batch(batch)
    }

    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError> {
        self.open_for(objects.iter().map(|object| object.hash))?;
        self.objects.put_like(objects)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.objects.sync()
    }

    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError> {
        self.objects.read(hash)
    }

    fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut ObjectReceiver<'_>,
    ) -> Result<(), StoreError> {
        self.objects.read_many(hashes, each)
    }

    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError> {
        self.objects.places(hashes)
    }
}
