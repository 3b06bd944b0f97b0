//! Collection: removes unreferenced objects from packs.
//!
//! What stays is copied into new packs, which are durable before the old ones are removed. This is
//! done a few packs at a time, so little space is needed. A crash may leave an object twice, but
//! never a name without its object.
//!
//! A collection frees space where that pays, and keeps the bases of live objects. A purge removes
//! every object that is not live; differences from a removed object are stored whole.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use abide_model::{ObjectBatch, ObjectHash};

use crate::pack::{DifferenceObject, PackBlock, PackRow, pack_slice};
use crate::pack_index::PackIndex;
use crate::packs::{FULL, HEADER, MAX_HASHED, has_pack_header, next_block};
use crate::{
    Access, JournalError, LockMode, PackWriter, Packs, StorageFile, StorageLock, read_full,
};

/// A pack is rewritten if this percentage of it is not needed.
const WASTE: u64 = 25;
/// Packs smaller than this are small; this many small packs are merged into one.
const SMALL: u64 = 8 << 20;
const MANY_SMALL: usize = 8;
/// The approximate size of the blocks that objects are gathered into.
const BLOCK: usize = 512 << 10;

/// What a collection did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CollectionSummary {
    /// Packs that held nothing needed.
    pub packs_removed: u64,
    /// Packs whose needed objects were copied into new packs.
    pub packs_rewritten: u64,
    /// Objects removed.
    pub objects_removed: u64,
    /// Bytes freed; an estimate before the collection.
    pub bytes_freed: u64,
    /// Packs left alone because they are damaged.
    pub packs_damaged: u64,
    /// Objects that are not live but remain in a damaged pack, which may hold live ones.
    pub objects_left: u64,
}

/// A pack as a collection sees it.
struct ScannedPack {
    number: u64,
    file: Arc<dyn StorageFile>,
    len: u64,
    blocks: Vec<(u64, PackBlock)>,
    whole: bool,
    old: bool,
}

/// What to do with a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PackFate {
    Stays,
    Goes,
    IsRewritten,
}

/// What to do with a pack, and how much of it is not needed.
struct PackVerdict {
    fate: PackFate,
    /// The number of unneeded copies, and roughly how many bytes they take.
    dead: u64,
    wasted: u64,
    /// How many of them are copies of objects that are not live.
    unnamed: u64,
    /// The bytes of objects that are differences from removed ones.
    orphaned: u64,
}

/// Where a copy of an object is: pack, block and index in the block.
type CopyPlace = (u64, u64, u32);
type Copies = HashSet<CopyPlace>;
/// Copies that are differences from a removed object. They are stored whole.
type Orphans = BTreeMap<CopyPlace, ObjectHash>;
/// Packs that are removed together.
type CollectionBatch = Vec<(ScannedPack, PackVerdict)>;

/// How much waste makes a pack worth rewriting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WasteThreshold {
    /// Enough that it pays. A damaged pack is left alone.
    Much,
    /// A single object, even in a damaged pack.
    Any,
}

impl Packs {
    /// Keeps everybody from storing objects until dropped. `None` while somebody does.
    pub fn lock_for_collection(&self) -> Result<Option<Box<dyn StorageLock>>, JournalError> {
        let path = self.dir.join("lock");
        self.storage.lock(&path, LockMode::Exclusive).map_err(JournalError::io("lock", &path))
    }

    /// Removes objects that are not live from packs that have not changed for `grace`. The caller
    /// must hold [`Packs::lock_for_collection`] since before it determined what is live.
    pub fn collect(
        self: &Arc<Self>,
        live: &HashSet<ObjectHash>,
        grace: Duration,
        now: SystemTime,
        dry_run: bool,
    ) -> Result<CollectionSummary, JournalError> {
        let packs = self.scan_to_collect(grace, now)?;
        self.collect_packs(packs, live, WasteThreshold::Much, dry_run)
    }

