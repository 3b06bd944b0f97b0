//! Collection: packs without the objects that nothing names any more.
//!
//! What stays is copied into new packs, which are durable before the old ones go. A crash may
//! leave an object twice, never a name without its object.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use abide_model::{ObjectBatch, ObjectHash};

use crate::pack::{Block, LikeObject, Row, slice_of};
use crate::pack_index::PackIndex;
use crate::packs::{HEADER, MAX_HASHED, has_header, next_block};
use crate::{Access, JournalError, Lock, LockMode, PackWriter, Packs, StorageFile, read_full};

/// A pack is written anew when this part of it, in percent, is not needed.
const WASTE: u64 = 25;
/// Packs smaller than this are small, and so many small ones are made one.
const SMALL: u64 = 8 << 20;
const MANY_SMALL: usize = 8;
/// Objects are gathered into blocks of about so many bytes.
const BLOCK: usize = 512 << 10;

/// What a collection did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// Packs that held nothing that is needed.
    pub packs_removed: u64,
    /// Packs whose objects were copied into new ones.
    pub packs_rewritten: u64,
    /// Objects that are gone.
    pub objects_removed: u64,
    /// Bytes that are free now. Before it is done, an estimate.
    pub bytes_freed: u64,
    /// Packs that were left as they are, since they are damaged.
    pub packs_damaged: u64,
}

/// A pack as collection sees it.
struct Seen {
    number: u64,
    file: Arc<dyn StorageFile>,
    len: u64,
    blocks: Vec<(u64, Block)>,
    whole: bool,
    old: bool,
}

/// What becomes of a pack.
enum Fate {
    Stays,
    Goes,
    IsRewritten,
}

/// How much of a pack must not be needed for it to be written anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waste {
    /// So much that it pays.
    Much,
    /// A single object.
    Any,
}

impl Waste {
    const fn is_enough(self, wasted: u64, dead: u64, len: u64) -> bool {
        match self {
            Self::Much => wasted * 100 >= len * WASTE,
            Self::Any => dead > 0,
        }
    }
}

impl Packs {
    /// Keeps everybody from putting objects until it is dropped. `None` while somebody does.
    pub fn lock_for_collection(&self) -> Result<Option<Box<dyn Lock>>, JournalError> {
        let path = self.dir.join("lock");
        self.storage.lock(&path, LockMode::Exclusive).map_err(JournalError::io("lock", &path))
    }

    /// Removes objects that are not live from packs that have not changed for `grace`. The caller
    /// holds [`Packs::lock_for_collection`] since before it found out what is live.
    pub fn collect(
        self: &Arc<Self>,
        live: &HashSet<ObjectHash>,
        grace: Duration,
        now: SystemTime,
        dry_run: bool,
    ) -> Result<Collected, JournalError> {
        let packs = self.look(grace, now)?;
        self.sweep(&packs, live, Waste::Much, dry_run)
    }

    /// Removes these objects from every pack, however little of it they are. The caller holds
    /// [`Packs::lock_for_collection`]. What another object is stored as a difference from stays, and
    /// so does what is in a damaged pack.
    pub fn erase(
        self: &Arc<Self>,
        objects: &HashSet<ObjectHash>,
        now: SystemTime,
    ) -> Result<Collected, JournalError> {
        let packs = self.look(Duration::ZERO, now)?;
        let rows = packs.iter().flat_map(|pack| &pack.blocks).flat_map(|(_, block)| &block.rows);
        let live = rows.map(|row| row.hash).filter(|hash| !objects.contains(hash)).collect();
        self.sweep(&packs, &live, Waste::Any, false)
    }

