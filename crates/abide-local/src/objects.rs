//! The objects of a local store, for those who put many: snapshots of a workspace.

use abide_journal::PackWriter;
use abide_model::{EachObject, NewObject, ObjectBatch, ObjectHash, Objects, StoreError};

use crate::LocalStore;
use crate::error::store_error;

/// The objects of a [`LocalStore`]. While it lives, nothing is collected.
#[derive(Debug)]
pub struct LocalObjects {
    writer: PackWriter,
}

impl LocalStore {
    /// The store's objects, to put and to read. Waits for a collection that runs.
    pub fn objects(&self) -> Result<LocalObjects, StoreError> {
        let writer = PackWriter::open(self.packs().clone()).map_err(store_error)?;
        Ok(LocalObjects { writer })
    }
}

impl Objects for LocalObjects {
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        self.writer.has(hashes).map_err(store_error)
    }

    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError> {
        self.writer.put_batch(batch).map_err(store_error)
    }

    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError> {
        self.writer.put_like(objects).map_err(store_error)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.writer.sync().map_err(store_error)
    }

    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError> {
        self.writer.packs().read(hash).map_err(store_error)
    }

    fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut EachObject<'_>,
    ) -> Result<(), StoreError> {
        self.writer.packs().read_many(hashes, each).map_err(store_error)
    }

    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError> {
        self.writer.packs().places(hashes).map_err(store_error)
    }
}