    /// Removes every object that is not live from every pack, however little it is and however new.
    /// The caller must hold [`Packs::lock_for_collection`] since before it determined what is live.
    ///
    /// A damaged pack that holds such an object is rewritten too, without its damage, unless it may
    /// hold a live object: one of its live objects is damaged, or a live object is found nowhere.
    /// Then the pack stays, and its objects are counted as left.
    pub fn purge(
        self: &Arc<Self>,
        live: &HashSet<ObjectHash>,
    ) -> Result<CollectionSummary, JournalError> {
        let packs = self.scan_to_collect(Duration::ZERO, SystemTime::UNIX_EPOCH)?;
        self.collect_packs(packs, live, WasteThreshold::Any, false)
    }

    /// Every object that a pack claims to have.
    pub fn objects(&self) -> Result<HashSet<ObjectHash>, JournalError> {
        let packs = self.scan_to_collect(Duration::ZERO, SystemTime::UNIX_EPOCH)?;
        let rows = packs.iter().flat_map(|pack| &pack.blocks).flat_map(|(_, block)| &block.rows);
        Ok(rows.map(|row| row.hash).collect())
    }

    fn collect_packs(
        self: &Arc<Self>,
        packs: Vec<ScannedPack>,
        live: &HashSet<ObjectHash>,
        waste: WasteThreshold,
        dry_run: bool,
    ) -> Result<CollectionSummary, JournalError> {
        let needed = match waste {
            WasteThreshold::Much => Some(collect_with_bases(&packs, live)),
            WasteThreshold::Any => None,
        };
        let live = needed.as_ref().unwrap_or(live);
        let mut elected = ElectedCopies::default();
        let mut kept = Copies::new();
        let mut orphans = Orphans::new();
        // The newest copy first: it was written because an older one is damaged.
        for pack in packs.iter().rev() {
            for (offset, block) in pack.blocks.iter().rev() {
                for (index, row) in (0..).zip(&block.rows) {
                    let here = (pack.number, *offset, index);
                    if live.contains(&row.hash)
                        && self.is_needed(&packs, &mut elected, row, here)?
                    {
                        kept.insert(here);
                        if row.base().is_some_and(|base| !live.contains(&base)) {
                            orphans.insert(here, row.hash);
                        }
                    }
                }
            }
        }
        let mut verdicts = pack_verdicts(&packs, live, (&kept, &orphans), waste);
        let mut collected = CollectionSummary::default();
        // A live object in no readable block may be in an unreadable one.
        let lost = live.iter().any(|hash| !elected.copies.contains_key(hash));
        for (pack, verdict) in packs.iter().zip(&mut verdicts) {
            let matters =
                verdict.fate != PackFate::Stays && (lost || waste == WasteThreshold::Much);
            if matters && self.is_doubtful(pack, &kept)? {
                collected.leave(pack, verdict);
            }
        }
        if dry_run {
            for (pack, verdict) in packs.iter().zip(&verdicts) {
                collected.count(pack, verdict);
            }
            return Ok(collected);
        }
        let orphaned = verdicts.iter().map(|verdict| verdict.orphaned).sum();
        let batches = collect_batches(packs, verdicts, &mut collected);
        let swept = self.collect_in_batches(batches, kept, (orphans, orphaned), &mut collected);
        // On failure too: some packs may be gone.
        let forgotten = self.forget();
        swept?;
        forgotten.map(|()| collected)
    }

    /// Does a pack hold unidentified bytes besides what is kept?
    fn is_doubtful(&self, pack: &ScannedPack, kept: &Copies) -> Result<bool, JournalError> {
        let path = self.path(pack.number);
        let mut whole = pack.whole;
        for (offset, block) in &pack.blocks {
            let is_kept = |index: u32| kept.contains(&(pack.number, *offset, index));
            if whole && !(0..).zip(&block.rows).all(|(index, _)| is_kept(index)) {
                whole =
                    block.verify(&*pack.file, *offset).map_err(JournalError::io("read", &path))?;
            }
        }
        Ok(!whole)
    }