    fn sweep(
        self: &Arc<Self>,
        packs: &[Seen],
        live: &HashSet<ObjectHash>,
        waste: Waste,
        dry_run: bool,
    ) -> Result<Collected, JournalError> {
        let live = with_bases(packs, live);
        let mut collected = Collected::default();
        let mut elected = Elected::default();
        let mut kept: HashSet<(u64, u64, u32)> = HashSet::new();
        // The newest copy of an object first: it was written because an older one was not whole.
        for pack in packs.iter().rev() {
            for (offset, block) in pack.blocks.iter().rev() {
                for (index, row) in (0..).zip(&block.rows) {
                    let here = (pack.number, *offset, index);
                    if live.contains(&row.hash) && self.is_needed(packs, &mut elected, row, here)? {
                        kept.insert(here);
                    }
                }
            }
        }
        let mut fates = fates(packs, &kept, waste, &mut collected);
        if dry_run {
            return Ok(collected);
        }
        let writer = PackWriter::beginning_a_pack(self.clone());
        for (pack, fate) in packs.iter().zip(&mut fates) {
            if matches!(fate, Fate::IsRewritten) && !self.copy(&writer, pack, &kept)? {
                // Something in it is needed and damaged: the pack stays as it is.
                *fate = Fate::Stays;
                collected.packs_rewritten -= 1;
                collected.packs_damaged += 1;
            }
        }
        writer.sync()?;
        let before: u64 = touched(packs, &fates).map(|pack| pack.len).sum();
        for pack in touched(packs, &fates) {
            let path = self.path(pack.number);
            PackIndex::remove(&*self.storage, &path).map_err(JournalError::io("remove", &path))?;
            self.storage.remove(&path).map_err(JournalError::io("remove", &path))?;
        }
        self.storage.sync_dir(&self.dir).map_err(JournalError::io("sync", &self.dir))?;
        self.forget()?;
        collected.bytes_freed = before.saturating_sub(writer.written());
        Ok(collected)
    }

    fn look(&self, grace: Duration, now: SystemTime) -> Result<Vec<Seen>, JournalError> {
        let mut packs = Vec::new();
        for number in self.numbers()? {
            let path = self.path(number);
            let read = |error| JournalError::io("read", &path)(error);
            let file =
                self.storage.open(&path, Access::Read).map_err(JournalError::io("open", &path))?;
            let len = file.len().map_err(read)?;
            let modified = self.storage.modified(&path).map_err(read)?;
            let old = now.duration_since(modified).is_ok_and(|age| age >= grace);
            let mut whole = has_header(&*file).map_err(read)?;
            let mut blocks = Vec::new();
            let mut at = HEADER.len() as u64;
            let mut budget = MAX_HASHED;
            while at < len {
                if let Some(block) = Block::read(&*file, at, len).map_err(read)? {
                    let size = block.size();
                    blocks.push((at, block));
                    at += size;
                    continue;
                }
                // What stands behind damage is read, and so it counts.
                whole = false;
                match next_block(&*file, at, len, &mut budget).map_err(read)? {
                    Some(next) => at = next,
                    None => break,
                }
            }
            packs.push(Seen { number, file, len, blocks, whole, old });
        }
        Ok(packs)
    }

    /// Is this copy of an object the one to keep? Another one makes it superfluous only when that
    /// one is whole.
    fn is_needed(
        &self,
        packs: &[Seen],
        elected: &mut Elected,
        row: &Row,
        here: (u64, u64, u32),
    ) -> Result<bool, JournalError> {
        let Some((number, offset, _)) = elected.copies.get(&row.hash).copied() else {
            elected.copies.insert(row.hash, here);
            return Ok(true);
        };
        if let Some(whole) = elected.verified.get(&(number, offset)) {
            return Ok(!whole);
        }
        let at = packs.binary_search_by_key(&number, |pack| pack.number).ok();
        let pack = at.and_then(|at| packs.get(at));
        let block = pack.and_then(|pack| {
            let at = pack.blocks.binary_search_by_key(&offset, |(at, _)| *at).ok()?;
            pack.blocks.get(at).map(|(_, block)| (pack, block))
        });
        let Some((pack, block)) = block else { return Ok(true) };
        let path = self.path(number);
        let whole = block.verify(&*pack.file, offset).map_err(JournalError::io("read", &path))?;
        elected.verified.insert((number, offset), whole);
        if !whole {
            elected.copies.insert(row.hash, here);
        }
        Ok(!whole)
    }

