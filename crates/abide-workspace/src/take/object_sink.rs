//! Collects new objects per worker, checks in batches which of them the store has, and stores the
//! rest together.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

use abide_model::{NewObject, ObjectBatch, ObjectHash, Objects, StoreError};

/// Uncompressed bytes that are stored as one batch.
const BLOCK: usize = 512 << 10;
const SHARDS: usize = 16;

/// Uses the first bytes of a hash as its hash.
#[derive(Default)]
struct PrefixHasher(u64);

impl Hasher for PrefixHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk::<8>() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    fn write_usize(&mut self, _length: usize) {}
}

/// Objects that some worker is responsible for.
#[derive(Default)]
pub(crate) struct Claims {
    shards: [Mutex<HashSet<[u8; 32], BuildHasherDefault<PrefixHasher>>>; SHARDS],
}

impl Claims {
    /// Returns true for the first caller only.
    fn claim(&self, hash: ObjectHash) -> bool {
        let at = usize::from(hash.0[31]) % SHARDS;
        let Some(shard) = self.shards.get(at) else { return true };
        shard.lock().unwrap_or_else(PoisonError::into_inner).insert(hash.0)
    }
}

/// What a worker has stored.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoredCounts {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

/// The new objects of one worker.
pub(crate) struct ObjectSink<'a> {
    objects: &'a dyn Objects,
    claims: &'a Claims,
    files: ObjectBatch,
    trees: ObjectBatch,
    like: Vec<NewObject>,
    like_bytes: usize,
    pub(crate) stored: StoredCounts,
    /// True if any object was added.
    pub(crate) used: bool,
}

impl<'a> ObjectSink<'a> {
    pub(crate) fn new(objects: &'a dyn Objects, claims: &'a Claims) -> Self {
        Self {
            objects,
            claims,
            files: ObjectBatch::default(),
            trees: ObjectBatch::default(),
            like: Vec::new(),
            like_bytes: 0,
            stored: StoredCounts::default(),
            used: false,
        }
    }

    /// Adds a file, a link's target or a chunk.
    pub(crate) fn add(&mut self, hash: ObjectHash, bytes: &[u8]) -> Result<(), StoreError> {
        if self.claims(hash) {
            push_to_sink(self.objects, &mut self.files, &mut self.stored, hash, bytes)?;
        }
        Ok(())
    }

    /// Adds a tree.
    pub(crate) fn add_tree(&mut self, hash: ObjectHash, bytes: &[u8]) -> Result<(), StoreError> {
        if self.claims(hash) {
            push_to_sink(self.objects, &mut self.trees, &mut self.stored, hash, bytes)?;
        }
        Ok(())
    }

    /// Adds a new version of a stored object.
    pub(crate) fn add_like(
        &mut self,
        hash: ObjectHash,
        bytes: &[u8],
        base: ObjectHash,
    ) -> Result<(), StoreError> {
        if !self.claims(hash) {
            return Ok(());
        }
        self.like_bytes += bytes.len();
        self.like.push(NewObject { hash, bytes: bytes.to_vec(), base: Some(base) });
        if self.like_bytes >= BLOCK { self.flush_like() } else { Ok(()) }
    }

    /// Stores what is left.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        flush_sink(self.objects, &mut self.files, &mut self.stored)?;
        flush_sink(self.objects, &mut self.trees, &mut self.stored)?;
        self.flush_like()
    }

    fn claims(&mut self, hash: ObjectHash) -> bool {
        self.used = true;
        self.claims.claim(hash)
    }

    fn flush_like(&mut self) -> Result<(), StoreError> {
        self.like_bytes = 0;
        let mut like = std::mem::take(&mut self.like);
        if like.is_empty() {
            return Ok(());
        }
        let hashes: Vec<_> = like.iter().map(|object| object.hash).collect();
        let mut there = self.objects.has(&hashes)?.into_iter();
        like.retain(|_| !there.next().unwrap_or(false));
        if !like.is_empty() {
            self.stored.bytes += self.objects.put_like(&like)?;
            self.stored.objects += like.len() as u64;
        }
        Ok(())
    }
}

fn push_to_sink(
    objects: &dyn Objects,
    batch: &mut ObjectBatch,
    stored: &mut StoredCounts,
    hash: ObjectHash,
    bytes: &[u8],
) -> Result<(), StoreError> {
    if batch.plain().len() + bytes.len() > BLOCK {
        flush_sink(objects, batch, stored)?;
    }
    batch.push(hash, bytes);
    Ok(())
}

fn flush_sink(
    objects: &dyn Objects,
    batch: &mut ObjectBatch,
    stored: &mut StoredCounts,
) -> Result<(), StoreError> {
    if batch.is_empty() {
        return Ok(());
    }
    let hashes: Vec<_> = batch.rows().iter().map(|(hash, _)| *hash).collect();
    let there = objects.has(&hashes)?;
    if there.contains(&true) {
        let missing = without_stored_objects(batch, &there);
        if !missing.is_empty() {
            stored.bytes += objects.put_batch(&missing)?;
            stored.objects += missing.rows().len() as u64;
        }
    } else {
        stored.bytes += objects.put_batch(batch)?;
        stored.objects += batch.rows().len() as u64;
    }
    batch.clear();
    Ok(())
}

/// The batch without the objects that exist already.
fn without_stored_objects(batch: &ObjectBatch, there: &[bool]) -> ObjectBatch {
    let mut missing = ObjectBatch::default();
    let mut rest = batch.plain();
    for ((hash, length), there) in batch.rows().iter().zip(there) {
        let length = usize::try_from(*length).unwrap_or(usize::MAX).min(rest.len());
        let (bytes, after) = rest.split_at(length);
        if !there {
            missing.push(*hash, bytes);
        }
        rest = after;
    }
    missing
}
