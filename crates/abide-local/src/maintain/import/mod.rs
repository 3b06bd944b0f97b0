//! Imports a bundle.
//!
//! Everything is read and checked before any of it becomes visible. A new session appears with the
//! rename of one directory. An existing, shorter session grows by whole segments, each durable
//! before the next. So a crash leaves a new session absent or complete, and an existing one
//! somewhere between its old and its new end.

mod erased_lines;
pub(crate) mod import_stage;

use std::io::Read;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use abide_journal::{
    AcknowledgedEnd, BundleHeader, BundleParent, BundleReader, BundleRecord, ImportError,
    ImportOutcome, ImportedBundle, JOURNAL_VERSION, Journal, JournalEnd, JournalIdentity,
    JournalItem, JournalLine, JournalWalkStart, LinePayload, LockMode, SegmentForm, SegmentName,
    StorageLock, Sum, Watermark,
};
use abide_model::{Fact, Kind, ObjectHash, ReadFinding, Seq, SessionFields, SessionId, StoreError};

use crate::derived::changed_sessions::ChangedMark;
use crate::error::{storage_error, store_error};
use crate::maintain::collector::AssumedRemovals;
use crate::maintain::import::erased_lines::ErasedLines;
use crate::maintain::import::import_stage::{ImportStage, clear_import_stage};
use crate::maintain::session_remover::delete_for_removal;
use crate::sessions::keys::{Keys, SessionKey};
use crate::sessions::local_reader::note_of;
use crate::sessions::local_store::{LocalStore, Upkeep};
use crate::sessions::recovery;
use crate::sessions::sealer::{SealScope, Sealing};
use crate::sessions::session_ancestry::MissingParentPolicy;
use crate::sessions::session_finder::find_project_for_session;
use crate::sessions::settle::settle_session;
use crate::store_layout::{SessionLayout, layout_path_text};

/// Imports bundles into a store.
#[derive(Debug)]
pub struct Importer<'a> {
    pub(crate) store: &'a LocalStore,
}

