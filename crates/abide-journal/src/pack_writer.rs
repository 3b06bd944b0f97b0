//! Writes objects into packs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use abide_model::{NewObject, ObjectBatch, ObjectHash};

use crate::compression::{self, Codec};
use crate::pack::{DifferenceObject, PackBlock};
use crate::pack_index::{BlockSlot, PackIndex};
use crate::packs::{FULL, HEADER, KnownPack, MAX_CHAIN, MAX_DEPTH, ObjectLocation, Packs};
use crate::{Access, JournalError, LockMode, StorageFile, StorageLock, read_full, write_full};

/// The index is rewritten once this many bytes or blocks are behind its reach.
const BEHIND_BYTES: u64 = 256 << 10;
const BEHIND_BLOCKS: u64 = 512;
/// A pack with more bytes than this behind its index is left, and a new one is started.
const MAX_BEHIND: u64 = 8 << 20;
/// A background sync starts after this many bytes.
const EARLY: u64 = 12 << 20;
/// A difference is kept if it is this many times smaller than the object.
const PAYS: usize = 2;
/// The most stored bytes in one block of differences.
const LIKE_BYTES: usize = 4 << 20;

/// The bytes and the depth of an object used as a base.
type DifferenceBase = (Vec<u8>, u32);

/// Appends objects to packs, holding the lock of the pack it appends to. Threads share a writer:
/// they compress in parallel and write in turn.
#[derive(Debug)]
pub struct PackWriter {
    packs: Arc<Packs>,
    /// Keeps collection out while objects are written and named.
    _share: Option<Box<dyn StorageLock>>,
    inner: Mutex<PackWriterState>,
}

#[derive(Debug, Default)]
struct PackWriterState {
    open: Option<OpenPack>,
    /// Start a new pack instead of continuing one.
    fresh: bool,
    written: u64,
    /// Packs to sync before an event that names their objects is written.
    unsynced: BTreeSet<u64>,
    /// Whether the names of packs may not be durable yet.
    unnamed: bool,
    mine: HashMap<u64, OwnPackRange>,
    /// Blocks of other writers that were verified, objects whose bases were verified, and blocks
    /// that were rewritten.
    verified: HashSet<(u64, u64)>,
    based: HashSet<ObjectLocation>,
    again: HashSet<(u64, u64)>,
    /// A sync has failed, so it is unknown what is durable.
    failed: bool,
    /// Bytes written since the last sync was started.
    unhurried: u64,
    /// Syncs running in the background.
    syncing: Vec<JoinHandle<Result<(), JournalError>>>,
}

/// A writer's own part of a pack.
#[derive(Debug, Clone, Copy)]
struct OwnPackRange {
    /// This writer must make durable everything from here on.
    from: u64,
    /// This writer wrote everything from here on.
    own: u64,
    /// The end of the part.
    end: u64,
}

#[derive(Debug)]
struct OpenPack {
    number: u64,
    path: PathBuf,
    file: Arc<dyn StorageFile>,
    end: u64,
    /// The approximate number of blocks behind the index.
    blocks: u64,
    _lock: Box<dyn StorageLock>,
}

