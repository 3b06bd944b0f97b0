//! The stat cache: what the last snapshot recorded about each directory. It is derived data: if it
//! is lost or damaged, the next snapshot reads everything again.
//!
//! ```text
//! magic 8 | sum 4 | length of head 4 | device 8 | snapshot's hash 32 | directories 4
//! | length of snapshot 4 | snapshot | offset 8 for each directory, 0 where there is none
//! then the records
//! ```
//!
//! The checksum covers the head. Each record has its own checksum, verified when it is used. The
//! root is directory 0. A directory keeps its number from one snapshot to the next, so the records
//! of unchanged directories are copied verbatim.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_model::{ObjectHash, StoreError};
use rustix::fs::{Mode, OFlags};

use crate::chunks::ChunkList;
use crate::owner::FileOwner;
use crate::reach::ReadObjectFn;
use crate::snapshot::Snapshot;
use crate::take::directory_record::{
    DirectoryRecord, FixedFields, NameKind, RecordBody, RecordHead, RecordRows,
};

const MAGIC: &[u8; 8] = b"aSTAT\0\0\x01";
const FIXED: usize = 64;
/// Number of objects to look up in the store before the cache is trusted.
const SAMPLE: usize = 64;
/// Number of large files whose chunks are looked up too, and number of chunks of each.
const LARGE_FILES: usize = 2;
const CHUNKS: usize = 16;

/// The cache as read from disk.
#[derive(Debug)]
pub(crate) struct StatCache {
    bytes: Vec<u8>,
    /// The offset of each record.
    table: Vec<u64>,
    pub(crate) hash: ObjectHash,
    pub(crate) snapshot: Snapshot,
}

impl StatCache {
    /// Reads the cache of a root on this device. `None` if there is no usable one.
    pub(crate) fn read(path: &Path, dev: u64) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let mut fields = FixedFields(&bytes);
        if fields.take::<8>()? != MAGIC {
            return None;
        }
        let sum = fields.number::<4>()?;
        let length = usize::try_from(fields.number::<4>()?).ok()?;
        let covered = bytes.get(12..length)?;
        if u64::from(crc32fast::hash(covered)) != sum || fields.number::<8>()? != dev {
            return None;
        }
        let hash = ObjectHash(*fields.take()?);
        let count = usize::try_from(fields.number::<4>()?).ok()?;
        let snapshot = usize::try_from(fields.number::<4>()?).ok()?;
        let (snapshot, rest) = fields.0.split_at_checked(snapshot)?;
        let snapshot = Snapshot::read(snapshot).ok()?;
        let (offsets, _) = rest.as_chunks::<8>();
        let table = offsets.get(..count)?.iter().map(|at| u64::from_le_bytes(*at)).collect();
        Some(Self { table, hash, snapshot, bytes })
    }

    /// The number of directory numbers in use.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.table.len()).unwrap_or(u32::MAX)
    }

    /// The record of a directory; `None` if it is missing or damaged.
    pub(crate) fn record(&self, number: u32) -> Option<DirectoryRecord<'_>> {
        let at = *self.table.get(number as usize)?;
        if at == 0 {
            return None;
        }
        DirectoryRecord::read(self.bytes.get(usize::try_from(at).ok()?..)?)
    }

    /// A random sample of the objects that the cache vouches for: one at a random offset in each of
    /// [`SAMPLE`] equal parts of the records, plus chunks of the large files among them. If there
    /// are few objects, all of them. `None` if one of the chunk lists cannot be read.
    pub(crate) fn sample(
        &self,
        read: &ReadObjectFn<'_>,
    ) -> Result<Option<Vec<ObjectHash>>, StoreError> {
        let random = RandomState::new();
        let (mut sample, large) = self.sample_records(&random);
        for hash in large {
            let Some(list) = read(hash)?.and_then(|bytes| ChunkList::read(&bytes).ok()) else {
                return Ok(None);
            };
            let step = list.chunks.len().div_ceil(CHUNKS).max(1);
            let first = random.hash_one(hash) as usize % step;
            let chunks = list.chunks.iter().skip(first).step_by(step);
            sample.extend(chunks.map(|(_, hash)| *hash));
        }
        Ok(Some(sample))
    }

    /// Files and directories, and the chunk lists of some large files among them.
    fn sample_records(&self, random: &RandomState) -> (Vec<ObjectHash>, Vec<ObjectHash>) {
        let starts: Vec<usize> = self
            .table
            .iter()
            .filter_map(|at| usize::try_from(*at).ok())
            .filter(|at| *at > 0)
            .collect();
        let first = starts.first().copied().unwrap_or(self.bytes.len());
        let all = self.bytes.len().saturating_sub(first);
        let (part, parts) = if all > SAMPLE { (all.div_ceil(SAMPLE), SAMPLE) } else { (1, all) };
        let (mut sample, mut large) = (Vec::with_capacity(parts), Vec::new());
        let mut cursor: Option<RecordCursor<'_>> = None;
        for number in 0..parts {
            let at = first + number * part + random.hash_one(number) as usize % part;
            if cursor.as_ref().is_none_or(|cursor| cursor.end <= at) {
                cursor = self.cursor(&starts, at);
            }
            let Some((hash, kind)) = cursor.as_mut().and_then(|cursor| cursor.object_at(at)) else {
                continue;
            };
            sample.push(hash);
            if kind == NameKind::Large {
                large.push(hash);
            }
        }
        for hashes in [&mut sample, &mut large] {
            hashes.sort_unstable();
            hashes.dedup();
        }
        // A different choice each time.
        large.sort_unstable_by_key(|hash| random.hash_one(hash));
        large.truncate(LARGE_FILES);
        (sample, large)
    }

    /// The record that covers this byte. `starts` holds the offsets of all records, sorted.
    fn cursor(&self, starts: &[usize], at: usize) -> Option<RecordCursor<'_>> {
        let before = starts.partition_point(|start| *start <= at).checked_sub(1)?;
        let start = *starts.get(before)?;
        let record = DirectoryRecord::read(self.bytes.get(start..)?)?;
        Some(RecordCursor {
            end: start + record.whole.len(),
            rows: record.rows(),
            head: record.head,
        })
    }
}