    /// Is there space for what is written before anything is removed?
    fn check_room_to_collect(&self, needed: u64) -> Result<(), JournalError> {
        if needed == 0 {
            return Ok(());
        }
        let free = self.storage.free_bytes(&self.dir).unwrap_or(u64::MAX);
        if needed <= free {
            return Ok(());
        }
        let full = format!("{needed} bytes are needed to rewrite packs, but only {free} are free");
        Err(JournalError::io("write", &self.dir)(io::Error::new(io::ErrorKind::StorageFull, full)))
    }

    /// Copies what is kept of each batch and removes its packs before the next batch needs space.
    fn collect_in_batches(
        self: &Arc<Self>,
        batches: Vec<CollectionBatch>,
        mut kept: Copies,
        (mut orphans, mut orphaned): (Orphans, u64),
        collected: &mut CollectionSummary,
    ) -> Result<(), JournalError> {
        let (mut before, mut written) = (0_u64, 0);
        for mut batch in batches {
            // All orphans are written with the first batch.
            self.check_room_to_collect(
                std::mem::take(&mut orphaned).saturating_add(rewritten_bytes(&batch)),
            )?;
            let writer = PackWriter::beginning_a_pack(self.clone());
            let copied = self
                .store_whole(&writer, std::mem::take(&mut orphans), &mut kept)
                .and_then(|()| self.copy_batch(&writer, &mut batch, &kept, collected))
                .and_then(|()| writer.sync());
            if let Err(error) = copied {
                // The originals are still in place.
                writer.discard();
                return Err(error);
            }
            written += writer.written();
            for (pack, verdict) in batch {
                collected.count(&pack, &verdict);
                if verdict.fate == PackFate::Stays {
                    continue;
                }
                before += pack.len;
                let path = self.path(pack.number);
                let gone = |error| JournalError::io("remove", &path)(error);
                PackIndex::remove(&*self.storage, &path).map_err(gone)?;
                self.storage.remove(&path).map_err(gone)?;
                // An open file keeps its space.
                self.lock_index().packs.remove(&pack.number);
            }
        }
        self.storage.sync_dir(&self.dir).map_err(JournalError::io("sync", &self.dir))?;
        collected.bytes_freed = before.saturating_sub(written);
        Ok(())
    }

    /// Stores differences from removed objects as whole objects, before anything is removed. A
    /// difference whose base is lost is unreadable and is left as it is.
    fn store_whole(
        &self,
        writer: &PackWriter,
        orphans: Orphans,
        kept: &mut Copies,
    ) -> Result<(), JournalError> {
        let mut whole = WholeObjects { writer, batch: ObjectBatch::default() };
        for (here, hash) in orphans {
            if let Some(bytes) = self.read(hash)? {
                whole.add(hash, &bytes)?;
                kept.remove(&here);
            }
        }
        writer.put_batch(&whole.batch).map(|_| ())
    }

    fn copy_batch(
        &self,
        writer: &PackWriter,
        batch: &mut [(ScannedPack, PackVerdict)],
        kept: &Copies,
        collected: &mut CollectionSummary,
    ) -> Result<(), JournalError> {
        for (pack, verdict) in batch {
            if verdict.fate == PackFate::IsRewritten && !self.copy(writer, pack, kept)? {
                // Something in it is needed but damaged.
                collected.leave(pack, verdict);
            }
        }
        Ok(())
    }

    fn scan_to_collect(
        &self,
        grace: Duration,
        now: SystemTime,
    ) -> Result<Vec<ScannedPack>, JournalError> {
        let mut packs = Vec::new();
        for number in self.numbers()? {
            let path = self.path(number);
            let read = |error| JournalError::io("read", &path)(error);
            let file =
                self.storage.open(&path, Access::Read).map_err(JournalError::io("open", &path))?;
            let len = file.len().map_err(read)?;
            let modified = self.storage.modified(&path).map_err(read)?;
            let old = now.duration_since(modified).is_ok_and(|age| age >= grace);
            let mut whole = has_pack_header(&*file).map_err(read)?;
            let mut blocks = Vec::new();
            let mut at = HEADER.len() as u64;
            let mut budget = MAX_HASHED;
            while at < len {
                if let Some(block) = PackBlock::read(&*file, at, len).map_err(read)? {
                    let size = block.size();
                    blocks.push((at, block));
                    at += size;
                    continue;
                }
                // What follows the damage is still read, so it counts.
                whole = false;
                match next_block(&*file, at, len, &mut budget).map_err(read)? {
                    Some(next) => at = next,
                    None => break,
                }
            }
            packs.push(ScannedPack { number, file, len, blocks, whole, old });
        }
        Ok(packs)
    }

