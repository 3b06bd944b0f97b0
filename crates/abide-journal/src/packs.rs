//! Objects in packs: content-addressed, deduplicated, compressed.
//!
//! A pack is a file of [`Block`](crate::pack)s that only grows. It is never cut: a pack whose
//! end is not whole is left as it is, and a new one is begun. One process appends to a pack at
//! a time (a lock on the pack); any number read. An object is durable when its pack was synced,
//! and whoever names it syncs the pack first, whether it wrote the object or found it there.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abide_model::ObjectHash;

use crate::pack::Block;
use crate::{Access, JournalError, Lock, LockMode, Storage, StorageFile, read_full, write_full};

/// The first bytes of a pack.
const HEADER: &[u8; 16] = b"abide pack 1\n\0\0\0";
/// A pack that has this many bytes is full.
const FULL: u64 = 64 << 20;
const LEVEL: i32 = 3;
/// The most bytes that are hashed in search of one block.
const MAX_HASHED: u64 = 1 << 30;

/// Where an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectPlace {
    /// The number of the pack.
    pub pack: u64,
    /// Where its block starts.
    offset: u64,
    /// Which object of the block.
    index: usize,
}

#[derive(Debug, Default)]
struct Index {
    places: HashMap<ObjectHash, ObjectPlace>,
    /// How far each pack was walked.
    walked: HashMap<u64, Walked>,
    /// Every pack was walked with its blocks checked.
    thorough: bool,
}

#[derive(Debug, Clone, Copy)]
struct Walked {
    /// Where the last whole block ends.
    end: u64,
    /// Every byte up to there belongs to a whole block.
    whole: bool,
}

/// The objects of a store.
#[derive(Debug)]
pub struct Packs {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    index: Mutex<Index>,
}

