//! Objects in packs: content-addressed, deduplicated, compressed.
//!
//! A pack is a file of [`PackBlock`](crate::pack)s that only grows. It is never truncated: if its end
//! is torn, the pack is left alone and a new one is started. One process at a time appends to a
//! pack (it holds a lock on it); any number read it. An object is durable once its pack is synced.
//! Whoever names an object syncs its pack first, whether it wrote the object or found it there.
//!
//! Beside each pack is its index ([`PackIndex`]), which says where its objects are and how far the
//! pack is durable. Anything behind that is found by walking.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abide_model::{ObjectHash, ObjectReceiver};

use crate::compression::Compression;
use crate::pack::{PackBlock, pack_slice, unpack_pack_like};
use crate::pack_index::{BlockSlot, PackIndex};
use crate::{Access, JournalError, Storage, StorageFile, read_full};

/// The first bytes of a pack.
pub(crate) const HEADER: &[u8; 16] = b"abide pack 1\n\0\0\0";
/// A pack with this many bytes is full.
pub(crate) const FULL: u64 = 64 << 20;
/// The most bytes of a pack that are hashed when searching for blocks.
pub(crate) const MAX_HASHED: u64 = 1 << 30;
/// Pack numbers stay below this.
const MAX_NUMBER: u64 = 1 << 48;
/// The longest chain of differences down to an object that is stored whole.
pub(crate) const MAX_DEPTH: u32 = 10;
/// Longer chains are not followed. Two concurrent writers may make one longer than either intended.
pub(crate) const MAX_CHAIN: u32 = 64;
/// The number of unpacked blocks kept for the next read, and the size of the largest.
const KEPT_BLOCKS: usize = 16;
const KEPT_BYTES: usize = 1 << 20;

/// Where an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectLocation {
    pub(crate) pack: u64,
    pub(crate) offset: u64,
    pub(crate) index: u32,
}

/// What is known of a pack so far.
#[derive(Debug)]
pub(crate) struct KnownPack {
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) index: Option<PackIndex>,
    /// Objects behind the reach of the index.
    pub(crate) behind: HashMap<ObjectHash, BlockSlot>,
    /// Where the last whole block ends.
    pub(crate) end: u64,
    /// Whether every byte up to `end` belongs to a whole block.
    pub(crate) whole: bool,
    /// How far the pack was searched without finding more.
    searched: u64,
}

impl KnownPack {
    /// How far the pack is durable.
    pub(crate) fn reach(&self) -> u64 {
        self.index.as_ref().map_or(0, |index| index.reach)
    }