    /// Is this copy of an object the one to keep? Another copy replaces it only if that one is
    /// whole.
    fn is_needed(
        &self,
        packs: &[ScannedPack],
        elected: &mut ElectedCopies,
        row: &PackRow,
        here: CopyPlace,
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

    /// Copies what is kept of a pack. `false` if something in it is damaged.
    fn copy(
        &self,
        writer: &PackWriter,
        pack: &ScannedPack,
        kept: &Copies,
    ) -> Result<bool, JournalError> {
        let path = self.path(pack.number);
        let read = |error| JournalError::io("read", &path)(error);
        let mut whole = WholeObjects { writer, batch: ObjectBatch::default() };
        for (offset, block) in &pack.blocks {
            let here = |index: u32| (pack.number, *offset, index);
            let rows: Vec<(u32, &PackRow)> =
                (0..).zip(&block.rows).filter(|(at, _)| kept.contains(&here(*at))).collect();
            if rows.is_empty() {
                continue;
            }
            if !block.verify(&*pack.file, *offset).map_err(read)? {
                // Another copy may be whole.
                for (_, row) in rows {
                    let Some(bytes) = self.read(row.hash)? else { return Ok(false) };
                    whole.add(row.hash, &bytes)?;
                }
                continue;
            }
            if rows.len() == block.rows.len() {
                let mut bytes = vec![0; usize::try_from(block.size()).unwrap_or(0)];
                read_full(&*pack.file, &mut bytes, *offset).map_err(read)?;
                writer.write(&bytes, &mut rows.iter().map(|(_, row)| row.hash))?;
            } else if block.is_like() {
                let mut objects = Vec::with_capacity(rows.len());
                for (_, row) in rows {
                    let stored = block.stored_of(&*pack.file, *offset, row).map_err(read)?;
                    let Some(stored) = stored else { return Ok(false) };
                    objects.push(DifferenceObject {
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
                for (_, row) in rows {
                    let Some(bytes) = pack_slice(&plain, row) else { return Ok(false) };
                    whole.add(row.hash, bytes)?;
                }
            }
        }
        writer.put_batch(&whole.batch).map(|_| true)
    }
}

/// Objects to store whole, gathered into blocks.
struct WholeObjects<'a> {
    writer: &'a PackWriter,
    batch: ObjectBatch,
}

impl WholeObjects<'_> {
    fn add(&mut self, hash: ObjectHash, bytes: &[u8]) -> Result<(), JournalError> {
        if self.batch.plain().len() + bytes.len() > BLOCK {
            self.writer.put_batch(&self.batch)?;
            self.batch.clear();
        }
        self.batch.push(hash, bytes);
        Ok(())
    }
}

impl CollectionSummary {
    /// Counts a pack as removed, rewritten, or damaged and left.
    fn count(&mut self, pack: &ScannedPack, verdict: &PackVerdict) {
        match verdict.fate {
            PackFate::Stays => {
                self.packs_damaged += u64::from(!pack.whole);
                return;
            }
            PackFate::Goes => {
                self.packs_removed += 1;
                self.bytes_freed += pack.len;
            }
            PackFate::IsRewritten => {
                self.packs_rewritten += 1;
                self.bytes_freed += verdict.wasted;
            }
        }
        self.objects_removed += verdict.dead;
    }

    /// Leaves a pack alone, including what should have been removed.
    fn leave(&mut self, pack: &ScannedPack, verdict: &mut PackVerdict) {
        verdict.fate = PackFate::Stays;
        self.packs_damaged += u64::from(pack.whole);
        self.objects_left += verdict.unnamed;
    }
}

/// Which copy of each object is kept, and which blocks were verified.
#[derive(Default)]
struct ElectedCopies {
    copies: HashMap<ObjectHash, CopyPlace>,
    verified: HashMap<(u64, u64), bool>,
}

/// The live objects and everything they are differences from.
fn collect_with_bases(packs: &[ScannedPack], live: &HashSet<ObjectHash>) -> HashSet<ObjectHash> {
    let rows = packs.iter().flat_map(|pack| &pack.blocks).flat_map(|(_, block)| &block.rows);
    // If an object has several copies, the base of each.
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

/// The size of the packs that are rewritten.
fn collected_bytes(batch: &[(ScannedPack, PackVerdict)]) -> u64 {
    let rewritten = batch.iter().filter(|(_, verdict)| verdict.fate == PackFate::IsRewritten);
    rewritten.map(|(pack, _)| pack.len).sum()
}

/// The approximate number of bytes rewritten.
fn rewritten_bytes(batch: &[(ScannedPack, PackVerdict)]) -> u64 {
    let rewritten = batch.iter().filter(|(_, verdict)| verdict.fate == PackFate::IsRewritten);
    rewritten.map(|(pack, verdict)| pack.len.saturating_sub(verdict.wasted)).sum()
}

/// The packs to remove, in batches of about one full pack each. Those with nothing to keep come
/// first: they need no space and free some. Packs that stay are counted.
fn collect_batches(
    packs: Vec<ScannedPack>,
    verdicts: Vec<PackVerdict>,
    collected: &mut CollectionSummary,
) -> Vec<CollectionBatch> {
    let (stay, mut go): (CollectionBatch, CollectionBatch) =
        packs.into_iter().zip(verdicts).partition(|(_, verdict)| verdict.fate == PackFate::Stays);
    for (pack, verdict) in stay {
        collected.count(&pack, &verdict);
    }
    go.sort_by_key(|(_, verdict)| verdict.fate == PackFate::IsRewritten);
    let mut batches: Vec<CollectionBatch> = Vec::new();
    for (pack, verdict) in go {
        let fits = |batch: &&mut CollectionBatch| {
            let same = batch.last().is_some_and(|(_, last)| last.fate == verdict.fate);
            same && collected_bytes(batch) < FULL
        };
        match batches.last_mut().filter(fits) {
            Some(batch) => batch.push((pack, verdict)),
            None => batches.push(vec![(pack, verdict)]),
        }
    }
    batches
}

fn pack_verdicts(
    packs: &[ScannedPack],
    live: &HashSet<ObjectHash>,
    (kept, orphans): (&Copies, &Orphans),
    waste: WasteThreshold,
) -> Vec<PackVerdict> {
    let may_go = |pack: &ScannedPack| pack.whole && pack.old;
    let small = packs.iter().filter(|pack| may_go(pack) && pack.len < SMALL).count();
    let mut verdicts = Vec::with_capacity(packs.len());
    for pack in packs {
        let mut verdict =
            PackVerdict { fate: PackFate::Stays, dead: 0, wasted: 0, unnamed: 0, orphaned: 0 };
        let (mut lives, mut orphaned) = (false, false);
        for (offset, block) in &pack.blocks {
            let mut bytes = 0_u64;
            for (index, row) in (0..).zip(&block.rows) {
                let here = (pack.number, *offset, index);
                if kept.contains(&here) {
                    lives = true;
                    if orphans.contains_key(&here) {
                        orphaned = true;
                        verdict.orphaned += row.length;
                    }
                    continue;
                }
                bytes += row.length;
                verdict.dead += 1;
                verdict.unnamed += u64::from(!live.contains(&row.hash));
            }
            verdict.wasted += block.size() * bytes / block.plain().max(1);
        }
        let (goes, is_rewritten) = match waste {
            WasteThreshold::Much => {
                let pays = verdict.wasted * 100 >= pack.len * WASTE;
                let joins = pack.len < SMALL && small >= MANY_SMALL;
                (may_go(pack), may_go(pack) && (pays || joins))
            }
            WasteThreshold::Any => {
                (pack.whole || verdict.unnamed > 0, verdict.unnamed > 0 || orphaned)
            }
        };
        verdict.fate = match (lives, goes, is_rewritten) {
            (false, true, _) => PackFate::Goes,
            (true, _, true) => PackFate::IsRewritten,
            _ => PackFate::Stays,
        };
        verdicts.push(verdict);
    }
    verdicts
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
        assert_eq!(kept, CollectionSummary::default());
        // However young the pack is.
        let erased = all.purge(&live).unwrap();
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
    fn a_purge_stores_whole_what_was_a_difference_from_what_goes() {
        let dir = tempfile::tempdir().unwrap();
        let all = packs(dir.path());
        // Four versions in a chain, each in a pack of its own; the second and the last stay.
        let version = |n: usize| {
            let mut version = bytes(7);
            for at in 0..n {
                version[100 * at] ^= 1;
            }
            version
        };
        let hash = |n: usize| ObjectHash::of(&version(n));
        let mut writers = Vec::new();
        for n in 0..4_usize {
            let writer = PackWriter::open(packs(dir.path())).unwrap();
            let base = n.checked_sub(1).map(hash);
            let object = NewObject { hash: hash(n), bytes: version(n), base };
            writer.put_like(&[object]).unwrap();
            writer.sync().unwrap();
            writers.push(writer);
        }
        drop(writers);
        assert_eq!(all.numbers().unwrap().len(), 4);
        let live = HashSet::from([hash(1), hash(3)]);
        let _lock = all.lock_for_collection().unwrap().unwrap();
        // A collection keeps the whole chain.
        let kept = all.collect(&live, Duration::ZERO, later(), true).unwrap();
        assert_eq!(kept.objects_removed, 0);
        let done = all.purge(&live).unwrap();
        assert_eq!((done.objects_removed, done.objects_left), (2, 0));
        for packs in [all.clone(), packs(dir.path())] {
            assert_eq!(packs.objects().unwrap(), live);
            for n in [1, 3] {
                assert_eq!(packs.read(hash(n)).unwrap(), Some(version(n)), "{n}");
            }
            assert_eq!(packs.verify().unwrap(), []);
        }
        // Once more there is nothing to do.
        assert_eq!(all.purge(&live).unwrap(), CollectionSummary::default());
        assert_eq!(all.purge(&HashSet::new()).unwrap().objects_removed, 2);
        assert_eq!(all.numbers().unwrap(), Vec::<u64>::new());
    }

    #[test]
    fn a_purge_says_what_it_could_not_take_out_of_a_damaged_pack() {
        let dir = tempfile::tempdir().unwrap();
        let writer = PackWriter::open(packs(dir.path())).unwrap();
        let [first, second] = [1, 2].map(|n| writer.put(&bytes(n)).unwrap());
        writer.sync().unwrap();
        drop(writer);
        let path = dir.path().join("00000001.pack");
        let whole = std::fs::read(&path).unwrap();
        let flip = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            packs(dir.path())
        };
        // What stays is damaged: so the pack does, with what should go.
        let all = flip(200);
        let _lock = all.lock_for_collection().unwrap().unwrap();
        let left = all.purge(&HashSet::from([first])).unwrap();
        assert_eq!((left.objects_removed, left.objects_left, left.packs_damaged), (0, 1, 1));
        assert_eq!(all.objects().unwrap(), HashSet::from([first, second]));
        // What goes is damaged, and a part that is no block at all goes with it.
        let all = flip(4300);
        let mut torn = std::fs::read(&path).unwrap();
        torn.extend_from_slice(b"aBLK half a blo");
        std::fs::write(&path, torn).unwrap();
        let gone = all.purge(&HashSet::from([first])).unwrap();
        assert_eq!((gone.objects_removed, gone.objects_left, gone.packs_damaged), (1, 0, 0));
        assert_eq!(all.read(first).unwrap(), Some(bytes(1)));
        assert_eq!(all.verify().unwrap(), []);
        // A damaged pack that shows nothing to remove is left as it is, and that is said.
        let path = dir.path().join("00000002.pack");
        let mut torn = std::fs::read(&path).unwrap();
        torn.extend_from_slice(b"aBLK half a blo");
        std::fs::write(&path, &torn).unwrap();
        let left = all.purge(&HashSet::from([first])).unwrap();
        assert_eq!((left.objects_removed, left.objects_left, left.packs_damaged), (0, 0, 1));
        assert_eq!(std::fs::read(&path).unwrap(), torn);
    }

    #[test]
    fn a_purge_leaves_damage_that_may_be_what_is_live() {
        let dir = tempfile::tempdir().unwrap();
        let writer = PackWriter::open(packs(dir.path())).unwrap();
        let [live, gone] = [1, 2].map(|n| writer.put(&bytes(n)).unwrap());
        writer.sync().unwrap();
        drop(writer);
        let path = dir.path().join("00000001.pack");
        let whole = std::fs::read(&path).unwrap();
        // Its block is not one any more; or it shows another name.
        let places = [(HEADER.len(), 1), (HEADER.len() + crate::pack::HEAD, 2)];
        for (at, shown) in places {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            let all = packs(dir.path());
            let _lock = all.lock_for_collection().unwrap().unwrap();
            let left = all.purge(&HashSet::from([live])).unwrap();
            let counts = (left.objects_removed, left.objects_left, left.packs_damaged);
            assert_eq!(counts, (0, shown, 1), "{at}");
            assert_eq!(std::fs::read(&path).unwrap(), damaged);
            // A collection does not take it either.
            all.collect(&HashSet::from([live]), Duration::ZERO, later(), false).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), damaged);
        }
        // Once what is live is whole elsewhere, nothing is lost with the damage.
        let writer = PackWriter::open(packs(dir.path())).unwrap();
        writer.put(&bytes(1)).unwrap();
        writer.sync().unwrap();
        drop(writer);
        let all = packs(dir.path());
        let _lock = all.lock_for_collection().unwrap().unwrap();
        let done = all.purge(&HashSet::from([live])).unwrap();
        assert_eq!((done.objects_left, done.packs_damaged), (0, 0));
        assert_eq!(all.read(live).unwrap(), Some(bytes(1)));
        assert_eq!(all.read(gone).unwrap(), None);
        assert_eq!(all.verify().unwrap(), []);
    }