impl PackWriter {
    /// Opens a writer. Waits while a collection runs.
    pub fn open(packs: Arc<Packs>) -> Result<Self, JournalError> {
        let path = packs.dir.join("lock");
        loop {
            let lock = packs
                .storage
                .lock(&path, LockMode::Shared)
                .map_err(JournalError::io("lock", &path))?;
            if let Some(share) = lock {
                // Others may have collected since this process last looked.
                packs.forget()?;
                return Ok(Self { packs, _share: Some(share), inner: Mutex::default() });
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// The writer of a collection: it always starts a new pack.
    pub(crate) fn beginning_a_pack(packs: Arc<Packs>) -> Self {
        let inner = PackWriterState { fresh: true, ..PackWriterState::default() };
        Self { packs, _share: None, inner: Mutex::new(inner) }
    }

    /// The number of bytes written.
    pub(crate) fn written(&self) -> u64 {
        self.lock().written
    }

    fn lock(&self) -> MutexGuard<'_, PackWriterState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the packs it started, as far as possible.
    pub(crate) fn discard(&self) {
        let mut inner = self.lock();
        for handle in std::mem::take(&mut inner.syncing) {
            let _ = handle.join();
        }
        inner.open = None;
        inner.unsynced.clear();
        for number in std::mem::take(&mut inner.mine).into_keys() {
            let path = self.packs.path(number);
            let _ = PackIndex::remove(&*self.packs.storage, &path);
            let _ = self.packs.storage.remove(&path);
        }
    }

    /// Stores an object unless it exists. It is durable after [`PackWriter::sync`].
    pub fn put(&self, bytes: &[u8]) -> Result<ObjectHash, JournalError> {
        let hash = ObjectHash::of(bytes);
        if self.has(&[hash])? != [true] {
            self.append(&[(hash, bytes.len() as u64)], bytes)?;
        }
        Ok(hash)
    }

    /// Which of these exist, whole, and will be durable after the next [`PackWriter::sync`]?
    pub fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, JournalError> {
        self.has_within(hashes, 0)
    }

    fn has_within(&self, hashes: &[ObjectHash], depth: u32) -> Result<Vec<bool>, JournalError> {
        let places = self.packs.find_all(hashes)?;
        let mut has = Vec::with_capacity(hashes.len());
        for (hash, place) in hashes.iter().zip(places) {
            has.push(match place {
                Some(place) => self.rely_on(*hash, place, depth)?,
                None => false,
            });
        }
        Ok(has)
    }

    /// Ensures that a block written by others is whole and will be durable, since events will name
    /// its objects. `false` if it is damaged.
    fn rely_on(
        &self,
        hash: ObjectHash,
        place: ObjectLocation,
        depth: u32,
    ) -> Result<bool, JournalError> {
        let key = (place.pack, place.offset);
        let mut inner = self.lock();
        self.refuse_failed(&inner)?;
        let nothing = OwnPackRange { from: u64::MAX, own: u64::MAX, end: 0 };
        let OwnPackRange { from, own, .. } =
            inner.mine.get(&place.pack).copied().unwrap_or(nothing);
        if place.offset < own && !inner.based.contains(&place) {
            let path = self.packs.path(place.pack);
            let Some((file, block)) = self.packs.block(place)? else { return Ok(false) };
            let Some(row) = block.rows.get(place.index as usize).filter(|row| row.hash == hash)
            else {
                return Ok(false);
            };
            if !inner.verified.contains(&key) {
                if !block.verify(&*file, place.offset).map_err(JournalError::io("read", &path))? {
                    return Ok(false);
                }
                inner.verified.insert(key);
            }
            if let Some(base) = row.base() {
                drop(inner);
                if depth >= MAX_CHAIN || self.has_within(&[base], depth + 1)? != [true] {
                    return Ok(false);
                }
                inner = self.lock();
            }
            inner.based.insert(place);
        }
        let reach = self.packs.lock_index().packs.get(&place.pack).map_or(0, KnownPack::reach);
        if place.offset >= reach && place.offset < from && !inner.again.contains(&key) {
            self.write_again(place)?;
            inner.again.insert(key);
            inner.unsynced.insert(place.pack);
            inner.unnamed = true;
        }
        Ok(true)
    }

    /// Rewrites a block in place. Its writer may have failed to sync it; the page cache then holds
    /// bytes that would never reach the disk.
    fn write_again(&self, place: ObjectLocation) -> Result<(), JournalError> {
        let Some((_, block)) = self.packs.block(place)? else { return Ok(()) };
        let path = self.packs.path(place.pack);
        let file = self
            .packs
            .storage
            .open(&path, Access::Write)
            .map_err(JournalError::io("open", &path))?;
        rewrite_pack_range(&*file, place.offset, place.offset + block.size())
            .map_err(JournalError::io("write", &path))
    }

    /// Stores objects together without checking whether they exist. Returns the bytes used.
    pub fn put_batch(&self, batch: &ObjectBatch) -> Result<u64, JournalError> {
        if batch.is_empty() {
            return Ok(0);
        }
        self.append(batch.rows(), batch.plain())
    }

    fn append(&self, rows: &[(ObjectHash, u64)], plain: &[u8]) -> Result<u64, JournalError> {
        let dir = &self.packs.dir;
        let block = PackBlock::pack(rows, plain, self.packs.compression)
            .map_err(JournalError::io("pack objects for", dir))?;
        self.write(&block, &mut rows.iter().map(|(hash, _)| *hash))
    }

    /// Stores objects as differences from others where that pays. Returns the bytes used.
    pub fn put_like(&self, objects: &[NewObject]) -> Result<u64, JournalError> {
        let bases = self.bases(objects)?;
        let mut plain = ObjectBatch::default();
        let mut like: Vec<DifferenceObject> = Vec::new();
        let (mut bytes, mut taken) = (0, 0);
        for (object, base) in objects.iter().zip(bases) {
            let stored = match &base {
                Some((bytes, _)) => Some(
                    compression::compress_like(&object.bytes, bytes)
                        .map_err(JournalError::io("pack objects for", &self.packs.dir))?,
                ),
                None => None,
            };
            let stored = stored.filter(|stored| stored.len() < object.bytes.len() / PAYS);
            match (stored, base) {
                (Some(stored), Some((_, depth))) => {
                    bytes += stored.len();
                    like.push(DifferenceObject {
                        hash: object.hash,
                        length: object.bytes.len() as u64,
                        base: object.base,
                        depth: depth + 1,
                        stored,
                    });
                }
                _ => plain.push(object.hash, &object.bytes),
            }
            if bytes > LIKE_BYTES {
                taken += self.write_like(&like)?;
                like.clear();
                bytes = 0;
            }
            if plain.plain().len() > LIKE_BYTES {
                taken += self.put_batch(&plain)?;
                plain.clear();
            }
        }
        Ok(taken + self.write_like(&like)? + self.put_batch(&plain)?)
    }

    pub(crate) fn write_like(&self, objects: &[DifferenceObject]) -> Result<u64, JournalError> {
        if objects.is_empty() {
            return Ok(0);
        }
        let block = PackBlock::pack_like(objects)
            .map_err(JournalError::io("pack objects for", &self.packs.dir))?;
        self.write(&block, &mut objects.iter().map(|object| object.hash))
    }

    /// The bytes and the depth of each object's base, if it can serve as one.
    fn bases(&self, objects: &[NewObject]) -> Result<Vec<Option<DifferenceBase>>, JournalError> {
        let mut bases: Vec<Option<DifferenceBase>> = objects.iter().map(|_| None).collect();
        if self.packs.compression.codec != Codec::Zstd {
            return Ok(bases);
        }
        let mut wanted = Vec::new();
        for (at, object) in objects.iter().enumerate() {
            let Some(base) = object.base.filter(|base| *base != object.hash) else { continue };
            let Some(place) = self.packs.find(base)? else { continue };
            let Some((_, block)) = self.packs.block(place)? else { continue };
            let depth = block.rows.get(place.index as usize).map_or(0, crate::pack::PackRow::depth);
            if depth < MAX_DEPTH && self.rely_on(base, place, 0)? {
                wanted.push((at, base, depth));
            }
        }
        let hashes: Vec<_> = wanted.iter().map(|(_, base, _)| *base).collect();
        self.packs.read_many(&hashes, &mut |index, bytes| {
            if let (Some((at, _, depth)), Some(bytes)) = (wanted.get(index), bytes)
                && let Some(base) = bases.get_mut(*at)
            {
                *base = Some((bytes.to_vec(), *depth));
            }
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(bases)
    }

    /// Appends a block.
    pub(crate) fn write(
        &self,
        block: &[u8],
        hashes: &mut dyn Iterator<Item = ObjectHash>,
    ) -> Result<u64, JournalError> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        self.refuse_failed(inner)?;
        let open = self.pack(inner)?;
        if let Err(error) = write_full(&*open.file, block, open.end) {
            let _ = open.file.truncate(open.end);
            let failed = JournalError::io("write", &open.path)(error);
            inner.open = None;
            return Err(failed);
        }
        let (number, offset) = (open.number, open.end);
        open.end += block.len() as u64;
        open.blocks += 1;
        let end = open.end;
        inner.written += block.len() as u64;
        inner.unsynced.insert(number);
        if let Some(mine) = inner.mine.get_mut(&number) {
            mine.end = end;
        }
        inner.unhurried += block.len() as u64;
        if inner.unhurried >= EARLY
            && let Some(open) = &inner.open
        {
            // So that the final sync has little left to do.
            inner.unhurried = 0;
            let (file, path) = (open.file.clone(), open.path.clone());
            inner.syncing.push(std::thread::spawn(move || {
                file.sync().map_err(JournalError::io("sync", &path))
            }));
        }
        if let Some(known) = self.packs.lock_index().packs.get_mut(&number) {
            known
                .behind
                .extend((0..).zip(hashes).map(|(index, hash)| (hash, BlockSlot { offset, index })));
            known.end = end;
        }
        Ok(block.len() as u64)
    }

    /// Makes everything durable that was stored or found since the last sync. If that fails, the
    /// writer is unusable: it is unknown what is durable.
    pub fn sync(&self) -> Result<(), JournalError> {
        let mut inner = self.lock();
        self.refuse_failed(&inner)?;
        let synced = self.sync_all(&mut inner);
        inner.failed = synced.is_err();
        synced
    }

    fn refuse_failed(&self, inner: &PackWriterState) -> Result<(), JournalError> {
        if !inner.failed {
            return Ok(());
        }
        let earlier = io::Error::other("an earlier sync of these objects has failed");
        Err(JournalError::io("store objects in", &self.packs.dir)(earlier))
    }

    fn sync_all(&self, inner: &mut PackWriterState) -> Result<(), JournalError> {
        let mut failed = None;
        for handle in std::mem::take(&mut inner.syncing) {
            let done = handle.join().unwrap_or_else(|_| {
                Err(JournalError::io("sync", &self.packs.dir)(io::Error::other(
                    "a sync thread panicked",
                )))
            });
            failed = failed.or(done.err());
        }
        if let Some(failed) = failed {
            return Err(failed);
        }
        for number in std::mem::take(&mut inner.unsynced) {
            let path = self.packs.path(number);
            let file = match &inner.open {
                Some(open) if open.number == number => open.file.clone(),
                _ => self
                    .packs
                    .storage
                    .open(&path, Access::Write)
                    .map_err(JournalError::io("open", &path))?,
            };
            file.sync().map_err(JournalError::io("sync", &path))?;
        }
        if std::mem::take(&mut inner.unnamed) {
            let dir = &self.packs.dir;
            self.packs.storage.sync_dir(dir).map_err(JournalError::io("sync", dir))?;
        }
        let due: Vec<(u64, u64)> =
            inner.mine.iter().map(|(number, mine)| (*number, mine.end)).collect();
        for (number, end) in due {
            let open = inner.open.as_mut().filter(|open| open.number == number);
            match open {
                Some(open) if open.blocks < BEHIND_BLOCKS && !self.is_behind(number) => {}
                Some(open) => {
                    self.write_index(number, end);
                    open.blocks = 0;
                }
                // A pack we moved on from: it will not change again.
                None => {
                    self.write_index(number, end);
                    inner.mine.remove(&number);
                }
            }
        }
        Ok(())
    }

    fn is_behind(&self, number: u64) -> bool {
        let index = self.packs.lock_index();
        index.packs.get(&number).is_some_and(|known| known.end - known.reach() >= BEHIND_BYTES)
    }

    /// Writes the index of a pack that is synced up to `end`. Only an optimisation: without it the
    /// pack is walked.
    fn write_index(&self, number: u64, end: u64) {
        let path = self.packs.path(number);
        let mut index = self.packs.lock_index();
        let Some(known) = index.packs.get_mut(&number).filter(|known| known.whole) else { return };
        let old = known.index.as_ref().map(PackIndex::rows).transpose();
        let Ok(old) = old else { return };
        let mut rows = old.unwrap_or_default();
        let synced = known.behind.iter().filter(|(_, at)| at.offset < end);
        rows.extend(synced.map(|(hash, at)| (*hash, *at)));
        if PackIndex::write(&*self.packs.storage, &path, end, rows).is_ok()
            && let Some(new) = PackIndex::open(&*self.packs.storage, &path, end)
        {
            known.index = Some(new);
            known.behind.retain(|_, at| at.offset >= end);
        }
    }

    /// The pack to append to: the current one, another that nobody writes to, or a new one.
    fn pack<'a>(&self, inner: &'a mut PackWriterState) -> Result<&'a mut OpenPack, JournalError> {
        if let Some(full) = inner.open.take_if(|open| open.end >= FULL) {
            // Synced in the background.
            inner.syncing.push(std::thread::spawn(move || {
                full.file.sync().map_err(JournalError::io("sync", &full.path))
            }));
            inner.unsynced.remove(&full.number);
        }
        let open = match inner.open.take() {
            Some(open) => open,
            None => {
                let (open, from) = self.take_pack(inner.fresh)?;
                let (own, end) = (open.end, open.end);
                inner.mine.insert(open.number, OwnPackRange { from, own, end });
                inner.unsynced.insert(open.number);
                inner.unnamed |= from <= HEADER.len() as u64;
                open
            }
        };
        Ok(inner.open.insert(open))
    }

    /// A pack, and the offset from which this writer must make it durable.
    fn take_pack(&self, fresh: bool) -> Result<(OpenPack, u64), JournalError> {
        let packs = &self.packs;
        let numbers = packs.numbers()?;
        // Packs fill up in order, so an unfilled one is among the last.
        for number in numbers.into_iter().rev().take(if fresh { 0 } else { 8 }) {
            let Some(lock) = self.lock_pack(number)? else {
                continue;
            };
            if let Some(taken) = self.take_over(number, lock)? {
                return Ok(taken);
            }
        }
        let mut next = packs.next_number()?;
        loop {
            let path = packs.path(next);
            // Whoever has the lock creates the pack.
            let Some(lock) = self.lock_pack(next)? else {
                next += 1;
                continue;
            };
            match packs.storage.open(&path, Access::CreateNew) {
                Ok(file) => {
                    // A leftover index of a removed pack with this number.
                    let begun = PackIndex::remove(&*packs.storage, &path)
                        .map_err(JournalError::io("remove the index of", &path))
                        .and_then(|()| {
                            write_full(&*file, HEADER, 0).map_err(JournalError::io("write", &path))
                        })
                        .and_then(|()| packs.walk(&mut packs.lock_index(), next));
                    if let Err(error) = begun {
                        // The disk is full: an empty pack would stay in the way for good.
                        packs.lock_index().packs.remove(&next);
                        let _ = packs.storage.remove(&path);
                        return Err(error);
                    }
                    let end = HEADER.len() as u64;
                    let open = OpenPack { number: next, path, file, end, blocks: 0, _lock: lock };
                    return Ok((open, end));
                }
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(JournalError::io("create", &path)(error));
                }
                Err(_) => next += 1,
            }
        }
    }

    /// Continues a pack if it is whole and not full. What is behind its index is rewritten, so that
    /// the next sync certainly makes it durable.
    fn take_over(
        &self,
        number: u64,
        lock: Box<dyn StorageLock>,
    ) -> Result<Option<(OpenPack, u64)>, JournalError> {
        let packs = &self.packs;
        let (whole, walked, reach, blocks) = {
            let mut index = packs.lock_index();
            packs.walk(&mut index, number)?;
            let Some(known) = index.packs.get(&number) else { return Ok(None) };
            (known.whole, known.end, known.reach(), known.behind.len() as u64)
        };
        let path = packs.path(number);
        let file =
            packs.storage.open(&path, Access::Write).map_err(JournalError::io("open", &path))?;
        let end = file.len().map_err(JournalError::io("read", &path))?;
        if !whole || walked != end || end >= FULL || end - reach > MAX_BEHIND {
            return Ok(None);
        }
        rewrite_pack_range(&*file, reach, end).map_err(JournalError::io("write", &path))?;
        let from = reach.max(HEADER.len() as u64);
        Ok(Some((OpenPack { number, path, file, end, blocks, _lock: lock }, from)))
    }

    fn lock_pack(&self, number: u64) -> Result<Option<Box<dyn StorageLock>>, JournalError> {
        let path = self.packs.lock_path(number);
        self.packs.storage.lock(&path, LockMode::Exclusive).map_err(JournalError::io("lock", &path))
    }
}

/// Rewrites a range of bytes in place.
fn rewrite_pack_range(file: &dyn StorageFile, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let left = usize::try_from(to - at).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(1 << 20)];
        let read = read_full(file, &mut bytes, at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(read);
        write_full(file, &bytes, at)?;
        at += read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::packs::test_packs as packs;

    #[test]
    fn objects_come_back_are_kept_once_and_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        let text = "an object ".repeat(10_000);
        let writer = PackWriter::open(packs(dir.path())).unwrap();
        let hash = writer.put(text.as_bytes()).unwrap();
        writer.sync().unwrap();
        let size = std::fs::metadata(dir.path().join("00000001.pack")).unwrap().len();
        assert!(size < 1000);
        drop(writer);
        // Another process finds it, and does not store it again.
        let other = packs(dir.path());
        let writer = PackWriter::open(other.clone()).unwrap();
        assert_eq!(writer.put(text.as_bytes()).unwrap(), hash);
        writer.put(b"small").unwrap();
        writer.sync().unwrap();
        assert_eq!(other.read(hash).unwrap().unwrap(), text.as_bytes());
        assert_eq!(other.read(ObjectHash::of(b"nothing")).unwrap(), None);
        assert_eq!(other.verify().unwrap(), []);
        assert_eq!(other.numbers().unwrap(), [1]);

        let path = dir.path().join("00000001.pack");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() - 3;
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(packs(dir.path()).read(ObjectHash::of(b"small")).unwrap(), None);
        assert_eq!(other.verify().unwrap().len(), 1);
    }

