//! Garbage collection: finds the objects that something still names, and removes the others.
//!
//! The lock is taken before the first journal is read, so nobody stores an object meanwhile.
//! Which names count is told by `abide-maintain`. If a journal cannot be read completely, it is
//! unknown what it names, and nothing is removed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use abide_journal::{
    CollectionSummary, Journal, JournalIdentity, JournalItem, JournalWalkStart, Packs, SegmentScan,
    StorageLock,
};
use abide_maintain::{
    CollectError, NamedObjects, ObjectAccess, note_recovery, object_names_in, recorded_recovery,
};
use abide_model::{ObjectHash, SessionId, StoreError};

use crate::error::{storage_error, store_error};
use crate::sessions::local_store::LocalStore;
use crate::store_layout::layout_path_text;

/// Sessions and checkpoints that are treated as already removed.
#[derive(Debug, Default)]
pub(crate) struct AssumedRemovals {
    pub(crate) sessions: HashSet<SessionId>,
    pub(crate) checkpoints: HashMap<SessionId, BTreeSet<u64>>,
}

/// Removes the objects of a store that nothing names.
#[derive(Debug)]
pub struct Collector<'a> {
    pub(crate) store: &'a LocalStore,
}

impl Collector<'_> {
    /// Removes objects that nothing names from packs older than `grace`.
    pub fn collect(&self, grace: Duration) -> Result<CollectionSummary, CollectError> {
        self.collect_noting(grace, &mut Vec::new())
    }

    /// [`Collector::collect`], with notes on what was skipped.
    pub(crate) fn collect_noting(
        &self,
        grace: Duration,
        notes: &mut Vec<String>,
    ) -> Result<CollectionSummary, CollectError> {
        let _lock = self.lock_objects()?;
        let live = self.live_objects(&AssumedRemovals::default(), notes)?;
        let (packs, now) = (self.store.packs(), self.store.system_time());
        let planned = packs.collect(&live, grace, now, true).map_err(store_error)?;
        let touched = planned.packs_removed + planned.packs_rewritten + planned.objects_removed;
        if touched == 0 {
            return Ok(planned);
        }
        self.forget_workspaces()?;
        Ok(packs.collect(&live, grace, now, false).map_err(store_error)?)
    }

    /// What a collection would remove after these removals.
    pub(crate) fn preview(
        &self,
        without: &AssumedRemovals,
        grace: Duration,
        notes: &mut Vec<String>,
    ) -> Result<CollectionSummary, CollectError> {
        let _lock = self.lock_objects()?;
        let live = self.live_objects(without, notes)?;
        let collected = self.store.packs().collect(&live, grace, self.store.system_time(), true);
        Ok(collected.map_err(store_error)?)
    }

    /// What a collection would remove from packs older than `grace`. Takes no lock and changes
    /// nothing: objects stored meanwhile go to a newer pack.
    pub fn unnamed_objects(&self, grace: Duration) -> Result<CollectionSummary, CollectError> {
        let live = self.live_objects(&AssumedRemovals::default(), &mut Vec::new())?;
        let collected = self.store.packs().collect(&live, grace, self.store.system_time(), true);
        Ok(collected.map_err(store_error)?)
    }

    /// Removes the workspace caches, durably. Needed before an object is removed, because they say
    /// that unchanged files are in the store.
    pub(crate) fn forget_workspaces(&self) -> Result<(), StoreError> {
        let (storage, dir) = (self.store.storage(), self.store.layout().cache());
        let names = match storage.list(&dir) {
            Ok(names) => names,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(storage_error("list", &dir)(error)),
        };
        // The note of a rewind in progress stays.
        for name in names.iter().filter(|name| !name.ends_with(".rewind")) {
            let path = dir.join(name);
            match storage.remove(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.map_err(storage_error("remove", &path))?,
            }
        }
        storage.sync_dir(&dir).map_err(storage_error("sync", &dir))
    }

    pub(crate) fn lock_objects(&self) -> Result<Box<dyn StorageLock>, CollectError> {
        self.store.packs().lock_for_collection().map_err(store_error)?.ok_or(CollectError::Busy)
    }

    /// Every object that something names, with notes on names without an object. The caller must
    /// hold the collection lock.
    pub(crate) fn live_objects(
        &self,
        without: &AssumedRemovals,
        notes: &mut Vec<String>,
    ) -> Result<HashSet<ObjectHash>, CollectError> {
        let mut marks = NamedObjects::default();
        for name in self.store.names()? {
            let layout = self.store.layout().session(&name);
            let id = match self.store.identify(&layout).map_err(store_error)? {
                JournalIdentity::Known(id) => id,
                JournalIdentity::Empty => continue,
                JournalIdentity::Unknown => {
                    let reason = "no segment names the session".to_owned();
                    return Err(CollectError::Unreadable {
                        place: layout_path_text(&layout.dir),
                        reason,
                    });
                }
            };
            if !without.sessions.contains(&id) {
                let none = BTreeSet::new();
                self.mark_session(id, without.checkpoints.get(&id).unwrap_or(&none), &mut marks)?;
            }
        }
        self.mark_imports(&mut marks)?;
        let read = |hash| self.store.packs().read(hash).map_err(store_error);
        // A separate instance: one that has searched thoroughly no longer knows objects that exist
        // and are damaged.
        let packs = Packs::new(self.store.storage().clone(), self.store.layout().objects());
        let there = |hashes: &[ObjectHash]| {
            let places = packs.places(hashes).map_err(store_error)?;
            Ok(places.iter().map(Option::is_some).collect())
        };
        marks.reached(&ObjectAccess { read: &read, there: &there }, notes)
    }

    fn mark_session(
        &self,
        session: SessionId,
        thinned: &BTreeSet<u64>,
        marks: &mut NamedObjects,
    ) -> Result<(), CollectError> {
        let reader = self.store.reader(session)?;
        let mark = reader.mark().map_err(store_error)?;
        let mut snapshots = reader.no_snapshots().map_err(store_error)?.without(thinned);
        let mut damage = None;
        let mut recoveries = Vec::new();
        reader
            .journal()
            .walk(JournalWalkStart::beginning(), mark, &mut |found| {
                match found {
                    JournalItem::Event { line, .. } => {
                        marks.line(&line, &mut snapshots);
                        if let Some(recovery) = recorded_recovery(&line) {
                            note_recovery(&mut recoveries, line.seq, recovery);
                        }
                        ControlFlow::Continue(())
                    }
                    JournalItem::Damage(found) => {
                        damage = Some(found);
                        ControlFlow::Break(())
                    }
                    // A torn tail was never acknowledged; the next writer cuts it off.
                    JournalItem::Torn { .. } | JournalItem::Splice { .. } => {
                        ControlFlow::Continue(())
                    }
                }
            })
            .map_err(store_error)?;
        if let Some(damage) = damage {
            let place = format!("{} at byte {}", layout_path_text(&damage.path), damage.offset);
            return Err(CollectError::Unreadable { place, reason: damage.reason.to_string() });
        }
        marks.staying(session, &snapshots);
        marks.lost.extend(recoveries.into_iter().flat_map(|(_, recovery)| recovery.lost_objects));
        Ok(())
    }

    /// Marks what running imports have staged.
    fn mark_imports(&self, marks: &mut NamedObjects) -> Result<(), CollectError> {
        let dir = self.store.imports_dir();
        let names = match self.store.storage().list(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            names => names.map_err(storage_error("list", &dir))?,
        };
        for name in names.iter().filter(|name| !name.ends_with(".lock")) {
            self.mark_bytes(&dir.join(name), marks)?;
        }
        Ok(())
    }

    fn mark_bytes(&self, dir: &Path, marks: &mut NamedObjects) -> Result<(), CollectError> {
        let journal = Journal::new(self.store.storage().clone(), dir.to_owned());
        for name in journal.segments().map_err(store_error)? {
            let segment = journal.open_segment(name).map_err(store_error)?;
            let scanned = SegmentScan::new(&segment).chunks(0, &mut |_, raw, _| {
                marks.named.extend(object_names_in(raw));
                Ok(ControlFlow::Continue(()))
            });
            scanned.map_err(store_error)?;
        }
        Ok(())
    }

    pub(crate) fn wait_for_objects(
        &self,
        wait: Duration,
    ) -> Result<Box<dyn StorageLock>, CollectError> {
        let until = Instant::now() + wait;
        loop {
            match self.lock_objects() {
                Err(CollectError::Busy) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                locked => return locked,
            }
        }
    }
}
