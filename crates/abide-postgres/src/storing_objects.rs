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
    fn open(&self) -> Result<(), StoreError> {
        self.open_within(COLLECTION)
    }

    /// The same, without waiting longer for a collection.
    pub(crate) fn open_within(&self, limit: Duration) -> Result<(), StoreError> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = match &*window {
            Some(open) if !open.is_lost() => return Ok(()),
            lost => lost.as_ref().map(|lost| lost.mark()),
        };
        let opened = self.lock.open(limit)?;
        if lost.is_some_and(|mark| mark != opened.mark()) {
            // The lost one stays, so that what it covered is not named either.
            return Err(self.lock.collected());
        }
        *window = Some(opened);
        Ok(())
    }
}

impl Objects for StoringObjects {
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        self.open()?;
        if hashes.is_empty() { Ok(Vec::new()) } else { self.objects.has(hashes) }
    }

    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError> {
        self.open()?;
        self.objects.put_batch(batch)
    }

    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError> {
        self.open()?;
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