    /// Copies what is kept of a pack. `false` when something of it is damaged.
    fn copy(
        &self,
        writer: &PackWriter,
        pack: &Seen,
        kept: &HashSet<(u64, u64, u32)>,
    ) -> Result<bool, JournalError> {
        let path = self.path(pack.number);
        let read = |error| JournalError::io("read", &path)(error);
        let mut batch = ObjectBatch::default();
        for (offset, block) in &pack.blocks {
            let stays = |index: u32| kept.contains(&(pack.number, *offset, index));
            let rows: Vec<&Row> =
                (0..).zip(&block.rows).filter(|(at, _)| stays(*at)).map(|(_, row)| row).collect();
            if rows.is_empty() {
                continue;
            }
            if !block.verify(&*pack.file, *offset).map_err(read)? {
                return Ok(false);
            }
            if rows.len() == block.rows.len() {
                let mut bytes = vec![0; usize::try_from(block.size()).unwrap_or(0)];
                read_full(&*pack.file, &mut bytes, *offset).map_err(read)?;
                writer.write(&bytes, &mut rows.iter().map(|row| row.hash))?;
            } else if block.is_like() {
                let mut objects = Vec::with_capacity(rows.len());
                for row in rows {
                    let stored = block.stored_of(&*pack.file, *offset, row).map_err(read)?;
                    let Some(stored) = stored else { return Ok(false) };
                    objects.push(LikeObject {
                        hash: row.hash,
                        length: row.length,
                        base: row.base(),
                        depth: row.depth(),
                        stored,
                    });
                }
                writer.write_like(&objects)?;
            } else {
                let plain = block.unpack(&*pack.file, *offset, None).map_err(read)?;
                let Some(plain) = plain else { return Ok(false) };
                for row in rows {
                    let Some(bytes) = slice_of(&plain, row) else { return Ok(false) };
                    if batch.plain().len() + bytes.len() > BLOCK {
                        writer.put_batch(&batch)?;
                        batch.clear();
                    }
                    batch.push(row.hash, bytes);
                }
            }
        }
        writer.put_batch(&batch).map(|_| true)
    }
}

/// Which copy of an object is kept, and which blocks were looked over.
#[derive(Default)]
struct Elected {
    copies: HashMap<ObjectHash, (u64, u64, u32)>,
    verified: HashMap<(u64, u64), bool>,
}

/// The packs that will not be there afterwards.
fn touched<'a>(packs: &'a [Seen], fates: &'a [Fate]) -> impl Iterator<Item = &'a Seen> {
    packs.iter().zip(fates).filter(|(_, fate)| !matches!(fate, Fate::Stays)).map(|(pack, _)| pack)
}

/// What is live, with everything that a live object is a difference from.
fn with_bases(packs: &[Seen], live: &HashSet<ObjectHash>) -> HashSet<ObjectHash> {
    let rows = packs.iter().flat_map(|pack| &pack.blocks).flat_map(|(_, block)| &block.rows);
    // Of an object with several copies, each copy's base.
    let mut bases: HashMap<ObjectHash, Vec<ObjectHash>> = HashMap::new();
    for row in rows {
        if let Some(base) = row.base() {
            bases.entry(row.hash).or_default().push(base);
        }
    }
    let mut all = live.clone();
    let mut next: Vec<ObjectHash> = live.iter().copied().collect();
    while let Some(hash) = next.pop() {
        for base in bases.get(&hash).into_iter().flatten() {
            if all.insert(*base) {
                next.push(*base);
            }
        }
    }
    all
}