    fn find(&self, hash: &ObjectHash) -> io::Result<Option<BlockSlot>> {
        match (self.behind.get(hash), &self.index) {
            (Some(at), _) => Ok(Some(*at)),
            (None, Some(index)) => index.find(hash),
            (None, None) => Ok(None),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct KnownPacks {
    pub(crate) packs: BTreeMap<u64, KnownPack>,
    /// Whether every pack was walked with its blocks checked.
    thorough: bool,
}

/// A block and the plain bytes of all, or the first, of its objects.
type UnpackedBlock = Arc<(PackBlock, Vec<u8>)>;
/// A block and its file.
pub(crate) type OpenBlock = (Arc<dyn StorageFile>, PackBlock);
type KeptBlocks = VecDeque<((u64, u64), UnpackedBlock)>;

/// The objects of a store.
#[derive(Debug)]
pub struct Packs {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) dir: PathBuf,
    pub(crate) compression: Compression,
    index: Mutex<KnownPacks>,
    kept: Mutex<KeptBlocks>,
    /// Blocks whose check is known to match.
    pub(crate) checked: Mutex<HashSet<(u64, u64)>>,
}

impl Packs {
    /// The packs in this directory.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>, dir: PathBuf) -> Self {
        Self {
            storage,
            dir,
            compression: Compression::default(),
            index: Mutex::default(),
            kept: Mutex::default(),
            checked: Mutex::default(),
        }
    }

    /// The same packs, with this compression for new objects.
    #[must_use]
    pub fn with_compression(self, compression: Compression) -> Self {
        Self { compression, ..self }
    }

    pub(crate) fn path(&self, pack: u64) -> PathBuf {
        self.dir.join(format!("{pack:08}.pack"))
    }

    pub(crate) fn lock_path(&self, pack: u64) -> PathBuf {
        self.dir.join(format!("{pack:08}.lock"))
    }

    pub(crate) fn lock_index(&self) -> MutexGuard<'_, KnownPacks> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pack numbers in order.
    pub fn numbers(&self) -> Result<Vec<u64>, JournalError> {
        let names = match self.storage.list(&self.dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(JournalError::io("list", &self.dir)(error)),
        };
        let mut numbers: Vec<u64> =
            names.iter().filter_map(|name| pack_number(name, ".pack")).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// A number that no pack ever had: lock files are never removed.
    pub(crate) fn next_number(&self) -> Result<u64, JournalError> {
        let names = self.storage.list(&self.dir).map_err(JournalError::io("list", &self.dir))?;
        let used = names.iter().filter_map(|name| {
            [".pack", ".idx", ".lock"].iter().find_map(|end| pack_number(name, end))
        });
        Ok(used.max().unwrap_or(0) + 1)
    }

    /// Where an object is, if it exists.
    pub(crate) fn find(&self, hash: ObjectHash) -> Result<Option<ObjectLocation>, JournalError> {
        let found = self.find_all(&[hash])?;
        Ok(found.into_iter().next().flatten())
    }

    /// Where objects are. If one is unknown, looks at what others have written since.
    pub(crate) fn find_all(
        &self,
        hashes: &[ObjectHash],
    ) -> Result<Vec<Option<ObjectLocation>>, JournalError> {
        let mut index = self.lock_index();
        let mut places = Vec::with_capacity(hashes.len());
        for hash in hashes {
            places.push(self.find_known(&index, hash)?);
        }
        if places.contains(&None) {
            self.refresh(&mut index)?;
            for (place, hash) in places.iter_mut().zip(hashes) {
                if place.is_none() {
                    *place = self.find_known(&index, hash)?;
                }
            }
        }
        Ok(places)
    }

    fn find_known(
        &self,
        index: &KnownPacks,
        hash: &ObjectHash,
    ) -> Result<Option<ObjectLocation>, JournalError> {
        for (pack, known) in index.packs.iter().rev() {
            let found = known.find(hash).map_err(|error| {
                JournalError::io("read", &self.path(*pack).with_extension("idx"))(error)
            })?;
            if let Some(BlockSlot { offset, index }) = found {
                return Ok(Some(ObjectLocation { pack: *pack, offset, index }));
            }
        }
        Ok(None)
    }

    /// Looks for new packs and for additions to known ones.
    pub(crate) fn refresh(&self, index: &mut KnownPacks) -> Result<(), JournalError> {
        let numbers = self.numbers()?;
        index.packs.retain(|pack, _| numbers.binary_search(pack).is_ok());
        for pack in numbers {
            match self.walk(index, pack) {
                // It was collected between listing and opening.
                Err(JournalError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound => {}
                walked => walked?,
            }
        }
        Ok(())
    }

    /// Walks a pack from where the last walk ended. After bytes that are not a block, it continues
    /// at the next block whose check matches.
    pub(crate) fn walk(&self, index: &mut KnownPacks, pack: u64) -> Result<(), JournalError> {
        let path = self.path(pack);
        let read = |error| JournalError::io("read", &path)(error);
        if let std::collections::btree_map::Entry::Vacant(vacant) = index.packs.entry(pack) {
            let file =
                self.storage.open(&path, Access::Read).map_err(JournalError::io("open", &path))?;
            let len = file.len().map_err(read)?;
            let whole = has_pack_header(&*file).map_err(read)?;
            let found = PackIndex::open(&*self.storage, &path, len);
            let end = found.as_ref().map_or(HEADER.len() as u64, |index| index.reach);
            let behind = HashMap::new();
            vacant.insert(KnownPack { file, index: found, behind, end, whole, searched: 0 });
        }
        let Some(known) = index.packs.get_mut(&pack) else { return Ok(()) };
        let len = known.file.len().map_err(read)?;
        if known.end.max(known.searched) >= len {
            return Ok(());
        }
        let file = known.file.clone();
        let mut budget = MAX_HASHED;
        loop {
            while let Some(block) = PackBlock::read(&*file, known.end, len).map_err(read)? {
                for (index, row) in (0..).zip(&block.rows) {
                    known.behind.insert(row.hash, BlockSlot { offset: known.end, index });
                }
                known.end += block.size();
            }
            match next_block(&*file, known.end, len, &mut budget).map_err(read)? {
                Some(next) => (known.end, known.whole) = (next, false),
                None => {
                    known.searched = len;
                    return Ok(());
                }
            }
        }
    }

    /// The bytes of an object, checked against its hash. If it is missing or damaged, every pack is
    /// walked once more with each block checked: a damaged length may have led past it.
    pub fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, JournalError> {
        if let Some(bytes) = self.read_found(hash, 0)? {
            return Ok(Some(bytes));
        }
        if !self.look_closely()? {
            return Ok(None);
        }
        self.read_found(hash, 0)
    }

    /// Walks every pack with each block checked, once; `false` if that was already done.
    pub(crate) fn look_closely(&self) -> Result<bool, JournalError> {
        let mut index = self.lock_index();
        if std::mem::replace(&mut index.thorough, true) {
            return Ok(false);
        }
        self.refresh(&mut index)?;
        for (pack, known) in &mut index.packs {
            let path = self.path(*pack);
            let read = |error| JournalError::io("read", &path)(error);
            // Forget what is damaged, so that it does not hide a good copy elsewhere.
            known.index = None;
            known.behind.clear();
            let file = known.file.clone();
            each_whole_block(&*file, &mut |offset, block| {
                for (index, row) in (0..).zip(&block.rows) {
                    known.behind.insert(row.hash, BlockSlot { offset, index });
                }
            })
            .map_err(read)?;
        }
        Ok(true)
    }

    fn read_found(&self, hash: ObjectHash, depth: u32) -> Result<Option<Vec<u8>>, JournalError> {
        match self.find(hash)? {
            Some(place) => self.read_at(place, hash, depth),
            None => Ok(None),
        }
    }

    fn file(&self, pack: u64) -> Option<Arc<dyn StorageFile>> {
        self.lock_index().packs.get(&pack).map(|known| known.file.clone())
    }

    /// Forgets where objects are, because packs were removed.
    pub(crate) fn forget(&self) -> Result<(), JournalError> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.checked.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut index = self.lock_index();
        *index = KnownPacks::default();
        self.refresh(&mut index)
    }

    /// The block at a place.
    pub(crate) fn block(&self, place: ObjectLocation) -> Result<Option<OpenBlock>, JournalError> {
        let Some(file) = self.file(place.pack) else { return Ok(None) };
        let path = self.path(place.pack);
        let read = |error| JournalError::io("read", &path)(error);
        let end = file.len().map_err(read)?;
        let block = PackBlock::read(&*file, place.offset, end).map_err(read)?;
        Ok(block.map(|block| (file, block)))
    }

    fn read_at(
        &self,
        place: ObjectLocation,
        hash: ObjectHash,
        depth: u32,
    ) -> Result<Option<Vec<u8>>, JournalError> {
        let key = (place.pack, place.offset);
        let wanted = |unpacked: &UnpackedBlock| {
            let row = unpacked.0.rows.get(place.index as usize).filter(|row| row.hash == hash)?;
            pack_slice(&unpacked.1, row).map(<[u8]>::to_vec)
        };
        let kept = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().find(|(at, _)| *at == key).map(|(_, unpacked)| unpacked.clone())
        };
        if let Some(bytes) = kept.as_ref().and_then(wanted) {
            return Ok(Some(bytes));
        }
        let Some((file, block)) = self.block(place)? else { return Ok(None) };
        let Some(row) = block.rows.get(place.index as usize).filter(|row| row.hash == hash) else {
            return Ok(None);
        };
        let path = self.path(place.pack);
        let read = |error| JournalError::io("read", &path)(error);
        if block.is_like() {
            let Some(stored) = block.stored_of(&*file, place.offset, row).map_err(read)? else {
                return Ok(None);
            };
            let base = match row.base() {
                // An endless chain is damage, or an attack.
                Some(_) if depth >= MAX_CHAIN => return Ok(None),
                Some(base) => match self.read_found(base, depth + 1)? {
                    Some(base) => Some(base),
                    None => return Ok(None),
                },
                None => None,
            };
            return Ok(unpack_pack_like(&stored, base.as_deref(), row));
        }
        let small = usize::try_from(block.plain()).is_ok_and(|plain| plain <= KEPT_BYTES);
        let last = if small { None } else { Some(*row) };
        let Some(plain) = block.unpack(&*file, place.offset, last.as_ref()).map_err(read)? else {
            return Ok(None);
        };
        let unpacked: UnpackedBlock = Arc::new((block, plain));
        let bytes = wanted(&unpacked);
        if small {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.truncate(KEPT_BLOCKS - 1);
            kept.push_front((key, unpacked));
        }
        Ok(bytes)
    }

    /// Reads many objects in storage order, unpacking each block once.
    pub fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut ObjectReceiver<'_>,
    ) -> Result<(), JournalError> {
        let places = self.find_all(hashes)?;
        let mut order: Vec<(Option<ObjectLocation>, usize)> =
            places.into_iter().zip(0..hashes.len()).collect();
        order.sort_unstable();
        let together = |a: &(Option<ObjectLocation>, usize),
                        b: &(Option<ObjectLocation>, usize)| {
            a.0.map(|place| (place.pack, place.offset))
                == b.0.map(|place| (place.pack, place.offset))
        };
        for group in order.chunk_by(together) {
            let Some(first) = group.first().and_then(|(place, _)| *place) else {
                for (_, wanted) in group {
                    if self.give(hashes, *wanted, each)?.is_break() {
                        return Ok(());
                    }
                }
                continue;
            };
            let path = self.path(first.pack);
            let read = |error| JournalError::io("read", &path)(error);
            let found = self.block(first)?.filter(|(_, block)| !block.is_like());
            let last = group.last().and_then(|(place, _)| *place);
            let mut plain = None;
            if let (Some((file, block)), Some(last)) = (&found, last) {
                let row = block.rows.get(last.index as usize);
                plain = block.unpack(&**file, first.offset, row).map_err(read)?;
            }
            for (place, wanted) in group {
                let bytes = found.as_ref().zip(plain.as_ref()).and_then(|((_, block), plain)| {
                    let row = block.rows.get((*place)?.index as usize)?;
                    pack_slice(plain, row).filter(|_| hashes.get(*wanted) == Some(&row.hash))
                });
                let flow = match bytes {
                    Some(bytes) => each(*wanted, Some(bytes)),
                    None => self.give(hashes, *wanted, each)?,
                };
                if flow.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn give(
        &self,
        hashes: &[ObjectHash],
        wanted: usize,
        each: &mut ObjectReceiver<'_>,
    ) -> Result<ControlFlow<()>, JournalError> {
        let bytes = match hashes.get(wanted) {
            Some(hash) => self.read(*hash)?,
            None => None,
        };
        Ok(each(wanted, bytes.as_deref()))
    }

    /// A number for each object that is the same for objects in the same block.
    pub fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, JournalError> {
        let places = self.find_all(hashes)?;
        Ok(places.into_iter().map(|at| at.map(|at| (at.pack << 40) | at.offset)).collect())
    }

    /// Checks every block of every pack. Returns what is wrong, and where.
    pub fn verify(&self) -> Result<Vec<(PathBuf, u64, String)>, JournalError> {
        let mut findings = Vec::new();
        for pack in self.numbers()? {
            let path = self.path(pack);
            let file =
                self.storage.open(&path, Access::Read).map_err(JournalError::io("open", &path))?;
            let read = |error| JournalError::io("read", &path)(error);
            if !has_pack_header(&*file).map_err(read)? {
                findings.push((path.clone(), 0, "unreadable pack header".to_owned()));
                continue;
            }
            let end = file.len().map_err(read)?;
            let mut at = HEADER.len() as u64;
            let mut budget = MAX_HASHED;
            loop {
                let Some(block) = PackBlock::read(&*file, at, end).map_err(read)? else {
                    if at >= end {
                        break;
                    }
                    let next = next_block(&*file, at, end, &mut budget).map_err(read)?;
                    let bytes = next.unwrap_or(end) - at;
                    findings.push((
                        path.clone(),
                        at,
                        format!("{bytes} bytes that are not a block"),
                    ));
                    at = next.unwrap_or(end);
                    continue;
                };
                if !block.verify(&*file, at).map_err(read)? {
                    findings.push((path.clone(), at, "corrupt block".to_owned()));
                }
                at += block.size();
            }
        }
        Ok(findings)
    }
}

/// Parses the number in a file name with this ending.
pub(crate) fn pack_number(name: &str, end: &str) -> Option<u64> {
    let number: u64 = name.strip_suffix(end)?.parse().ok()?;
    (number < MAX_NUMBER && *name == format!("{number:08}{end}")).then_some(number)
}

/// Visits each block whose check matches. Trusts no length that the check does not cover.
pub(crate) fn each_whole_block(
    file: &dyn StorageFile,
    visit: &mut dyn FnMut(u64, &PackBlock),
) -> io::Result<()> {
    let end = file.len()?;
    let mut at = HEADER.len() as u64;
    let mut budget = MAX_HASHED;
    while at < end {
        match PackBlock::read(file, at, end)? {
            Some(block) if block.verify(file, at)? => {
                visit(at, &block);
                at += block.size();
            }
            _ => match next_block(file, at, end, &mut budget)? {
                Some(next) => at = next,
                None => break,
            },
        }
    }
    Ok(())
}

/// The next offset after `from` with a block whose check matches. Candidates are hashed, up to
/// `budget` bytes in total.
pub(crate) fn next_block(
    file: &dyn StorageFile,
    from: u64,
    end: u64,
    budget: &mut u64,
) -> io::Result<Option<u64>> {
    const WINDOW: usize = 1 << 20;
    let mut base = from + 1;
    if base + (crate::pack::HEAD as u64) > end {
        return Ok(None);
    }
    let mut window = vec![0; WINDOW];
    while base + (crate::pack::HEAD as u64) <= end {
        let read = read_full(file, &mut window, base)?;
        let seen = window.get(..read).unwrap_or_default();
        for at in memchr::memmem::find_iter(seen, crate::pack::MAGIC) {
            let offset = base + at as u64;
            if let Some(block) = PackBlock::read(file, offset, end)? {
                let Some(left) = budget.checked_sub(block.size()) else { return Ok(None) };
                *budget = left;
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

pub(crate) fn has_pack_header(file: &dyn StorageFile) -> io::Result<bool> {
    let mut header = [0; HEADER.len()];
    Ok(read_full(file, &mut header, 0)? == HEADER.len() && header == *HEADER)
}

#[cfg(test)]
pub(crate) fn test_packs(dir: &std::path::Path) -> Arc<Packs> {
    Arc::new(Packs::new(Arc::new(crate::Disk), dir.to_owned()))
}
