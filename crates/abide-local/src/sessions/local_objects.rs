//! The objects of a local store, for callers that store many: workspace snapshots.

use std::sync::{Arc, Mutex, PoisonError};

use abide_journal::{JournalError, PackWriter, Packs};
use abide_model::{NewObject, ObjectBatch, ObjectHash, ObjectReceiver, Objects, StoreError};

use crate::error::store_error;

/// The objects of a [`LocalStore`](crate::LocalStore). Reading neither writes nor locks. From the first check for an
/// object, or the first one stored, nothing is collected until this is dropped.
#[derive(Debug)]
pub struct LocalObjects {
    packs: Arc<Packs>,
    writer: Mutex<Option<Arc<PackWriter>>>,
}

impl LocalObjects {
    pub(crate) fn new(packs: Arc<Packs>) -> Self {
        Self { packs, writer: Mutex::default() }
    }

    /// The pack writer. Waits for a running collection.
    fn writer(&self) -> Result<Arc<PackWriter>, JournalError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = &*writer {
            return Ok(writer.clone());
        }
        let opened = Arc::new(PackWriter::open(self.packs.clone())?);
        Ok(writer.insert(opened).clone())
    }
}

impl Objects for LocalObjects {
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        self.writer().and_then(|writer| writer.has(hashes)).map_err(store_error)
    }

    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError> {
        self.writer().and_then(|writer| writer.put_batch(batch)).map_err(store_error)
    }

    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError> {
        self.writer().and_then(|writer| writer.put_like(objects)).map_err(store_error)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.writer().and_then(|writer| writer.sync()).map_err(store_error)
    }

    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError> {
        self.packs.read(hash).map_err(store_error)
    }

    fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut ObjectReceiver<'_>,
    ) -> Result<(), StoreError> {
        self.packs.read_many(hashes, each).map_err(store_error)
    }

    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError> {
        self.packs.places(hashes).map_err(store_error)
    }
}