/// A record that is read from front to back.
struct RecordCursor<'a> {
    /// The offset of its end.
    end: usize,
    head: RecordHead,
    rows: RecordRows<'a>,
}

impl RecordCursor<'_> {
    /// The file whose row covers this byte, or else the tree of the directory.
    fn object_at(&mut self, at: usize) -> Option<(ObjectHash, NameKind)> {
        while self.end - self.rows.left() <= at {
            let Some(row) = self.rows.next() else { break };
            let covers = at < self.end - self.rows.left();
            if covers && matches!(row.kind, NameKind::File | NameKind::Large | NameKind::Link) {
                return Some((row.object(), row.kind));
            }
        }
        (!self.head.hidden).then_some((self.head.tree, NameKind::Directory))
    }
}

/// A record for the next cache.
#[derive(Debug)]
pub(crate) struct NextRecord {
    pub(crate) number: u32,
    /// The bytes of a new record; `None` if the old one stays.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// The head of the next cache.
pub(crate) struct CacheHeader<'a> {
    pub(crate) dev: u64,
    pub(crate) hash: ObjectHash,
    pub(crate) snapshot: &'a Snapshot,
}

/// A temporary file older than this was left by a crash.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// Replaces the old cache, unless another process is doing so. A crash leaves the old one, the new
/// one, or one that fails its checksums.
pub(crate) fn write_stat_cache(
    path: &Path,
    old: Option<&StatCache>,
    whole: &CacheHeader<'_>,
    written: Vec<NextRecord>,
) -> io::Result<()> {
    let bytes = compose_stat_cache(
        old,
        whole,
        renumbered_cache_records(old.map_or(0, StatCache::count), written),
    );
    let temporary = beside_stat_cache(path, ".new");
    let mut file = match create_cache_file(&temporary) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let age = fs::metadata(&temporary)?.modified()?.elapsed().unwrap_or_default();
            if age < LEFT_BEHIND {
                return Ok(());
            }
            fs::remove_file(&temporary)?;
            create_cache_file(&temporary)?
        }
        created => created?,
    };
    let result = file.write_all(&bytes).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// A path next to the cache.
