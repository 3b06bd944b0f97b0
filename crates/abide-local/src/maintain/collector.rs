//! Garbage collection: finds the objects that something still names, and removes the others.
//!
//! The lock is taken before the first journal is read, so nobody stores an object meanwhile.
//! Whatever looks like the name of an object counts as one, in any kind of event. If a journal or a
//! snapshot cannot be read completely, it is unknown what it names, and nothing is removed. A
//! snapshot that is in no pack, after a thorough search, names nothing: this covers sessions
//! imported without their files, and made-up hashes. The same holds for an object that cannot be
//! read and that a repair has named as lost.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use abide_journal::{
    CollectionSummary, Journal, JournalIdentity, JournalItem, JournalLine, JournalWalkStart, Packs,
    SegmentScan, StorageLock,
};
use abide_model::{Fact, Kind, ObjectHash, Recovery, Seq, SessionId, StoreError};
use abide_workspace::{Reach, ReachError, Snapshot};

use crate::error::{storage_error, store_error};
use crate::maintain::doctor::note_recovery;
use crate::maintain::named_snapshots::NamedSnapshots;
use crate::sessions::local_store::LocalStore;
use crate::store_layout::layout_path_text;

/// Why nothing was collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// Another process is storing objects.
    #[error("a writer is storing objects")]
    Busy,
    /// It is unknown which objects a journal names.
    #[error(
        "{place} cannot be read completely ({reason}), so it is unknown which objects it names"
    )]
    Unreadable {
        /// The journal.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It is unknown which objects a snapshot leads to.
    #[error("{reason}; {place} names it")]
    Snapshot {
        /// The event that names it.
        place: String,
        /// What is wrong with it.
        reason: ReachError,
    },
    /// Objects to remove are in damaged packs, whose unreadable parts may hold objects that are
    /// needed.
    #[error(
        "{objects} objects to remove are in damaged packs, which may hold objects that are needed"
    )]
    DamagedPacks {
        /// How many objects could not be removed.
        objects: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Sessions and checkpoints that are treated as already removed.
#[derive(Debug, Default)]
pub(crate) struct AssumedRemovals {
    pub(crate) sessions: HashSet<SessionId>,
    pub(crate) checkpoints: HashMap<SessionId, BTreeSet<u64>>,
}

/// The objects of a store that are named.
#[derive(Debug, Default)]
struct CollectorKeepSet {
    /// Every name that was found.
    named: HashSet<ObjectHash>,
    /// Those of payloads: strings, which name nothing.
    payloads: HashSet<ObjectHash>,
    /// Snapshots, which must be readable, and an event that names each.
    snapshots: HashMap<ObjectHash, (SessionId, Seq)>,
    /// What repairs have named as lost.
    lost: HashSet<ObjectHash>,
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
    pub(crate) fn unnamed_objects(
        &self,
        grace: Duration,
    ) -> Result<CollectionSummary, CollectError> {
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
        let mut marks = CollectorKeepSet::default();
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
        self.all_reached(marks, notes)
    }

    fn mark_session(
        &self,
        session: SessionId,
        thinned: &BTreeSet<u64>,
        marks: &mut CollectorKeepSet,
    ) -> Result<(), CollectError> {
        let reader = self.store.reader(session)?;
        let mark = reader.mark().map_err(store_error)?;
        let mut snapshots = NamedSnapshots::of(&reader).map_err(store_error)?.without(thinned);
        let mut damage = None;
        let mut recoveries = Vec::new();
        reader
            .journal()
            .walk(JournalWalkStart::beginning(), mark, &mut |found| {
                match found {
                    JournalItem::Event { line, .. } => {
                        marks.line(&line, &mut snapshots);
                        if let Some(recovery) = collected_recovery(&line) {
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
        for named in snapshots.staying() {
            let by = (session, named.seq);
            marks.snapshots.extend(named.snapshots.iter().map(|snapshot| (*snapshot, by)));
        }
        marks.lost.extend(recoveries.into_iter().flat_map(|(_, recovery)| recovery.lost_objects));
        Ok(())
    }

    /// Marks what running imports have staged.
    fn mark_imports(&self, marks: &mut CollectorKeepSet) -> Result<(), CollectError> {
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

    fn mark_bytes(&self, dir: &Path, marks: &mut CollectorKeepSet) -> Result<(), CollectError> {
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

    /// All objects reachable from the names.
    fn all_reached(
        &self,
        marks: CollectorKeepSet,
        notes: &mut Vec<String>,
    ) -> Result<HashSet<ObjectHash>, CollectError> {
        let read = |hash| self.store.packs().read(hash).map_err(store_error);
        let mut reach = Reach::with_lost(marks.lost);
        let mut nowhere = 0_u64;
        let snapshots: Vec<ObjectHash> = marks.snapshots.keys().copied().collect();
        // A separate instance: one that has searched thoroughly no longer knows objects that exist
        // and are damaged.
        let packs = Packs::new(self.store.storage().clone(), self.store.layout().objects());
        let places = packs.places(&snapshots).map_err(store_error)?;
        for (snapshot, place) in snapshots.iter().zip(places) {
            if place.is_none() && read(*snapshot)?.is_none() {
                nowhere += 1;
            } else {
                let by = marks.snapshots.get(snapshot).copied();
                reach.add(&read, *snapshot).map_err(|error| collect_unreached(error, by))?;
            }
        }
        if nowhere > 0 {
            notes.push(format!(
                "{nowhere} snapshots named by checkpoints or rewinds are not in this store"
            ));
        }
        // Other kinds of events may also name snapshots.
        let others: Vec<ObjectHash> = marks.named.difference(&marks.payloads).copied().collect();
        let places = self.store.packs().places(&others).map_err(store_error)?;
        for (hash, _) in others.iter().zip(places).filter(|(_, place)| place.is_some()) {
            let bytes = read(*hash)?.unwrap_or_default();
            if bytes.starts_with(b"{") && Snapshot::read(&bytes).is_ok() {
                reach.add(&read, *hash).map_err(|error| collect_unreached(error, None))?;
            }
        }
        reach.objects.extend(marks.named);
        reach.objects.extend(marks.payloads);
        reach.objects.extend(marks.snapshots.into_keys());
        Ok(reach.objects)
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

impl CollectorKeepSet {
    /// Adds the names of a line. Whether the snapshots of a checkpoint or a rewind count is known
    /// only at the end.
    fn line(&mut self, line: &JournalLine<'_>, snapshots: &mut NamedSnapshots) {
        self.payloads.extend(line.objects().into_iter().map(|object| object.hash));
        let conditional = snapshots.line(line);
        let others = object_names_in(line.bytes()).filter(|name| !conditional.contains(name));
        self.named.extend(others);
    }
}

/// The recovery that a line records.
fn collected_recovery(line: &JournalLine<'_>) -> Option<Recovery> {
    line.head().filter(|head| head.kind == Kind::RECOVERY_PERFORMED)?;
    match line.event()?.fact() {
        Ok(Fact::Recovery(recovery)) => Some(recovery),
        _ => None,
    }
}

/// The error for a snapshot whose objects are unknown.
fn collect_unreached(reason: ReachError, by: Option<(SessionId, Seq)>) -> CollectError {
    let place = match by {
        Some((session, seq)) => {
            format!("event @{seq} of session {}", session.short(SessionId::SHORT))
        }
        None => "an event".to_owned(),
    };
    match reason {
        ReachError::Store(error) => CollectError::Store(error),
        reason => CollectError::Snapshot { place, reason },
    }
}

/// Every run of exactly 64 hexadecimal digits.
pub(crate) fn object_names_in(bytes: &[u8]) -> impl Iterator<Item = ObjectHash> + '_ {
    bytes
        .split(|byte| !byte.is_ascii_hexdigit())
        .filter(|run| run.len() == 64)
        .filter_map(|run| std::str::from_utf8(run).ok()?.to_ascii_lowercase().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_wherever_they_stand() {
        let (one, two) = (ObjectHash::of(b"1"), ObjectHash::of(b"2"));
        let upper = two.to_string().to_uppercase();
        let text =
            format!(r#"{{"a":"{one}","b":"x {upper}.","c":"{one}0","d":"{}"}}"#, "ab".repeat(31));
        assert_eq!(object_names_in(text.as_bytes()).collect::<Vec<_>>(), [one, two]);
    }
}