impl Packs {
    /// The packs in this directory.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>, dir: PathBuf) -> Self {
        Self { storage, dir, index: Mutex::default() }
    }

    fn path(&self, pack: u64) -> PathBuf {
        self.dir.join(format!("{pack:08}.pack"))
    }

    fn lock_index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of the packs, in order.
    pub fn numbers(&self) -> Result<Vec<u64>, JournalError> {
        let names = match self.storage.list(&self.dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(JournalError::io("list", &self.dir)(error)),
        };
        let mut numbers: Vec<u64> =
            names.iter().filter_map(|name| name.strip_suffix(".pack")?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Where an object is, if it is there.
    pub fn find(&self, hash: ObjectHash) -> Result<Option<ObjectPlace>, JournalError> {
        let mut index = self.lock_index();
        if let Some(place) = index.places.get(&hash) {
            return Ok(Some(*place));
        }
        for pack in self.numbers()? {
            self.walk(&mut index, pack)?;
        }
        Ok(index.places.get(&hash).copied())
    }

    /// Reads on in a pack from where it was last left. Behind bytes that are no block, it goes on
    /// with the next block whose check fits.
    fn walk(&self, index: &mut Index, pack: u64) -> Result<Walked, JournalError> {
        let path = self.path(pack);
        let file =
            self.storage.open(&path, Access::Read).map_err(JournalError::io("open", &path))?;
        let read = |error| JournalError::io("read", &path)(error);
        let end = file.len().map_err(read)?;
        let begin = Walked { end: HEADER.len() as u64, whole: has_header(&*file).map_err(read)? };
        let mut walked = index.walked.get(&pack).copied().unwrap_or(begin);
        loop {
            while let Some(block) = Block::read(&*file, walked.end, end).map_err(read)? {
                for (position, (hash, _)) in block.objects.iter().enumerate() {
                    let place = ObjectPlace { pack, offset: walked.end, index: position };
                    index.places.insert(*hash, place);
                }
                walked.end += block.size();
            }
            match next_block(&*file, walked.end, end).map_err(read)? {
                Some(next) => walked = Walked { end: next, whole: false },
                None => break,
            }
        }
        index.walked.insert(pack, walked);
        Ok(walked)
    }

    /// The bytes of an object, checked against its name. Where it is not found, or not whole, every
    /// pack is walked once more with each block checked: a damaged length may have led past it.
    pub fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, JournalError> {
        if let Some(bytes) = self.read_found(hash)? {
            return Ok(Some(bytes));
        }
        let mut index = self.lock_index();
        if std::mem::replace(&mut index.thorough, true) {
            return Ok(None);
        }
        for pack in self.numbers()? {
            self.walk_checked(&mut index, pack)?;
        }
        drop(index);
        self.read_found(hash)
    }

    /// Walks a pack from its start, trusting no length that its check does not cover.
    fn walk_checked(&self, index: &mut Index, pack: u64) -> Result<(), JournalError> {
        let path = self.path(pack);
        let file =
            self.storage.open(&path, Access::Read).map_err(JournalError::io("open", &path))?;
        let read = |error| JournalError::io("read", &path)(error);
        let end = file.len().map_err(read)?;
        let mut at = Some(HEADER.len() as u64);
        while let Some(offset) = at {
            let block = Block::read(&*file, offset, end).map_err(read)?;
            let whole = match &block {
                Some(block) => block.verify(&*file, offset).map_err(read)?,
                None => false,
            };
            at = match block.filter(|_| whole) {
                Some(block) => {
                    for (position, (hash, _)) in block.objects.iter().enumerate() {
                        let place = ObjectPlace { pack, offset, index: position };
                        index.places.insert(*hash, place);
                    }
                    Some(offset + block.size())
                }
                None => next_block(&*file, offset, end).map_err(read)?,
            };
        }
        Ok(())
    }

    fn read_found(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, JournalError> {
        let Some(place) = self.find(hash)? else {
            return Ok(None);
        };
        let path = self.path(place.pack);
        let file =
            self.storage.open(&path, Access::Read).map_err(JournalError::io("open", &path))?;
        let read = |error| JournalError::io("read", &path)(error);
        let end = file.len().map_err(read)?;
        let Some(block) = Block::read(&*file, place.offset, end).map_err(read)? else {
            return Ok(None);
        };
        block.object(&*file, place.offset, place.index).map_err(read)
    }

    /// Writes a block once more where it stands. Whoever wrote it may have failed to sync it, and
    /// the cache then holds bytes that would never reach the disk.
    fn write_again(&self, place: ObjectPlace) -> Result<(), JournalError> {
        let path = self.path(place.pack);
        let file =
            self.storage.open(&path, Access::Write).map_err(JournalError::io("open", &path))?;
        let read = |error| JournalError::io("read", &path)(error);
        let end = file.len().map_err(read)?;
        let Some(block) = Block::read(&*file, place.offset, end).map_err(read)? else {
            return Ok(());
        };
        let mut bytes = vec![0; usize::try_from(block.size()).unwrap_or(0)];
        read_full(&*file, &mut bytes, place.offset).map_err(read)?;
        write_full(&*file, &bytes, place.offset).map_err(JournalError::io("write", &path))
    }

    /// Looks every block of every pack over; gives what is wrong and where.
    pub fn verify(&self) -> Result<Vec<(PathBuf, u64, String)>, JournalError> {
        let mut findings = Vec::new();
        for pack in self.numbers()? {
            let path = self.path(pack);
            let file =
                self.storage.open(&path, Access::Read).map_err(JournalError::io("open", &path))?;
            let read = |error| JournalError::io("read", &path)(error);
            if !has_header(&*file).map_err(read)? {
                findings.push((path.clone(), 0, "the pack's header is not readable".to_owned()));
                continue;
            }
            let end = file.len().map_err(read)?;
            let mut at = HEADER.len() as u64;
            loop {
                let Some(block) = Block::read(&*file, at, end).map_err(read)? else {
                    if at >= end {
                        break;
                    }
                    let next = next_block(&*file, at, end).map_err(read)?;
                    let bytes = next.unwrap_or(end) - at;
                    findings.push((path.clone(), at, format!("{bytes} bytes that are no block")));
                    at = next.unwrap_or(end);
                    continue;
                };
                if !block.verify(&*file, at).map_err(read)? {
                    findings.push((path.clone(), at, "a block's check does not match".to_owned()));
                }
                at += block.size();
            }
        }
        Ok(findings)
    }
}

/// What a collection removed, or would remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// Packs that held nothing live.
    pub packs_removed: u64,
    /// Packs whose live objects were written anew.
    pub packs_rewritten: u64,
    /// Objects that are gone.
    pub objects_removed: u64,
    /// Bytes that the packs have fewer.
    pub bytes_freed: u64,
}

impl Packs {
    /// The lock that a collection holds from before its mark phase to its end; `None` when somebody
    /// is putting objects.
    pub fn lock_for_collection(&self) -> Result<Option<Box<dyn Lock>>, JournalError> {
        let path = self.dir.join("lock");
        self.storage.lock(&path, LockMode::Exclusive).map_err(JournalError::io("lock", &path))
    }

    /// Removes what is not live from packs older than `grace`. The caller holds the lock for
    /// collection.
    pub fn collect(
        &self,
        live: &HashSet<ObjectHash>,
        _grace: std::time::Duration,
        _now: std::time::SystemTime,
        dry_run: bool,
    ) -> Result<Collected, JournalError> {
        let mut collected = Collected::default();
        let numbers = self.numbers()?;
        let mut next = numbers.last().copied().unwrap_or(0) + 1;
        for pack in numbers {
            let path = self.path(pack);
            let io = |action| JournalError::io(action, &path);
            let file = self.storage.open(&path, Access::Read).map_err(io("open"))?;
            let end = file.len().map_err(io("read"))?;
            let mut at = HEADER.len() as u64;
            let mut kept = HEADER.to_vec();
            let (mut dead, mut live_here) = (0, 0);
            while let Some(block) = Block::read(&*file, at, end).map_err(io("read"))? {
                for (position, (hash, _)) in block.objects.iter().enumerate() {
                    if !live.contains(hash) {
                        dead += 1;
                        continue;
                    }
                    live_here += 1;
                    let bytes = block.object(&*file, at, position).map_err(io("read"))?;
                    let bytes = bytes.unwrap_or_default();
                    kept.extend(Block::pack(&[(*hash, &bytes)], LEVEL).map_err(io("pack"))?);
                }
                at += block.size();
            }
            if dead == 0 || at != end {
                continue;
            }
            collected.objects_removed += dead;
            if live_here == 0 {
                collected.packs_removed += 1;
                collected.bytes_freed += end;
            } else {
                collected.packs_rewritten += 1;
                collected.bytes_freed += end.saturating_sub(kept.len() as u64);
            }
            if dry_run {
                continue;
            }
            if live_here > 0 {
                let to = self.path(next);
                next += 1;
                let io = |action| JournalError::io(action, &to);
                let new = self.storage.open(&to, Access::CreateNew).map_err(io("create"))?;
                write_full(&*new, &kept, 0).map_err(io("write"))?;
                new.sync().map_err(io("sync"))?;
                self.storage.sync_dir(&self.dir).map_err(io("sync"))?;
            }
            self.storage.remove(&path).map_err(io("remove"))?;
            self.storage.sync_dir(&self.dir).map_err(io("sync"))?;
        }
        if !dry_run {
            *self.lock_index() = Index::default();
        }
        Ok(collected)
    }
}

impl Packs {
    /// Every object that stands in a pack.
    pub fn all(&self) -> Result<HashSet<ObjectHash>, JournalError> {
        let mut index = self.lock_index();
        for pack in self.numbers()? {
            self.walk(&mut index, pack)?;
        }
        Ok(index.places.keys().copied().collect())
    }
}

/// The next place behind `from` where a block stands whose check fits.
fn next_block(file: &dyn StorageFile, from: u64, end: u64) -> io::Result<Option<u64>> {
    const WINDOW: usize = 1 << 20;
    let mut base = from + 1;
    let mut window = vec![0; WINDOW];
    // What looks like a block is hashed: not without end.
    let mut budget = MAX_HASHED;
    while base + (crate::pack::HEAD as u64) <= end {
        let read = read_full(file, &mut window, base)?;
        let seen = window.get(..read).unwrap_or_default();
        for at in memchr::memmem::find_iter(seen, crate::pack::MAGIC) {
            let offset = base + at as u64;
            if let Some(block) = Block::read(file, offset, end)? {
                let Some(left) = budget.checked_sub(block.size()) else { return Ok(None) };
                budget = left;
                if block.verify(file, offset)? {
                    return Ok(Some(offset));
                }
            }
        }
        if read < WINDOW {
            break;
        }
        base += (WINDOW - crate::pack::MAGIC.len()) as u64;
    }
    Ok(None)
}

fn has_header(file: &dyn StorageFile) -> io::Result<bool> {
    let mut header = [0; HEADER.len()];
    Ok(read_full(file, &mut header, 0)? == HEADER.len() && header == *HEADER)
}

/// Appends objects, to a pack of its own while it lasts.
#[derive(Debug)]
pub struct PackWriter {
    packs: Arc<Packs>,
    /// Keeps collection away while objects are being written and named.
    _share: Box<dyn Lock>,
    open: Option<OpenPack>,
    /// Packs that must be synced before an event that names their objects is written.
    unsynced: BTreeSet<u64>,
    /// Objects that this writer has put since its last sync, and those that it has synced.
    put: Vec<ObjectHash>,
    durable: HashSet<ObjectHash>,
    new_names: bool,
}

#[derive(Debug)]
struct OpenPack {
    number: u64,
    path: PathBuf,
    file: Arc<dyn StorageFile>,
    end: u64,
    _lock: Box<dyn Lock>,
}

impl PackWriter {
    /// A writer. Waits for a collection that runs.
    pub fn open(packs: Arc<Packs>) -> Result<Self, JournalError> {
        let path = packs.dir.join("lock");
        loop {
            let lock = packs
                .storage
                .lock(&path, LockMode::Shared)
                .map_err(JournalError::io("lock", &path))?;
            if let Some(share) = lock {
                return Ok(Self {
                    packs,
                    _share: share,
                    open: None,
                    unsynced: BTreeSet::new(),
                    put: Vec::new(),
                    durable: HashSet::new(),
                    new_names: false,
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Puts an object, unless it is there already. It is durable after [`PackWriter::sync`].
    pub fn put(&mut self, bytes: &[u8]) -> Result<ObjectHash, JournalError> {
        let hash = ObjectHash::of(bytes);
        if let Some(place) = self.packs.find(hash)? {
            // An object found must also be whole: what names it relies on it.
            if self.packs.read_found(hash)?.is_some() {
                if !self.durable.contains(&hash) {
                    self.packs.write_again(place)?;
                    self.unsynced.insert(place.pack);
                    self.put.push(hash);
                }
                return Ok(hash);
            }
        }
        let dir = self.packs.dir.clone();
        let block = Block::pack(&[(hash, bytes)], LEVEL)
            .map_err(JournalError::io("pack an object for", &dir))?;
        let packs = self.packs.clone();
        let open = self.pack()?;
        if let Err(error) = write_full(&*open.file, &block, open.end) {
            let _ = open.file.truncate(open.end);
            let failed = JournalError::io("write", &open.path)(error);
            self.open = None;
            return Err(failed);
        }
        let place = ObjectPlace { pack: open.number, offset: open.end, index: 0 };
        open.end += block.len() as u64;
        packs.lock_index().places.insert(hash, place);
        self.unsynced.insert(place.pack);
        self.put.push(hash);
        Ok(hash)
    }

    /// Makes everything durable that was put or found since the last sync.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        for number in std::mem::take(&mut self.unsynced) {
            let path = self.packs.path(number);
            let file = match &self.open {
                Some(open) if open.number == number => open.file.clone(),
                _ => self
                    .packs
                    .storage
                    .open(&path, Access::Write)
                    .map_err(JournalError::io("open", &path))?,
            };
            file.sync().map_err(JournalError::io("sync", &path))?;
            self.new_names = true;
        }
        if std::mem::take(&mut self.new_names) {
            let dir = &self.packs.dir;
            self.packs.storage.sync_dir(dir).map_err(JournalError::io("sync", dir))?;
        }
        self.durable.extend(self.put.drain(..));
        Ok(())
    }

    /// The pack to append to: the one at hand, another that nobody writes to, or a new one.
    fn pack(&mut self) -> Result<&mut OpenPack, JournalError> {
        let usable = self.open.take().filter(|open| open.end < FULL);
        let open = match usable {
            Some(open) => open,
            None => self.take_pack()?,
        };
        Ok(self.open.insert(open))
    }

    fn take_pack(&self) -> Result<OpenPack, JournalError> {
        let packs = &self.packs;
        let numbers = packs.numbers()?;
        let mut next = numbers.last().copied().unwrap_or(0) + 1;
        // Packs fill up in order, so an unfilled one is among the last.
        for number in numbers.into_iter().rev().take(8) {
            let Some(lock) = self.lock_pack(number)? else {
                continue;
            };
            let walked = packs.walk(&mut packs.lock_index(), number)?;
            let path = packs.path(number);
            let file = packs
                .storage
                .open(&path, Access::Write)
                .map_err(JournalError::io("open", &path))?;
            let end = file.len().map_err(JournalError::io("read", &path))?;
            if walked.whole && walked.end == end && end < FULL {
                return Ok(OpenPack { number, path, file, end, _lock: lock });
            }
        }
        loop {
            let path = packs.path(next);
            let lock = self.lock_pack(next)?;
            match (lock, packs.storage.open(&path, Access::CreateNew)) {
                (Some(lock), Ok(file)) => {
                    write_full(&*file, HEADER, 0).map_err(JournalError::io("write", &path))?;
                    let walked = Walked { end: HEADER.len() as u64, whole: true };
                    packs.lock_index().walked.insert(next, walked);
                    return Ok(OpenPack {
                        number: next,
                        path,
                        file,
                        end: HEADER.len() as u64,
                        _lock: lock,
                    });
                }
                (_, Err(error)) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(JournalError::io("create", &path)(error));
                }
                _ => next += 1,
            }
        }
    }

    fn lock_pack(&self, number: u64) -> Result<Option<Box<dyn Lock>>, JournalError> {
        let path = lock_path(&self.packs.dir, number);
        self.packs.storage.lock(&path, LockMode::Exclusive).map_err(JournalError::io("lock", &path))
    }
}

fn lock_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.lock"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Disk;

    fn packs(dir: &Path) -> Arc<Packs> {
        Arc::new(Packs::new(Arc::new(Disk), dir.to_owned()))
    }

    #[test]
    fn objects_come_back_are_kept_once_and_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        let text = "an object ".repeat(10_000);
        let mut writer = PackWriter::open(packs(dir.path())).unwrap();
        let hash = writer.put(text.as_bytes()).unwrap();
        writer.sync().unwrap();
        let size = std::fs::metadata(dir.path().join("00000001.pack")).unwrap().len();
        assert!(size < 1000);
        drop(writer);
        // Another process finds it, and does not store it again.
        let other = packs(dir.path());
        let mut writer = PackWriter::open(other.clone()).unwrap();
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
        let mut one = PackWriter::open(packs(dir.path())).unwrap();
        let mut two = PackWriter::open(packs(dir.path())).unwrap();
        let first = one.put(b"first").unwrap();
        let second = two.put(b"second").unwrap();
        assert_eq!(one.packs.numbers().unwrap(), [1, 2]);
        drop((one, two));
        let path = dir.path().join("00000002.pack");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(b"aBLK half a blo");
        std::fs::write(&path, &bytes).unwrap();
        let all = packs(dir.path());
        let mut writer = PackWriter::open(all.clone()).unwrap();
        let third = writer.put(b"third").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        for hash in [first, second, third] {
            assert!(all.read(hash).unwrap().is_some());
        }
    }
}