    #[test]
    fn two_writers_have_a_pack_each_and_a_torn_pack_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let one = PackWriter::open(packs(dir.path())).unwrap();
        let two = PackWriter::open(packs(dir.path())).unwrap();
        let first = one.put(b"first").unwrap();
        let second = two.put(b"second").unwrap();
        assert_eq!(one.packs.numbers().unwrap(), [1, 2]);
        drop((one, two));
        let path = dir.path().join("00000002.pack");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(b"aBLK half a blo");
        std::fs::write(&path, &bytes).unwrap();
        let all = packs(dir.path());
        let writer = PackWriter::open(all.clone()).unwrap();
        let third = writer.put(b"third").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        for hash in [first, second, third] {
            assert!(all.read(hash).unwrap().is_some());
        }
    }

    fn version(n: u32) -> Vec<u8> {
        let lines = (0..4000_u32).map(|line| {
            let edit = if line == n { "edited" } else { "plain" };
            format!("{edit} line {line} {}\n", blake3::hash(&line.to_le_bytes()))
        });
        lines.collect::<String>().into_bytes()
    }

    fn size_of(dir: &Path) -> u64 {
        let packs = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        packs
            .filter(|path| path.extension().is_some_and(|e| e == "pack"))
            .map(|path| std::fs::metadata(path).unwrap().len())
            .sum()
    }

    #[test]
    fn many_versions_of_a_file_take_the_room_of_their_differences() {
        let dir = tempfile::tempdir().unwrap();
        let all = packs(dir.path());
        let writer = PackWriter::open(all.clone()).unwrap();
        let mut last = writer.put(&version(0)).unwrap();
        let first_size = size_of(dir.path());
        let mut hashes = vec![last];
        for n in 1..40 {
            let bytes = version(n);
            let hash = ObjectHash::of(&bytes);
            writer.put_like(&[NewObject { hash, bytes, base: Some(last) }]).unwrap();
            writer.sync().unwrap();
            last = hash;
            hashes.push(hash);
        }
        // Each chain ends after MAX_DEPTH, and a whole one is stored.
        assert!(size_of(dir.path()) < first_size * 5);
        let fresh = packs(dir.path());
        for (n, hash) in (0..).zip(&hashes) {
            assert_eq!(fresh.read(*hash).unwrap().unwrap(), version(n), "{n}");
        }
        let mut seen = 0;
        fresh
            .read_many(&hashes, &mut |n, bytes| {
                seen += 1;
                assert_eq!(bytes.unwrap(), version(u32::try_from(n).unwrap()));
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(seen, hashes.len());
        // An object whose base is damaged is not there.
        let path = dir.path().join("00000001.pack");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[200] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(packs(dir.path()).read(hashes[1]).unwrap(), None);
        let writer = PackWriter::open(packs(dir.path())).unwrap();
        assert_eq!(writer.has(&[hashes[0], hashes[1], hashes[39]]).unwrap()[..2], [false, false]);
    }

    #[test]
    fn batches_are_found_through_the_index_and_without_it() {
        let dir = tempfile::tempdir().unwrap();
        let all = packs(dir.path());
        let writer = PackWriter::open(all).unwrap();
        let object = |n: u32| {
            let mut bytes = vec![0; 640];
            blake3::Hasher::new().update(&n.to_le_bytes()).finalize_xof().fill(&mut bytes);
            bytes
        };
        let objects: Vec<Vec<u8>> = (0..3000).map(object).collect();
        for part in objects.chunks(100) {
            let mut batch = ObjectBatch::default();
            part.iter().for_each(|bytes| batch.push(ObjectHash::of(bytes), bytes));
            writer.put_batch(&batch).unwrap();
        }
        writer.sync().unwrap();
        drop(writer);
        let hashes: Vec<_> = objects.iter().map(|bytes| ObjectHash::of(bytes)).collect();
        let index = dir.path().join("00000001.idx");
        for with_index in [true, false] {
            assert_eq!(index.exists(), with_index);
            let fresh = packs(dir.path());
            assert_eq!(fresh.read(hashes[777]).unwrap().unwrap(), objects[777]);
            let writer = PackWriter::open(fresh).unwrap();
            assert!(writer.has(&hashes).unwrap().iter().all(|has| *has));
            drop(writer);
            let _ = std::fs::remove_file(&index);
        }
    }
}