fn fates(
    packs: &[Seen],
    kept: &HashSet<(u64, u64, u32)>,
    waste: Waste,
    collected: &mut Collected,
) -> Vec<Fate> {
    let may_go = |pack: &Seen| pack.whole && (pack.old || waste == Waste::Any);
    let small = packs.iter().filter(|pack| may_go(pack) && pack.len < SMALL).count();
    let mut fates = Vec::with_capacity(packs.len());
    for pack in packs {
        let (mut dead, mut wasted, mut lives) = (0, 0_u64, false);
        for (offset, block) in &pack.blocks {
            let gone = (0..)
                .zip(&block.rows)
                .filter(|(index, _)| !kept.contains(&(pack.number, *offset, *index)));
            let (count, bytes) =
                gone.fold((0_u64, 0_u64), |(count, sum), (_, row)| (count + 1, sum + row.length));
            dead += count;
            lives |= count < block.rows.len() as u64;
            wasted += block.size() * bytes / block.plain().max(1);
        }
        collected.packs_damaged += u64::from(!pack.whole);
        let fate = if !may_go(pack) {
            Fate::Stays
        } else if !lives {
            collected.packs_removed += 1;
            wasted = pack.len;
            Fate::Goes
        } else if waste.is_enough(wasted, dead, pack.len)
            || (waste == Waste::Much && pack.len < SMALL && small >= MANY_SMALL)
        {
            collected.packs_rewritten += 1;
            Fate::IsRewritten
        } else {
            Fate::Stays
        };
        if !matches!(fate, Fate::Stays) {
            collected.objects_removed += dead;
            collected.bytes_freed += wasted;
        }
        fates.push(fate);
    }
    fates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packs::test_packs as packs;
    use abide_model::NewObject;

    fn bytes(n: u32) -> Vec<u8> {
        let mut bytes = vec![0; 4000];
        blake3::Hasher::new().update(&n.to_le_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    }

    fn later() -> SystemTime {
        SystemTime::now() + Duration::from_secs(3600)
    }

    #[test]
    fn an_object_is_erased_however_large_its_pack_is() {
        let dir = tempfile::tempdir().unwrap();
        let all = packs(dir.path());
        let writer = PackWriter::open(all.clone()).unwrap();
        let mut batch = ObjectBatch::default();
        let hashes: Vec<_> = (0..100).map(|n| ObjectHash::of(&bytes(n))).collect();
        for (n, hash) in (0..).zip(&hashes) {
            batch.push(*hash, &bytes(n));
        }
        writer.put_batch(&batch).unwrap();
        writer.sync().unwrap();
        drop(writer);
        let _lock = all.lock_for_collection().unwrap().unwrap();
        // A collection would not do it for so little.
        let live: HashSet<_> = hashes.iter().skip(1).copied().collect();
        let kept = all.collect(&live, Duration::ZERO, later(), false).unwrap();
        assert_eq!(kept, Collected::default());
        // A pack that was written just now is no younger than what is to be erased.
        let now = SystemTime::UNIX_EPOCH;
        let erased = all.erase(&HashSet::from([hashes[0]]), now).unwrap();
        assert_eq!((erased.objects_removed, erased.packs_rewritten), (1, 1));
        assert_eq!(all.read(hashes[0]).unwrap(), None);
        let secret = bytes(0);
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let file = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(memchr::memmem::find(&file, &secret[..64]).is_none());
            assert!(memchr::memmem::find(&file, &hashes[0].0).is_none());
        }
        for (n, hash) in (0..).zip(&hashes).skip(1) {
            assert_eq!(all.read(*hash).unwrap(), Some(bytes(n)));
        }
    }

    #[test]
    fn what_is_live_stays_with_its_bases_and_the_rest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let all = packs(dir.path());
        let writer = PackWriter::open(all.clone()).unwrap();
        let mut hashes = Vec::new();
        for part in 0..10 {
            let mut batch = ObjectBatch::default();
            for n in part * 100..(part + 1) * 100 {
                hashes.push(ObjectHash::of(&bytes(n)));
                batch.push(ObjectHash::of(&bytes(n)), &bytes(n));
            }
            writer.put_batch(&batch).unwrap();
        }
        let mut edited = bytes(7);
        edited[5] ^= 1;
        let like = ObjectHash::of(&edited);
        let object = NewObject { hash: like, bytes: edited.clone(), base: Some(hashes[7]) };
        assert!(writer.put_like(&[object]).unwrap() < 1000);
        writer.sync().unwrap();
        assert!(all.lock_for_collection().unwrap().is_none(), "a writer is there");
        drop(writer);
        // The difference is live, what it is a difference from is named by nothing.
        let live: HashSet<_> = hashes.iter().skip(900).copied().chain([like]).collect();
        let _lock = all.lock_for_collection().unwrap().unwrap();
        let grace = Duration::from_secs(60);
        let young = all.collect(&live, grace, SystemTime::now(), false).unwrap();
        assert_eq!(young, Collected::default(), "younger than the grace period");
        let planned = all.collect(&live, grace, later(), true).unwrap();
        let done = all.collect(&live, grace, later(), false).unwrap();
        assert_eq!((done.objects_removed, done.packs_rewritten), (899, 1));
        assert_eq!(planned.objects_removed, 899);
        assert!(done.bytes_freed > 3_000_000, "{done:?}");
        for packs in [all.clone(), packs(dir.path())] {
            assert_eq!(packs.read(like).unwrap().unwrap(), edited);
            assert_eq!(packs.read(hashes[950]).unwrap().unwrap(), bytes(950));
            assert_eq!(packs.read(hashes[8]).unwrap(), None);
            assert_eq!(packs.verify().unwrap(), []);
        }
        let again = all.collect(&live, grace, later(), false).unwrap();
        assert_eq!(again, Collected::default());
        let none = all.collect(&HashSet::new(), grace, later(), false).unwrap();
        assert_eq!((none.packs_removed, none.objects_removed), (1, 102));
        assert_eq!(all.numbers().unwrap(), Vec::<u64>::new());
    }

    #[test]
    fn many_small_packs_become_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut live = HashSet::new();
        let mut writers = Vec::new();
        for n in 0..10 {
            // Each writer has a pack of its own, since the others are held.
            let writer = PackWriter::open(packs(dir.path())).unwrap();
            live.insert(writer.put(&bytes(n)).unwrap());
            writer.sync().unwrap();
            writers.push(writer);
        }
        drop(writers);
        let all = packs(dir.path());
        assert_eq!(all.numbers().unwrap().len(), 10);
        let _lock = all.lock_for_collection().unwrap().unwrap();
        let done = all.collect(&live, Duration::ZERO, later(), false).unwrap();
        assert_eq!((done.packs_rewritten, done.objects_removed), (10, 0));
        assert_eq!(all.numbers().unwrap().len(), 1);
        for n in 0..10 {
            assert_eq!(all.read(ObjectHash::of(&bytes(n))).unwrap().unwrap(), bytes(n));
        }
    }

    #[test]
    fn a_damaged_pack_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let writer = PackWriter::open(packs(dir.path())).unwrap();
        let live = HashSet::from([writer.put(&bytes(1)).unwrap()]);
        for n in 2..9 {
            writer.put(&bytes(n)).unwrap();
        }
        writer.sync().unwrap();
        drop(writer);
        let path = dir.path().join("00000001.pack");
        let mut before = std::fs::read(&path).unwrap();
        before[200] ^= 1;
        std::fs::write(&path, &before).unwrap();
        let all = packs(dir.path());
        let _lock = all.lock_for_collection().unwrap().unwrap();
        let left = all.collect(&live, Duration::ZERO, later(), false).unwrap();
        assert_eq!((left.packs_damaged, left.packs_rewritten), (1, 0));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
