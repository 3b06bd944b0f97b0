//! Objects: immutable bytes named by their hash, and the seam to where they are kept.

use std::ops::ControlFlow;

use crate::{ObjectHash, StoreError};

/// Objects that are stored together: compressed as one, so that small ones cost little.
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

    /// Hash and length of each, in order.
    #[must_use]
    pub fn rows(&self) -> &[(ObjectHash, u64)] {
        &self.rows
    }

    /// Their bytes, one after the other.
    #[must_use]
    pub fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes all of them out; the room that they took is kept.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.plain.clear();
    }
}

/// An object that is much like another one that is stored.
#[derive(Debug, Clone)]
pub struct NewObject {
    /// Its hash.
    pub hash: ObjectHash,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// An object that it is like: an earlier version of the same file.
    pub base: Option<ObjectHash>,
}

/// Takes an object: which of those asked for, and its bytes.
pub type EachObject<'a> = dyn FnMut(usize, Option<&[u8]>) -> ControlFlow<()> + 'a;

/// Where objects are kept. Shared by threads; each call does its work on the thread that makes it.
pub trait Objects: std::fmt::Debug + Send + Sync {
    /// Which of these are there, whole, and durable after the next [`Objects::sync`]?
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError>;

    /// Stores objects together. Gives the bytes that they take. None of them is looked for
    /// before: ask [`Objects::has`].
    fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, StoreError>;

    /// Stores objects each as its difference from another one, where that pays. Gives the bytes
    /// that they take.
    fn put_like(&self, objects: &[NewObject]) -> Result<u64, StoreError>;

    /// Makes everything durable that was put, or found by [`Objects::has`], so far.
    fn sync(&self) -> Result<(), StoreError>;

    /// The bytes of an object, checked against its name. `None` when it is not there or damaged.
    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError>;

    /// Reads many objects in the order that is cheapest, each given to `each` with its place in
    /// `hashes`; those that are missing or damaged with `None`. Ends early when `each` says so.
    fn read_many(&self, hashes: &[ObjectHash], each: &mut EachObject<'_>)
    -> Result<(), StoreError>;

    /// A number by which objects that are kept together stand together: to share out the work of
    /// [`Objects::read_many`] among threads.
    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError>;
}