pub(crate) fn beside_stat_cache(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Moves new directories to free numbers and updates their parents.
fn renumbered_cache_records(old: u32, mut written: Vec<NextRecord>) -> Vec<Option<NextRecord>> {
    written.sort_unstable_by_key(|record| record.number);
    let first_new = written.partition_point(|record| record.number < old);
    let fresh = written.len() - first_new;
    let mut table: Vec<Option<NextRecord>> = Vec::new();
    table.resize_with(old as usize, || None);
    let mut moved: Vec<(u32, u32)> = Vec::with_capacity(fresh);
    let newcomers = written.split_off(first_new);
    for record in written {
        let number = record.number as usize;
        if let Some(place) = table.get_mut(number) {
            *place = Some(record);
        }
    }
    let mut free = 0;
    for record in newcomers {
        while table.get(free).is_some_and(Option::is_some) {
            free += 1;
        }
        moved.push((record.number, free as u32));
        match table.get_mut(free) {
            Some(place) => *place = Some(record),
            None => table.push(Some(record)),
        }
    }
    if !moved.is_empty() {
        let records = table.iter_mut().flatten();
        for bytes in records.filter_map(|record| record.bytes.as_mut()) {
            follow_cache_numbers(bytes, old, &moved);
        }
    }
    while table.last().is_some_and(Option::is_none) {
        table.pop();
    }
    table
}

/// Updates the directory numbers in a record.
fn follow_cache_numbers(bytes: &mut Vec<u8>, old: u32, moved: &[(u32, u32)]) {
    let Some(record) = DirectoryRecord::read(bytes) else { return };
    let newcomer = |row: &crate::take::directory_record::RecordRow<'_>| {
        row.kind == NameKind::Directory && row.number >= old
    };
    if !record.rows().any(|row| newcomer(&row)) {
        return;
    }
    let mut body = RecordBody::default();
    for row in RecordRows::new(record.body) {
        let number = if newcomer(&row) {
            let at = moved.binary_search_by_key(&row.number, |(number, _)| *number);
            at.ok().and_then(|at| moved.get(at)).map_or(row.number, |(_, number)| *number)
        } else {
            row.number
        };
        body.row(&row, number);
    }
    *bytes = record.head.write(&body.bytes);
}

fn compose_stat_cache(
    old: Option<&StatCache>,
    whole: &CacheHeader<'_>,
    table: Vec<Option<NextRecord>>,
) -> Vec<u8> {
    let snapshot = whole.snapshot.write();
    let head = FIXED + snapshot.len() + table.len() * 8;
    let room = old.map_or(0, |old| old.bytes.len());
    let fresh: usize =
        table.iter().flatten().filter_map(|record| record.bytes.as_ref()).map(Vec::len).sum();
    let mut out = Vec::with_capacity(head + room + fresh);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&u32::try_from(head).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&whole.dev.to_le_bytes());
    out.extend_from_slice(&whole.hash.0);
    out.extend_from_slice(&(table.len() as u32).to_le_bytes());
    out.extend_from_slice(&(snapshot.len() as u32).to_le_bytes());
    out.extend_from_slice(&snapshot);
    let offsets = out.len();
    out.resize(head, 0);
    let mut places = Vec::with_capacity(table.len());
    for (number, record) in table.into_iter().enumerate() {
        let kept = || old.and_then(|old| old.record(number as u32));
        let at = out.len() as u64;
        match record {
            Some(NextRecord { bytes: Some(bytes), .. }) => out.extend_from_slice(&bytes),
            Some(NextRecord { bytes: None, .. }) => match kept() {
                Some(record) => out.extend_from_slice(record.whole),
                None => {
                    places.push(0);
                    continue;
                }
            },
            None => {
                places.push(0);
                continue;
            }
        }
        places.push(at);
    }
    if let Some(table) = out.get_mut(offsets..head) {
        for (place, at) in table.as_chunks_mut::<8>().0.iter_mut().zip(places) {
            *place = at.to_le_bytes();
        }
    }
    let sum = out.get(12..head).map_or(0, crc32fast::hash);
    if let Some(place) = out.get_mut(8..12) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
    out
}

/// Creates a file that only its owner can read, since it contains the names of the workspace's
/// files.
fn create_cache_file(path: &Path) -> io::Result<fs::File> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    // Open the parent directory once: its path may lead somewhere else a moment later.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir.unwrap_or(Path::new(".")), flags, Mode::empty())?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&dir, name, flags, Mode::from_raw_mode(0o600))?;
    if let Some(owner) = FileOwner::of_new(&dir) {
        owner.give(&file);
    }
    Ok(file.into())
}