impl Importer<'_> {
    /// Imports the session of a bundle. When it returns `Ok`, the result is durable. If an existing
    /// session grows, waits this long for another writer.
    pub fn import<R: Read>(
        &self,
        bundle: BundleReader<R>,
        wait: Duration,
    ) -> Result<ImportedBundle, ImportError> {
        self.import_of(bundle, None, wait)
    }

    /// As [`Importer::import`]. A new session that names no project is assigned to this
    /// one, else to the one that the store was opened for.
    pub fn import_of<R: Read>(
        &self,
        bundle: BundleReader<R>,
        project: Option<&str>,
        wait: Duration,
    ) -> Result<ImportedBundle, ImportError> {
        let mut erased = ErasedLines::of(self.store, &bundle)?;
        let imported = self.import_but(bundle, project, wait, &mut erased)?;
        erased.forget(self.store);
        Ok(erased.told(imported))
    }

    /// Imports a bundle but for what was erased here.
    fn import_but<R: Read>(
        &self,
        mut bundle: BundleReader<R>,
        project: Option<&str>,
        wait: Duration,
        erased: &mut ErasedLines,
    ) -> Result<ImportedBundle, ImportError> {
        let id = bundle.header().session;
        if !self.store.is_made(id)? {
            let parent = bundle.header().parent;
            let _parents_stay =
                parent.is_some().then(|| self.store.cleaner().keep_sessions()).transpose()?;
            self.check_parent(bundle.header())?;
            if let Some(parent) = parent {
                self.store.forker().durable_place(parent.session, Some(parent.seq))?;
            }
            self.check_room(bundle.left())?;
            let stage = self.stage(id, (JOURNAL_VERSION, before_import(bundle.header())), wait)?;
            // Another import may have been first.
            if !self.store.is_made(id)? {
                return self.import_new(bundle, project, stage, erased);
            }
        }
        let layout = self.store.layout_of(id)?;
        let (here, durable) = self.reach(id)?;
        let events = bundle.header().last();
        if events > here {
            let lock = self.store.lock_session(id, &layout, wait)?;
            return self.forward(bundle, &layout, (lock, wait), erased);
        }
        let mut compared = self.compare(&mut bundle, id, None)?;
        let outcome = read_rest_of_import(&mut bundle, &compared)?;
        if matches!(outcome, ImportOutcome::Forwarded { .. }) {
            return Err(import_end_moved(&layout).into());
        }
        self.find_unerased_files(id, &mut compared)?;
        // It may come from a recent import whose last sync failed.
        if events == here
            && durable < here
            && let Ok(lock) = self.store.lock_session(id, &layout, Duration::ZERO)
        {
            settle_session(self.store, id, &layout, lock)?;
        }
        Ok(compared.imported(&bundle, outcome))
    }

    /// Reads a bundle to its end and reports what an import would do. Writes nothing.
    pub fn check<R: Read>(&self, bundle: BundleReader<R>) -> Result<ImportedBundle, ImportError> {
        self.check_of(bundle, None)
    }

    /// The same for [`Importer::import_of`].
    pub fn check_of<R: Read>(
        &self,
        mut bundle: BundleReader<R>,
        project: Option<&str>,
    ) -> Result<ImportedBundle, ImportError> {
        let id = bundle.header().session;
        if self.store.is_made(id)? {
            let mut compared = self.compare(&mut bundle, id, None)?;
            let outcome = read_rest_of_import(&mut bundle, &compared)?;
            self.find_unerased_files(id, &mut compared)?;
            return Ok(compared.imported(&bundle, outcome));
        }
        self.check_parent(bundle.header())?;
        let before = bundle.header().before().0;
        let mut erased = ErasedLines::of(self.store, &bundle)?;
        while let Some(found) = bundle.next()? {
            if let BundleRecord::Line(line) = found {
                let is_first = line.seq == before.next();
                let project = is_first.then(|| project_of_line(&line, project)).flatten();
                let line = erased.leave_out(line)?;
                if is_first {
                    self.check_key(&line, id, project.as_deref())?;
                }
            }
        }
        Ok(erased.told(ImportedBundle::made(bundle.header().clone())))
    }

    fn import_new<R: Read>(
        &self,
        mut bundle: BundleReader<R>,
        project: Option<&str>,
        mut stage: ImportStage,
        erased: &mut ErasedLines,
    ) -> Result<ImportedBundle, ImportError> {
        let id = bundle.header().session;
        let mut beginning = ImportIdentity::default();
        let before = bundle.header().before().0;
        while let Some(found) = bundle.next()? {
            match found {
                BundleRecord::Object { hash, bytes } => stage.object(hash, bytes)?,
                BundleRecord::Line(line) => {
                    // The project is known also where the first event is erased.
                    let is_first = line.seq == before.next();
                    let project = is_first.then(|| project_of_line(&line, project)).flatten();
                    let line = erased.leave_out(line)?;
                    if is_first {
                        beginning = self.check_key(&line, id, project.as_deref())?;
                    }
                    stage.line(&line)?;
                }
            }
        }
        let end = stage.finish()?;
        self.publish(id, &beginning, &stage, end)?;
        Ok(ImportedBundle::made(bundle.header().clone()))
    }

    /// Makes a staged, complete and durable session visible.
    fn publish(
        &self,
        id: SessionId,
        beginning: &ImportIdentity,
        stage: &ImportStage,
        end: JournalEnd,
    ) -> Result<(), ImportError> {
        let storage = self.store.storage();
        let layout = self.store.free_layout(id)?;
        for dir in [layout.dir.clone(), layout.state()] {
            storage.make_dir(&dir).map_err(storage_error("create", &dir))?;
        }
        let _lock = self.store.lock_session(id, &layout, Duration::from_secs(2))?;
        if self.store.identify(&layout).map_err(store_error)? != JournalIdentity::Empty {
            return Err(StoreError::Damaged {
                place: layout_path_text(&layout.dir),
                reason: "it already has events".to_owned(),
            }
            .into());
        }
        // What a crash left of a session that was never created.
        clear_import_stage(&**storage, &layout.journal())?;
        find_project_for_session(&**storage, &layout, beginning.given.as_deref())?;
        for dir in [layout.dir.clone(), self.store.sessions_dir()] {
            storage.sync_dir(&dir).map_err(storage_error("sync", &dir))?;
        }
        let project = beginning.project.as_str();
        let key = beginning.key.as_deref();
        let keys = key.map(|key| self.take_key(project, key, id)).transpose()?;
        let mut changed = ChangedMark::new(storage, self.store.layout(), &layout.dir);
        changed.before();
        // From here on the session exists.
        storage
            .rename(stage.dir(), &layout.journal())
            .map_err(storage_error("rename", stage.dir()))?;
        changed.after();
        storage.sync_dir(&layout.dir).map_err(storage_error("sync", &layout.dir))?;
        self.mark(&layout, end)?;
        if let (Some(keys), Some(key)) = (keys, key) {
            keys.put(SessionKey { project, key }, id)?;
            keys.set_complete()?;
        }
        self.seal_beside(&layout);
        Ok(())
    }

    /// Appends the events of a bundle that an existing session lacks.
    fn forward<R: Read>(
        &self,
        mut bundle: BundleReader<R>,
        layout: &SessionLayout,
        (lock, wait): (Box<dyn StorageLock>, Duration),
        erased: &mut ErasedLines,
    ) -> Result<ImportedBundle, ImportError> {
        let storage = self.store.storage();
        let id = bundle.header().session;
        let end = self.next_segment(id, layout)?;
        let version = Journal::new(storage.clone(), layout.journal()).version();
        let mut stage = self.stage(id, (version.map_err(store_error)?, end), wait)?;
        // An object of an existing event may be damaged here; the bundle has it.
        let mut compared = self.compare(&mut bundle, id, Some(&mut stage))?;
        if let Some(outcome) = compared.outcome {
            // It grew before the lock was taken, and the bundle has nothing new any more.
            return Ok(compared.imported(&bundle, outcome));
        }
        if compared.last != (end.seq, end.sum) {
            return Err(import_end_moved(layout).into());
        }
        self.check_room(bundle.left())?;
        while let Some(found) = bundle.next()? {
            match found {
                BundleRecord::Object { hash, bytes } => stage.object(hash, bytes)?,
                BundleRecord::Line(line) => {
                    let line = erased.leave_out(line)?;
                    compared.erases_files |= erases_files(&line);
                    stage.line(&line)?;
                }
            }
        }
        let end = stage.finish()?;
        // A segment asserts that everything before it is durable, so make that true first.
        let _appender = settle_session(self.store, id, layout, lock)?;
        let journal = layout.journal();
        let mut changed = ChangedMark::new(storage, self.store.layout(), &layout.dir);
        changed.before();
        for number in stage.segments() {
            let name = SegmentName { number: *number, form: SegmentForm::Plain }.file_name();
            let from = stage.dir().join(&name);
            storage.rename(&from, &journal.join(&name)).map_err(storage_error("rename", &from))?;
            storage.sync_dir(&journal).map_err(storage_error("sync", &journal))?;
        }
        self.mark(layout, end)?;
        changed.after();
        self.seal_beside(layout);
        self.find_unerased_files(id, &mut compared)?;
        let outcome = match compared.last.0 {
            from if from == end.seq => ImportOutcome::Same,
            from => ImportOutcome::Forwarded { from },
        };
        Ok(compared.imported(&bundle, outcome))
    }

    /// Checks that there is room for what a bundle unpacks to.
    fn check_room(&self, needed: u64) -> Result<(), ImportError> {
        let root = self.store.root();
        let free = self.store.storage().free_bytes(root);
        let free = free.map_err(storage_error("see the free space of", root))?;
        if needed > free { Err(ImportError::NoRoom { needed, free }) } else { Ok(()) }
    }

    /// Reads a bundle alongside the existing session, up to the end of either. Objects of the
    /// common events are staged if there is a stage.
    fn compare<R: Read>(
        &self,
        bundle: &mut BundleReader<R>,
        id: SessionId,
        mut stage: Option<&mut ImportStage>,
    ) -> Result<BundleComparison, ImportError> {
        let reader = self.store.reader(id)?;
        let mark = reader.mark().map_err(store_error)?;
        let mut compared = BundleComparison {
            last: bundle.header().before(),
            outcome: None,
            unerased: Vec::new(),
            kept_erased: Vec::new(),
            erases_files: false,
            notes: Vec::new(),
        };
        let mut failed = None;
        let walked = reader.journal().walk(JournalWalkStart::beginning(), mark, &mut |found| {
            let stage = stage.as_deref_mut();
            match self.compare_one(bundle, id, &found, &mut compared, stage) {
                Ok(flow) => flow,
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        walked.map_err(store_error)?;
        failed.map_or(Ok(compared), Err)
    }

    fn compare_one<R: Read>(
        &self,
        bundle: &mut BundleReader<R>,
        id: SessionId,
        found: &JournalItem<'_>,
        compared: &mut BundleComparison,
        mut stage: Option<&mut ImportStage>,
    ) -> Result<ControlFlow<()>, ImportError> {
        compared.notes.extend(note_of(found));
        let line = match found {
            JournalItem::Event { line, .. } => line,
            JournalItem::Damage(damage) if damage.lost.is_some() => {
                return Err(StoreError::Damaged {
                    place: format!("{} at byte {}", layout_path_text(&damage.path), damage.offset),
                    reason: damage.reason.to_string(),
                }
                .into());
            }
            JournalItem::Damage(_) | JournalItem::Torn { .. } | JournalItem::Splice { .. } => {
                return Ok(ControlFlow::Continue(()));
            }
        };
        if let Some(stage) = &mut stage {
            stage.names_of(line);
        }
        match next_import_line(bundle, stage)? {
            Some(theirs) if (theirs.seq, theirs.sum) == (line.seq, line.sum) => {
                compared.last = (theirs.seq, theirs.sum);
                match (theirs.erased, matches!(line.body(), LinePayload::Erased { .. })) {
                    (true, false) => compared.unerased.push(line.seq),
                    (false, true) => compared.kept_erased.push(line.seq),
                    _ => {}
                }
                compared.erases_files |= erases_files(line);
                Ok(ControlFlow::Continue(()))
            }
            Some(theirs) => Err(ImportError::Diverged { session: id, seq: theirs.seq }),
            None => {
                let (here, _) = self.reach(id)?;
                compared.outcome = Some(ImportOutcome::Behind { here });
                Ok(ControlFlow::Break(()))
            }
        }
    }

    /// Finds rewinds whose files the bundle's journal says were erased, and whose files still exist
    /// here though nothing names them.
    fn find_unerased_files(
        &self,
        id: SessionId,
        compared: &mut BundleComparison,
    ) -> Result<(), StoreError> {
        if !compared.erases_files {
            return Ok(());
        }
        let snapshots = self.store.reader(id)?.named_snapshots().map_err(store_error)?;
        let named: Vec<(Seq, ObjectHash)> = snapshots.erased().collect();
        let hashes: Vec<ObjectHash> = named.iter().map(|(_, hash)| *hash).collect();
        let places = self.store.packs().places(&hashes).map_err(store_error)?;
        let mut here: Vec<_> =
            named.iter().zip(places).filter_map(|(named, place)| place.map(|_| named)).collect();
        if !here.is_empty() {
            // If it is unknown what is named, assume that these are not.
            let live = self
                .store
                .collector()
                .live_objects(&AssumedRemovals::default(), &mut Vec::new())
                .unwrap_or_default();
            here.retain(|(_, hash)| !live.contains(hash));
        }
        compared.unerased.extend(here.iter().map(|(seq, _)| *seq));
        compared.unerased.sort_unstable();
        compared.unerased.dedup();
        Ok(())
    }

    /// The last event of the existing session, and the last that is known to be durable.
    fn reach(&self, id: SessionId) -> Result<(Seq, Seq), StoreError> {
        let reader = self.store.reader(id)?;
        let mark = reader.mark().map_err(store_error)?.map_or(Seq::ZERO, |mark| mark.seq);
        Ok((reader.last().map_err(store_error)?, mark))
    }

    /// The end of an existing session, with the number of the last segment that stays.
    fn next_segment(
        &self,
        id: SessionId,
        layout: &SessionLayout,
    ) -> Result<JournalEnd, StoreError> {
        let look = self.look(id, layout)?;
        let last = look.segments.last().map_or(0, |name| name.number);
        // Recovery removes a segment that holds nothing.
        let removed = look.torn.is_some_and(|(torn, offset, _)| torn == last && offset == 0);
        let segment = if removed && last > 1 { last - 1 } else { last };
        Ok(JournalEnd { segment, ..look.end })
    }

    fn look(
        &self,
        id: SessionId,
        layout: &SessionLayout,
    ) -> Result<recovery::RecoveryScan, StoreError> {
        self.store.reader_at(id, layout).look(MissingParentPolicy::PassOver).map_err(store_error)
    }

    /// Writes the watermark.
    fn mark(&self, layout: &SessionLayout, end: JournalEnd) -> Result<(), StoreError> {
        let JournalEnd { segment, offset, seq, sum } = end;
        let watermark = Watermark::open(&**self.store.storage(), &layout.watermark());
        watermark.map_err(store_error)?.write(AcknowledgedEnd { seq, sum, segment, offset });
        Ok(())
    }

    /// Compresses finished segments. A segment that cannot be sealed stays plain.
    fn seal_beside(&self, layout: &SessionLayout) {
        if self.store.upkeep() == Upkeep::Beside && self.store.config().journal.seal {
            let journal = layout.journal();
            let _ = Sealing::of(self.store.storage(), &journal).seal(SealScope::Full);
        }
    }

    /// Deletes what interrupted imports left. Returns how many there were, and notes those that are
    /// running.
    pub(crate) fn clear_imports(&self, notes: &mut Vec<String>) -> Result<u64, StoreError> {
        let (storage, dir) = (&**self.store.storage(), self.store.imports_dir());
        let names = match storage.list(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            names => names.map_err(storage_error("list", &dir))?,
        };
        let mut cleared = 0;
        for name in names.iter().filter(|name| !name.ends_with(".lock")) {
            let lock_path = dir.join(format!("{name}.lock"));
            let lock = storage.lock(&lock_path, LockMode::Exclusive);
            let Some(_lock) = lock.map_err(storage_error("lock", &lock_path))? else {
                notes.push(format!("an import of session {name} is running; its files are kept"));
                continue;
            };
            delete_for_removal(storage, &dir.join(name))?;
            storage.remove(&lock_path).map_err(storage_error("remove", &lock_path))?;
            cleared += 1;
        }
        if cleared > 0 {
            storage.sync_dir(&dir).map_err(storage_error("sync", &dir))?;
        }
        Ok(cleared)
    }

    /// A stage for what follows the end of a journal of this version.
    fn stage(
        &self,
        id: SessionId,
        journal: (u64, JournalEnd),
        wait: Duration,
    ) -> Result<ImportStage, StoreError> {
        let storage = self.store.storage();
        let imports: PathBuf = self.store.imports_dir();
        storage.make_dir(&imports).map_err(storage_error("create", &imports))?;
        let lock_path = imports.join(format!("{id}.lock"));
        let lock = self.store.lock_at(id, &lock_path, wait)?;
        let dir = imports.join(id.to_string());
        let limit = self.store.config().journal.segment_bytes;
        let packs = self.store.packs().clone();
        ImportStage::begin(storage.clone(), id, dir, (lock_path, lock), packs, limit, journal)
    }

    /// Refuses a fork whose parent is not in this store.
    fn check_parent(&self, bundle: &BundleHeader) -> Result<(), ImportError> {
        let Some(BundleParent { session: parent, seq, sum }) = bundle.parent else {
            return Ok(());
        };
        let missing = ImportError::NoParent { session: bundle.session, parent, seq };
        if !self.store.is_made(parent)? {
            return Err(missing);
        }
        let here = self.store.reader(parent)?.sum_in_ancestry(seq).map_err(store_error)?;
        if here != Some(sum) {
            return Err(missing);
        }
        Ok(())
    }

    /// What the first line says of the session: its project, else the given one, else the one that
    /// the store was opened for; and its key, if no other session has it there.
    fn check_key(
        &self,
        line: &JournalLine<'_>,
        id: SessionId,
        told: Option<&str>,
    ) -> Result<ImportIdentity, ImportError> {
        let fields = match line.event().map(|event| event.fact()) {
            Some(Ok(Fact::SessionCreated(created))) => created.fields,
            _ => SessionFields::default(),
        };
        let given = if fields.project_id.is_none() {
            told.map(str::to_owned).or_else(|| self.store.options().projects.first().cloned())
        } else {
            None
        };
        let project = fields.project_id.or_else(|| given.clone()).unwrap_or_default();
        if let Some(key) = &fields.key
            && let Some(session) = self.store.finder().with_key(&project, key)?
            && session != id
        {
            return Err(ImportError::KeyTaken { key: key.clone(), session });
        }
        Ok(ImportIdentity { given, project, key: fields.key })
    }

    /// Prepares for a session that has this key: until the key is put, the keys are incomplete, so
    /// that after a crash the sessions are searched for theirs.
    fn take_key(&self, project: &str, key: &str, id: SessionId) -> Result<Keys, ImportError> {
        let keys = self.store.finder().all_keys()?;
        if let Some(session) = self.store.finder().key_holder(&keys, project, key)?
            && session != id
            && self.store.is_made(session)?
        {
            return Err(ImportError::KeyTaken { key: key.to_owned(), session });
        }
        keys.set_incomplete()?;
        Ok(keys)
    }
}

/// The project and key of an imported session.
#[derive(Debug, Default)]
struct ImportIdentity {
    /// The project that it is assigned to, if it names none.
    given: Option<String>,
    /// Its project; empty if it has none.
    project: String,
    key: Option<String>,
}

/// The result of comparing a bundle with the existing session.
struct BundleComparison {
    /// The last event that both have.
    last: (Seq, Sum),
    /// Set if the bundle ended first.
    outcome: Option<ImportOutcome>,
    /// Events that are erased in the bundle and not here.
    unerased: Vec<Seq>,
    /// Events that are erased here and not in the bundle.
    kept_erased: Vec<Seq>,
    /// The bundle says that files of a rewind were erased.
    erases_files: bool,
    notes: Vec<ReadFinding>,
}

impl BundleComparison {
    fn imported<R: Read>(self, bundle: &BundleReader<R>, outcome: ImportOutcome) -> ImportedBundle {
        let bundle = bundle.header().clone();
        let Self { unerased, kept_erased, notes, .. } = self;
        let brought_back = Vec::new();
        ImportedBundle { bundle, outcome, unerased, kept_erased, brought_back, notes }
    }
}

/// A line of a bundle.
struct IncomingLine {
    seq: Seq,
    sum: Sum,
    erased: bool,
}

/// Reads the rest of a bundle to its end, importing nothing.
fn read_rest_of_import<R: Read>(
    bundle: &mut BundleReader<R>,
    compared: &BundleComparison,
) -> Result<ImportOutcome, ImportError> {
    let from = compared.last.0;
    let mut outcome = compared.outcome.unwrap_or(ImportOutcome::Same);
    while next_import_line(bundle, None)?.is_some() {
        outcome = ImportOutcome::Forwarded { from };
    }
    Ok(outcome)
}

/// The project that a session's first line names, or this one.
fn project_of_line(line: &JournalLine<'_>, told: Option<&str>) -> Option<String> {
    let named = match line.event().map(|event| event.fact()) {
        Some(Ok(Fact::SessionCreated(created))) => created.fields.project_id,
        _ => None,
    };
    named.or_else(|| told.map(str::to_owned))
}

/// Whether a line records that the files of a rewind were erased.
fn erases_files(line: &JournalLine<'_>) -> bool {
    line.head().is_some_and(|head| head.kind == Kind::PAYLOAD_ERASED)
        && matches!(line.event().map(|event| event.fact()),
            Some(Ok(Fact::Erasure(erasure))) if erasure.files)
}

/// The error if the existing session's end has moved.
fn import_end_moved(layout: &SessionLayout) -> StoreError {
    StoreError::Damaged {
        place: layout_path_text(&layout.dir),
        reason: "its end changed while it was being read".to_owned(),
    }
}

/// The position before the first event of a session.
fn before_import(bundle: &BundleHeader) -> JournalEnd {
    let (seq, sum) = bundle.before();
    JournalEnd { segment: 0, offset: 0, seq, sum }
}

/// The next line of a bundle. Its objects are staged if there is a stage.
fn next_import_line<R: Read>(
    bundle: &mut BundleReader<R>,
    mut stage: Option<&mut ImportStage>,
) -> Result<Option<IncomingLine>, ImportError> {
    loop {
        match bundle.next()? {
            Some(BundleRecord::Object { hash, bytes }) => {
                if let Some(stage) = &mut stage {
                    stage.object(hash, bytes)?;
                }
            }
            Some(BundleRecord::Line(line)) => {
                let erased = matches!(line.body(), LinePayload::Erased { .. });
                return Ok(Some(IncomingLine { seq: line.seq, sum: line.sum, erased }));
            }
            None => return Ok(None),
        }
    }
}
