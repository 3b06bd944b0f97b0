//! Erases payloads: a secret is removed from the journal, the objects, the index, the state and the
//! transcript. The chain stays valid: the line keeps its head and its sums.
//!
//! 1. Damage is found before anything is written.
//! 2. What is to be erased is recorded in `erased` for good, so that no import brings it back.
//! 3. It is recorded in `erasing`, so that the next erasure finishes one that was
//!    interrupted. One that cannot be finished stays recorded and blocks no other.
//! 4. Everything derived is dropped before the journal is changed.
//! 5. Each segment is rewritten beside the old one and replaces it atomically.
//! 6. Every object that nothing names any more is removed from the packs, whatever named it before.
//!
//! What is left of removed sessions and of interrupted imports is deleted too.

pub(crate) mod erase_plan;
pub(crate) mod erased_record;
mod pending;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use abide_journal::{
    Access, Journal, JournalIdentity, JournalItem, JournalLine, JournalWalkStart, LinePayload,
    LockMode, Segment, SegmentForm, SegmentName, Storage, StorageLock, Sum, write_full,
};
use abide_maintain::{
    CollectError, EraseError, EraseOutcome, ErasePlan, Leftovers, PendingErasure, object_names_in,
    reached_from,
};
use abide_model::{Erasure, Kind, ObjectHash, Seq, SessionId, StoreError};

use crate::error::{storage_error, store_error};
use crate::maintain::collector::AssumedRemovals;
use crate::maintain::doctor::Quarantine;
use crate::maintain::import::import_stage::clear_import_stage;
use crate::sessions::local_store::LocalStore;
use crate::sessions::session_finder::find_project_for_session;
use crate::store_layout::{SessionLayout, layout_path_text};

/// The most events listed that name objects which stay.
const MOST_NAMED: usize = 10;

/// The result of finishing interrupted erasures.
#[derive(Debug, Default)]
struct FinishedErasures {
    /// How many were finished.
    count: u64,
    /// All of them together, with notes on the others.
    erased: EraseOutcome,
}

/// The lines of a segment to erase: start, end, and replacement of each.
type Replacements = BTreeMap<u64, Vec<(u64, u64, Vec<u8>)>>;

/// What a journal has of the lines that a plan names.
#[derive(Debug, Default)]
struct FoundLines {
    /// Those that are not erased yet.
    replacements: Replacements,
    /// The sums of all of them.
    sums: Vec<(Seq, Sum)>,
}

/// Erases payloads and files from a store.
#[derive(Debug)]
pub struct Eraser<'a> {
    pub(crate) store: &'a LocalStore,
}

