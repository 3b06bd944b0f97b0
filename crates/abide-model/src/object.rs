//! Objects: immutable bytes named by their hash, and the trait of the stores that keep them.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::{ObjectHash, StoreError};

/// Objects that are stored and compressed together, so that small ones cost little.
#[derive(Debug, Clone, Default)]
pub struct ObjectBatch {
    rows: Vec<(ObjectHash, u64)>,
    plain: Vec<u8>,
}

impl ObjectBatch {
    /// Adds an object whose hash is known.
    pub fn push(&mut self, hash: ObjectHash, bytes: &[u8]) {
        self.rows.push((hash, bytes.len() as u64));
        self.plain.extend_from_slice(bytes);
    }

    /// Hash and length of each object, in order.
    #[must_use]
    pub fn rows(&self) -> &[(ObjectHash, u64)] {
        &self.rows
    }

    /// The bytes of all objects, concatenated.
    #[must_use]
    pub fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// Is the batch empty?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Removes all objects but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.plain.clear();
    }
}

/// An object that is similar to a stored one.
#[derive(Debug, Clone)]
pub struct NewObject {
    /// Its hash.
    pub hash: ObjectHash,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// A similar object, usually an earlier version of the same file.
    pub base: Option<ObjectHash>,
}

/// Receives an object: its index among the requested ones, and its bytes.
pub type ObjectReceiver<'a> = dyn FnMut(usize, Option<&[u8]>) -> ControlFlow<()> + 'a;

/// A store of objects. Shared by threads; each call works on the calling thread.
pub trait Objects: std::fmt::Debug + Send + Sync {
    /// Which of these objects exist intact, and will be durable after the next [`Objects::sync`]?
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError>;

    /// Stores objects together and returns the bytes they take. Does not check whether they exist
    /// already: use [`Objects::has`].
    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError>;

    /// Stores each object as a delta of its base where that saves space. Returns the bytes they
    /// take.
    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError>;

    /// Makes every object durable that was put, or found by [`Objects::has`], so far.
    fn sync(&self) -> Result<(), StoreError>;

    /// The bytes of an object, checked against its hash. `None` if it is missing or damaged.
    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError>;

    /// Reads many objects in the cheapest order. Calls `each` with the index in `hashes` and the
    /// bytes, or `None` for an object that is missing or damaged. Stops when `each` breaks.
    fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut ObjectReceiver<'_>,
    ) -> Result<(), StoreError>;

    /// For each object a number that is the same for objects stored together. Used to divide the
    /// work of [`Objects::read_many`] among threads.
    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError>;
}

/// An object in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredObject {
    /// Its hash.
    pub hash: ObjectHash,
    /// The bytes that it takes.
    pub bytes: u64,
    /// How long ago it was stored, by the clock of the store.
    pub age: Duration,
}

/// Objects that can be listed and removed. Whoever removes some makes sure that nobody stores any.
pub trait CollectableObjects: Objects {
    /// Calls `each` with every object in the store, damaged ones too.
    fn each_stored(&self, each: &mut dyn FnMut(StoredObject)) -> Result<(), StoreError>;

    /// Removes objects durably, those that are already gone too, and copies of them on this machine.
    /// None of it begins later than `within` from now, also if the machine sleeps meanwhile.
    fn remove(&self, hashes: &[ObjectHash], within: Duration) -> Result<(), StoreError>;

    /// Removes what processes that were killed have left half written.
    fn remove_remains(&self) -> Result<(), StoreError>;

    /// Notes that a store keeps its objects here.
    fn claim(&self, store: &str) -> Result<(), StoreError>;

    /// The stores that are noted to keep their objects here.
    fn claimed_by(&self) -> Result<Vec<String>, StoreError>;

    /// Forgets which objects are known to be in the store: some may have been removed.
    fn forget_known(&self);
}