    #[test]
    fn packs_go_a_few_at_a_time() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let file = crate::Storage::open(&crate::Disk, path.path(), Access::Read).unwrap();
        let seen = |number, len| {
            let file = file.clone();
            ScannedPack { number, file, len, blocks: Vec::new(), whole: true, old: true }
        };
        let verdict = |fate| PackVerdict { fate, dead: 0, wasted: 0, unnamed: 0, orphaned: 0 };
        let fates = [PackFate::IsRewritten, PackFate::Stays, PackFate::Goes, PackFate::IsRewritten];
        let sizes = [[1, FULL, FULL, FULL], [FULL, FULL, FULL, FULL]];
        let batched = sizes.map(|sizes| {
            let packs = (1..).zip(sizes).map(|(number, len)| seen(number, len)).collect();
            let verdicts = fates.map(verdict).into();
            let batches = collect_batches(packs, verdicts, &mut CollectionSummary::default());
            let numbers = |batch: &CollectionBatch| -> Vec<u64> {
                batch.iter().map(|(pack, _)| pack.number).collect()
            };
            batches.iter().map(numbers).collect::<Vec<_>>()
        });
        assert_eq!(batched[0], [vec![3], vec![1, 4]]);
        assert_eq!(batched[1], [vec![3], vec![1], vec![4]]);
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
        assert_eq!(young, CollectionSummary::default(), "younger than the grace period");
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
        assert_eq!(again, CollectionSummary::default());
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