impl Eraser<'_> {
    /// Applies an erasure. Waits this long for writers to close. An interrupted erasure is finished
    /// first.
    pub fn apply(
        &self,
        plan: &ErasePlan,
        reason: Option<&str>,
        wait: Duration,
    ) -> Result<EraseOutcome, EraseError> {
        let _lock = self.store.cleaner().hold_cleanup()?;
        let mut notes = self.clear_left()?.notes;
        notes.extend(self.finish_pending(wait)?.erased.notes);
        let mut erased = self.erase(plan, &PendingErasure::of(plan, reason), wait)?;
        erased.notes.extend(notes);
        Ok(erased)
    }

    /// Deletes what was left of removed sessions and of interrupted imports.
    pub fn clear_leftovers(&self) -> Result<Leftovers, StoreError> {
        let _lock = self.store.cleaner().hold_cleanup()?;
        self.clear_left()
    }

    fn clear_left(&self) -> Result<Leftovers, StoreError> {
        let mut notes = Vec::new();
        let sessions = self.store.remover().delete_leftovers()?;
        let imports = self.store.importer().clear_imports(&mut notes)?;
        Ok(Leftovers { sessions, imports, notes })
    }

    /// Removes every object that nothing names from the packs, and what repairs of the store's own
    /// files have kept, which may include packs. Waits this long for processes that store objects.
    pub fn erase_unnamed(&self, wait: Duration) -> Result<EraseOutcome, EraseError> {
        let _cleanup = self.store.cleaner().hold_cleanup()?;
        let _lock = self.store.collector().wait_for_objects(wait).map_err(EraseError::NotBegun)?;
        let mut done = EraseOutcome::default();
        let live =
            self.store.collector().live_objects(&AssumedRemovals::default(), &mut done.notes);
        let live = live.map_err(EraseError::NotBegun)?;
        // The copies first: once the objects are gone, nothing shows that copies are left.
        Quarantine::new(self.store).clear(&[], &mut done.notes)?;
        let purged = self.purge_all_but(&live, &mut done.notes);
        done.objects = purged.map_err(EraseError::Unnamed)?;
        Ok(done)
    }

    /// Finishes interrupted erasures; `None` if none could be finished. Those that cannot be
    /// finished stay recorded.
    pub fn finish(&self, wait: Duration) -> Result<Option<EraseOutcome>, EraseError> {
        if self.read_pending()?.is_empty() {
            return Ok(None);
        }
        let _lock = self.store.cleaner().hold_cleanup()?;
        let finished = self.finish_pending(wait)?;
        Ok((finished.count > 0).then_some(finished.erased))
    }

    fn finish_pending(&self, wait: Duration) -> Result<FinishedErasures, StoreError> {
        let mut finished = FinishedErasures::default();
        for unfinished in self.read_pending()? {
            let erased = match self.plan(unfinished.session, &unfinished.events) {
                Ok(plan) => {
                    let plan = ErasePlan { rewinds: unfinished.rewinds.clone(), ..plan };
                    self.erase(&plan, &unfinished, wait)
                }
                Err(EraseError::Store(StoreError::NoSession { .. })) => {
                    self.erase_removed(&unfinished, wait)
                }
                Err(error) => Err(error),
            };
            let done = &mut finished.erased;
            match erased {
                Ok(erased) => {
                    finished.count += 1;
                    done.payloads += erased.payloads;
                    done.objects += erased.objects;
                    done.shared.extend(erased.shared);
                    done.notes.extend(erased.notes);
                }
                Err(error) => done.notes.push(unfinished.note(&error)),
            }
        }
        Ok(finished)
    }

    /// Finishes an erasure whose session was removed meanwhile: its objects and what repairs kept
    /// remain.
    fn erase_removed(
        &self,
        unfinished: &PendingErasure,
        wait: Duration,
    ) -> Result<EraseOutcome, EraseError> {
        let mut done = EraseOutcome::default();
        if unfinished.has_objects() {
            let _lock =
                self.store.collector().wait_for_objects(wait).map_err(EraseError::NotBegun)?;
            done.objects = self.purge(&mut done.notes).map_err(EraseError::Objects)?;
        }
        Quarantine::new(self.store).clear(&[unfinished.session], &mut done.notes)?;
        self.forget_pending(unfinished)?;
        Ok(done)
    }

    fn erase(
        &self,
        plan: &ErasePlan,
        unfinished: &PendingErasure,
        wait: Duration,
    ) -> Result<EraseOutcome, EraseError> {
        let collection = unfinished
            .has_objects()
            .then(|| self.store.collector().wait_for_objects(wait).map_err(EraseError::NotBegun))
            .transpose()?;
        let layout = self.store.layout_of(plan.session)?;
        let lock = self.store.lock_session(plan.session, &layout, wait)?;
        let mut locks = Vec::new();
        let mut derived = vec![(plan.session, layout.clone())];
        // A fork may have been created since the plan; from here on none is.
        for fork in self.store.forker().descendants_of(plan.session)? {
            let layout = self.store.layout_of(fork)?;
            locks.push(self.store.lock_session(fork, &layout, wait)?);
            derived.push((fork, layout));
        }
        let found = self.find_lines(plan, &layout)?;
        // First: an erasure that is pending may be finished after its session was removed.
        self.record_erased(plan.session, &found.sums)?;
        self.add_pending(unfinished)?;
        if plan.lines.iter().any(|line| line.kind == Kind::SESSION_CREATED) {
            self.keep_project(plan.session, &layout)?;
        }
        let index = self.store.index().remove()?;
        let mut transcripts = Vec::new();
        for (_, layout) in &derived {
            transcripts.push(self.drop_derived(layout, wait)?);
        }
        let mut done = EraseOutcome::default();
        let sessions: Vec<SessionId> = derived.iter().map(|(session, _)| *session).collect();
        Quarantine::new(self.store).clear(&sessions, &mut done.notes)?;
        done.payloads = self.rewrite(&found.replacements, &layout)?;
        drop((index, transcripts, locks));
        self.note_erased(plan, unfinished.reason.as_deref(), &layout, lock)?;
        if let Some(_lock) = collection {
            self.erase_objects(&unfinished.objects, &mut done).map_err(EraseError::Objects)?;
        }
        self.forget_pending(unfinished)?;
        for session in sessions {
            // Best effort: both can be rebuilt later.
            let _ = self.store.update_transcript(session);
        }
        if self.store.config().journal.seal {
            let _ = self.store.seal(plan.session, Duration::ZERO);
        }
        Ok(done)
    }

    /// Records the project of a session whose first event is to be erased. The id reveals nothing
    /// else.
    fn keep_project(&self, session: SessionId, layout: &SessionLayout) -> Result<(), StoreError> {
        let Some(project) = self.store.finder().project_of(session)? else { return Ok(()) };
        find_project_for_session(&**self.store.storage(), layout, Some(&project))?;
        self.store.storage().sync_dir(&layout.dir).map_err(storage_error("sync", &layout.dir))
    }

    /// Removes what nothing names any more, and counts how many of these objects, and of the files
    /// of snapshots among them, were removed.
    fn erase_objects(
        &self,
        objects: &[ObjectHash],
        done: &mut EraseOutcome,
    ) -> Result<(), CollectError> {
        let named: HashSet<ObjectHash> = objects.iter().copied().collect();
        let reached = self.reached_from(&named)?;
        self.purge(&mut done.notes)?;
        let places = self.store.packs().places(&reached).map_err(store_error)?;
        for (hash, place) in reached.iter().zip(places) {
            match place {
                None => done.objects += 1,
                Some(_) if named.contains(hash) => done.shared.push(*hash),
                Some(_) => done.shared_files += 1,
            }
        }
        done.shared.sort_unstable_by_key(|hash| hash.0);
        if !done.shared.is_empty() {
            done.named_by = self.names_of(&done.shared)?;
        }
        Ok(())
    }

    /// Removes every object that nothing names from the packs. The journals are read again, so that
    /// whatever an event names stays. The caller must hold the collection lock. Returns how many.
    fn purge(&self, notes: &mut Vec<String>) -> Result<u64, CollectError> {
        let live = self.store.collector().live_objects(&AssumedRemovals::default(), notes)?;
        self.purge_all_but(&live, notes)
    }

    fn purge_all_but(
        &self,
        live: &HashSet<ObjectHash>,
        notes: &mut Vec<String>,
    ) -> Result<u64, CollectError> {
        self.store.collector().forget_workspaces()?;
        let purged = self.store.packs().purge(live).map_err(store_error)?;
        if purged.objects_left > 0 {
            return Err(CollectError::DamagedPacks { objects: purged.objects_left });
        }
        if purged.packs_damaged > 0 {
            notes.push(format!(
                "{} packs are damaged, and what stood in the damaged parts is not erased; \
                 `abide doctor --repair` takes out what is whole, and the next `abide erase` the rest",
                purged.packs_damaged
            ));
        }
        Ok(purged.objects_removed)
    }

    /// These objects and the files of the snapshots among them, as far as they are in the packs.
    fn reached_from(&self, objects: &HashSet<ObjectHash>) -> Result<Vec<ObjectHash>, StoreError> {
        let packs = self.store.packs();
        let read = |hash| packs.read(hash).map_err(store_error);
        let all: Vec<ObjectHash> = reached_from(objects, &read)?.into_iter().collect();
        let places = packs.places(&all).map_err(store_error)?;
        let there = all.into_iter().zip(places).filter(|(_, place)| place.is_some());
        Ok(there.map(|(hash, _)| hash).collect())
    }

    /// The first events that name one of these objects.
    fn names_of(&self, objects: &[ObjectHash]) -> Result<Vec<(SessionId, Seq)>, StoreError> {
        let mut names = Vec::new();
        for name in self.store.names()? {
            let layout = self.store.layout().session(&name);
            let JournalIdentity::Known(id) = self.store.identify(&layout).map_err(store_error)?
            else {
                continue;
            };
            let reader = self.store.reader_at(id, &layout);
            let mark = reader.mark().map_err(store_error)?;
            let walked = reader.journal().walk(JournalWalkStart::beginning(), mark, &mut |found| {
                if let JournalItem::Event { line, .. } = found
                    && object_names_in(line.bytes()).any(|name| objects.contains(&name))
                {
                    names.push((id, line.seq));
                }
                match names.len() {
                    MOST_NAMED => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
            walked.map_err(store_error)?;
            if names.len() == MOST_NAMED {
                break;
            }
        }
        Ok(names)
    }

    /// Removes a session's state caches and transcript, under its lock. Until the returned value is
    /// dropped nobody writes the transcript again; otherwise any reader of the session would.
    fn drop_derived(
        &self,
        layout: &SessionLayout,
        wait: Duration,
    ) -> Result<Option<Box<dyn StorageLock>>, StoreError> {
        let storage = &**self.store.storage();
        clear_import_stage(storage, &layout.state())?;
        let path = layout.transcript();
        if !self.store.keeps_transcripts() && !exists(storage, &path)? {
            return Ok(None);
        }
        let until = Instant::now() + wait;
        let lock = loop {
            let lock = storage.lock(&path, LockMode::Exclusive);
            match lock.map_err(storage_error("lock", &path))? {
                Some(lock) => break lock,
                None if Instant::now() >= until => {
                    let busy = std::io::Error::from(std::io::ErrorKind::WouldBlock);
                    return Err(storage_error("lock", &path)(busy));
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let file = storage.open(&path, Access::Create).map_err(storage_error("open", &path))?;
        let cut = file.truncate(0).and_then(|()| file.sync());
        cut.map_err(storage_error("cut", &path))?;
        if !self.store.keeps_transcripts() {
            // Nobody writes it again.
            storage.remove(&path).map_err(storage_error("remove", &path))?;
        }
        Ok(Some(lock))
    }

    /// The lines of a plan. An error if the journal is damaged.
    fn find_lines(
        &self,
        plan: &ErasePlan,
        layout: &SessionLayout,
    ) -> Result<FoundLines, EraseError> {
        let journal = Journal::new(self.store.storage().clone(), layout.journal());
        let wanted: BTreeSet<Seq> = plan.lines.iter().map(|line| line.seq).collect();
        let mut found_lines = FoundLines::default();
        let FoundLines { replacements, sums } = &mut found_lines;
        let mark = self.store.reader(plan.session)?.mark().map_err(store_error)?;
        let mut damage = None;
        let walked = journal.walk(JournalWalkStart::beginning(), mark, &mut |found| {
            match found {
                JournalItem::Event { line, segment, offset, end, ended } => {
                    if !wanted.contains(&line.seq) {
                        return ControlFlow::Continue(());
                    }
                    sums.push((line.seq, line.sum));
                    if !matches!(line.body(), LinePayload::Erased { .. }) {
                        let new = erased_line(&line, ended);
                        replacements.entry(segment).or_default().push((offset, end, new));
                    }
                }
                JournalItem::Damage(found) => damage = Some(found),
                JournalItem::Torn { .. } | JournalItem::Splice { .. } => {}
            }
            ControlFlow::Continue(())
        });
        walked.map_err(store_error)?;
        if let Some(damage) = damage {
            let place = format!("{} at byte {}", layout_path_text(&damage.path), damage.offset);
            return Err(EraseError::Damaged { place, reason: damage.reason.to_string() });
        }
        for name in journal.segments().map_err(store_error)? {
            if let Some(lines) = found_lines.replacements.get(&name.number) {
                splice_erased_lines(&journal.open_segment(name).map_err(store_error)?, lines)?;
            }
        }
        Ok(found_lines)
    }

    /// Rewrites the segments that hold the lines. Returns how many lines were erased.
    fn rewrite(
        &self,
        replacements: &Replacements,
        layout: &SessionLayout,
    ) -> Result<u64, EraseError> {
        let storage = &**self.store.storage();
        let dir = layout.journal();
        let journal = Journal::new(self.store.storage().clone(), dir.clone());
        remove_erase_remains(storage, &dir)?;
        let mut erased = 0;
        for name in journal.segments().map_err(store_error)? {
            let Some(lines) = replacements.get(&name.number) else { continue };
            let segment = journal.open_segment(name).map_err(store_error)?;
            let bytes = splice_erased_lines(&segment, lines)?;
            put_erased_in_place(storage, &dir, name, &bytes)?;
            erased += lines.len() as u64;
        }
        Ok(erased)
    }

    /// Records in the journal what was erased, except what is already recorded.
    fn note_erased(
        &self,
        plan: &ErasePlan,
        reason: Option<&str>,
        layout: &SessionLayout,
        lock: Box<dyn StorageLock>,
    ) -> Result<(), StoreError> {
        let mut noted: BTreeSet<(Seq, bool)> = BTreeSet::new();
        let reader = self.store.reader(plan.session)?;
        let mark = reader.mark().map_err(store_error)?;
        let walked = reader.journal().walk(JournalWalkStart::beginning(), mark, &mut |found| {
            if let JournalItem::Event { line, .. } = found
                && line.head().is_some_and(|head| head.kind == Kind::PAYLOAD_ERASED)
                && let Some(Ok(abide_model::Fact::Erasure(erasure))) =
                    line.event().map(|event| event.fact())
            {
                noted.insert((erasure.seq, erasure.files));
            }
            ControlFlow::Continue(())
        });
        walked.map_err(store_error)?;
        let payloads = plan.lines.iter().map(|line| (line.seq, false));
        let files = plan.rewinds.iter().map(|seq| (*seq, true));
        let erasures: Vec<Erasure> = payloads
            .chain(files)
            .filter(|erasure| !noted.contains(erasure))
            .map(|(seq, files)| Erasure { seq, files, reason: reason.map(str::to_owned) })
            .collect();
        if erasures.is_empty() {
            return Ok(());
        }
        let writer = self.store.writer_with(plan.session, layout, lock)?;
        writer.note_erased(&erasures)
    }
}

fn erased_line(line: &JournalLine<'_>, ended: bool) -> Vec<u8> {
    let mut bytes = line.erased();
    if !ended {
        bytes.pop();
    }
    bytes
}

fn exists(storage: &dyn Storage, path: &Path) -> Result<bool, StoreError> {
    match storage.open(path, Access::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(storage_error("open", path)(error)),
    }
}

/// The bytes of a segment with some of its lines replaced.
fn splice_erased_lines(
    segment: &Segment,
    lines: &[(u64, u64, Vec<u8>)],
) -> Result<Vec<u8>, EraseError> {
    let len = usize::try_from(segment.len().map_err(store_error)?).unwrap_or(usize::MAX);
    let mut old = vec![0; len];
    let mut read = 0;
    while let Some(rest) = old.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match segment.read_at(rest, read as u64).map_err(store_error)? {
            0 => break,
            more => read += more,
        }
    }
    old.truncate(read);
    if let Some(reason) = segment.seal_damage() {
        return Err(EraseError::Damaged { place: layout_path_text(segment.path()), reason });
    }
    let mut new = Vec::with_capacity(old.len());
    let mut at = 0;
    let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    for (start, end, line) in lines {
        new.extend_from_slice(old.get(at..place(*start)).unwrap_or_default());
        new.extend_from_slice(line);
        at = place(*end);
    }
    new.extend_from_slice(old.get(at..).unwrap_or_default());
    Ok(new)
}

/// Replaces a segment by its new bytes, atomically. It is plain from then on.
fn put_erased_in_place(
    storage: &dyn Storage,
    dir: &Path,
    name: SegmentName,
    bytes: &[u8],
) -> Result<(), StoreError> {
    let plain = SegmentName { form: SegmentForm::Plain, ..name };
    let to = dir.join(plain.file_name());
    let temporary = dir.join(format!("{}.tmp", plain.file_name()));
    let file =
        storage.open(&temporary, Access::CreateNew).map_err(storage_error("create", &temporary))?;
    let written = write_full(&*file, bytes, 0).and_then(|()| file.sync());
    written.map_err(storage_error("write", &temporary))?;
    storage.rename(&temporary, &to).map_err(storage_error("rename", &temporary))?;
    storage.sync_dir(dir).map_err(storage_error("sync", dir))?;
    remove_erase_remains(storage, dir)
}

/// Removes what may still hold a payload that the journal does not: sealed segments whose plain
/// form exists and takes precedence, and temporary files of an interrupted sealing or erasure.
fn remove_erase_remains(storage: &dyn Storage, dir: &Path) -> Result<(), StoreError> {
    let names = storage.list(dir).map_err(storage_error("list", dir))?;
    let mut removed = false;
    for name in &names {
        let twin = SegmentName::parse(name).is_some_and(|sealed| {
            let plain = SegmentName { form: SegmentForm::Plain, ..sealed };
            sealed.form == SegmentForm::Sealed && names.contains(&plain.file_name())
        });
        let cut_short = name.ends_with(".jsonl.tmp") || name.ends_with(".jsonl.zst.tmp");
        if twin || cut_short {
            let path = dir.join(name);
            storage.remove(&path).map_err(storage_error("remove", &path))?;
            removed = true;
        }
    }
    if removed {
        storage.sync_dir(dir).map_err(storage_error("sync", dir))?;
    }
    Ok(())
}
