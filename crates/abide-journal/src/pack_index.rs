//! The index of a pack: a file beside it that says where each object is, sorted by hash.
//!
//! ```text
//! magic 16 | reach 8 | count 8 | check 16
//! (hash 32, offset 8, place in the block 4) × count, by hash
//! ```
//!
//! It is derived: without it the pack is walked. `reach` is an offset in the pack up to which
//! everything is durable, since the index is written after a sync of the pack. Hashes are spread
//! evenly, so one read near the expected position finds a hash.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_model::ObjectHash;

use crate::{Access, Storage, StorageFile, read_full, write_full};

const MAGIC: &[u8; 16] = b"abide packidx 1\n";
const HEAD: usize = 48;
const ROW: usize = 44;
/// Rows read at a time.
const WINDOW: u64 = 192;

/// Where an object is in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockSlot {
    pub(crate) offset: u64,
    pub(crate) index: u32,
}

/// The open index of a pack.
#[derive(Debug)]
pub(crate) struct PackIndex {
    file: Arc<dyn StorageFile>,
    pub(crate) reach: u64,
    count: u64,
}

fn pack_index_path(pack: &Path) -> PathBuf {
    pack.with_extension("idx")
}

fn pack_index_check(head: &[u8]) -> [u8; 16] {
    let hash = blake3::hash(head);
    let mut check = [0; 16];
    check.copy_from_slice(hash.as_bytes().split_at(16).0);
    check
}

impl PackIndex {
    /// Opens the index of a pack of `len` bytes. `None` if there is no valid one.
    pub(crate) fn open(storage: &dyn Storage, pack: &Path, len: u64) -> Option<Self> {
        let file = storage.open(&pack_index_path(pack), Access::Read).ok()?;
        let mut head = [0; HEAD];
        if read_full(&*file, &mut head, 0).ok()? < HEAD {
            return None;
        }
        let (fields, sum) = head.split_at(HEAD - 16);
        let rest = fields.strip_prefix(MAGIC).filter(|_| pack_index_check(fields) == sum)?;
        let (reach, count) = rest.split_at(8);
        let reach = u64::from_le_bytes(reach.try_into().ok()?);
        let count = u64::from_le_bytes(count.try_into().ok()?);
        let size = count.checked_mul(ROW as u64)?.checked_add(HEAD as u64)?;
        // An object takes at least its row in a block.
        let sane = reach <= len && count <= reach / 40 && file.len().ok()? == size;
        sane.then_some(Self { file, reach, count })
    }

    /// Where an object is.
    pub(crate) fn find(&self, hash: &ObjectHash) -> io::Result<Option<BlockSlot>> {
        let (mut low, mut high) = (0_u64, self.count);
        let mut rows = vec![0; usize::try_from(WINDOW).unwrap_or(0) * ROW];
        let mut guess = expected_index_row(hash, self.count);
        while low < high {
            let start = guess.saturating_sub(WINDOW / 2).clamp(low, high);
            let start = start.min(high.saturating_sub(WINDOW).max(low));
            let count = usize::try_from((high - start).min(WINDOW)).unwrap_or(0);
            let window = rows.get_mut(..count * ROW).unwrap_or_default();
            if read_full(&*self.file, window, HEAD as u64 + start * ROW as u64)? < window.len() {
                return Ok(None);
            }
            let name = |at: usize| window.get(at * ROW..at * ROW + 32).unwrap_or_default();
            if hash.0.as_slice() < name(0) {
                high = start;
            } else if hash.0.as_slice() > name(count - 1) {
                low = start + count as u64;
            } else {
                return Ok(search_pack_index(window, hash).filter(|at| at.offset < self.reach));
            }
            guess = low + (high - low) / 2;
        }
        Ok(None)
    }

    /// All rows, to write the next index.
    pub(crate) fn rows(&self) -> io::Result<Vec<(ObjectHash, BlockSlot)>> {
        let mut bytes = vec![0; usize::try_from(self.count).unwrap_or(0) * ROW];
        if read_full(&*self.file, &mut bytes, HEAD as u64)? < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let rows = bytes.chunks_exact(ROW).filter_map(parse_pack_index_row);
        Ok(rows.filter(|(_, at)| at.offset < self.reach).collect())
    }

    /// Writes the index of a pack, all or nothing.
    pub(crate) fn write(
        storage: &dyn Storage,
        pack: &Path,
        reach: u64,
        mut rows: Vec<(ObjectHash, BlockSlot)>,
    ) -> io::Result<()> {
        // If an object occurs twice, keep the later: it was written because the other is damaged.
        rows.sort_unstable_by(|a, b| (a.0, b.1.offset).cmp(&(b.0, a.1.offset)));
        rows.dedup_by_key(|row| row.0);
        let mut bytes = Vec::with_capacity(HEAD + rows.len() * ROW);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&reach.to_le_bytes());
        bytes.extend_from_slice(&(rows.len() as u64).to_le_bytes());
        let check = pack_index_check(&bytes);
        bytes.extend_from_slice(&check);
        for (hash, at) in &rows {
            bytes.extend_from_slice(&hash.0);
            bytes.extend_from_slice(&at.offset.to_le_bytes());
            bytes.extend_from_slice(&at.index.to_le_bytes());
        }
        let temporary = pack.with_extension("idx.tmp");
        let file = storage.open(&temporary, Access::Create)?;
        write_full(&*file, &bytes, 0)?;
        file.truncate(bytes.len() as u64)?;
        // A name for bytes that never reached the disk would hide the pack's objects.
        file.sync()?;
        storage.rename(&temporary, &pack_index_path(pack))
    }

    /// Removes the index of a pack.
    pub(crate) fn remove(storage: &dyn Storage, pack: &Path) -> io::Result<()> {
        match storage.remove(&pack_index_path(pack)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// Where this hash should be among `count` evenly spread ones.
fn expected_index_row(hash: &ObjectHash, count: u64) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(hash.0.split_at(8).0);
    let part = u128::from(u64::from_be_bytes(first)) * u128::from(count);
    u64::try_from(part >> 64).unwrap_or(0)
}

fn search_pack_index(window: &[u8], hash: &ObjectHash) -> Option<BlockSlot> {
    let (mut low, mut high) = (0, window.len() / ROW);
    while low < high {
        let middle = low + (high - low) / 2;
        let row = window.get(middle * ROW..(middle + 1) * ROW)?;
        match row.get(..32)?.cmp(&hash.0) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => return parse_pack_index_row(row).map(|(_, at)| at),
        }
    }
    None
}

fn parse_pack_index_row(row: &[u8]) -> Option<(ObjectHash, BlockSlot)> {
    let (hash, rest) = row.split_at_checked(32)?;
    let (offset, index) = rest.split_at_checked(8)?;
    let at = BlockSlot {
        offset: u64::from_le_bytes(offset.try_into().ok()?),
        index: u32::from_le_bytes(index.try_into().ok()?),
    };
    Some((ObjectHash(hash.try_into().ok()?), at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Disk;

    #[test]
    fn every_name_is_found_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let pack = dir.path().join("00000001.pack");
        for count in [0_u32, 1, 5, 191, 192, 193, 5000] {
            let rows: Vec<_> = (0..count)
                .map(|n| {
                    let at = BlockSlot { offset: u64::from(n) * 40, index: n };
                    (ObjectHash::of(&n.to_le_bytes()), at)
                })
                .collect();
            let reach = u64::from(count) * 40;
            PackIndex::write(&Disk, &pack, reach, rows.clone()).unwrap();
            let index = PackIndex::open(&Disk, &pack, reach).unwrap();
            for (hash, at) in &rows {
                assert_eq!(index.find(hash).unwrap(), Some(*at));
            }
            for n in count..count + 500 {
                assert_eq!(index.find(&ObjectHash::of(&n.to_le_bytes())).unwrap(), None);
            }
            assert_eq!(index.find(&ObjectHash([0; 32])).unwrap(), None);
            assert_eq!(index.find(&ObjectHash([255; 32])).unwrap(), None);
            assert_eq!(index.rows().unwrap().len(), rows.len());
        }
        // Of a pack that is shorter than it says, or damaged: none.
        assert!(PackIndex::open(&Disk, &pack, 199_999).is_none());
        let path = pack_index_path(&pack);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[17] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(PackIndex::open(&Disk, &pack, 1 << 40).is_none());
    }
}
