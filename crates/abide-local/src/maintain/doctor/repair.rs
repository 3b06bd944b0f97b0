//! Applies a planned repair: first the originals go to the quarantine, then files change, then
//! events are appended.
//!
//! In this order it can be interrupted anywhere. The quarantine is durable before the first file
//! changes. Each file is replaced atomically, and a journal in which only some segments are
//! rewritten reads as well as before. After an interrupted repair, the next one examines what is
//! there and repairs that.

use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_journal::{
    Access, Journal, Packs, Salt, SegmentForm, SegmentHeader, SegmentName, Sum, Watermark,
};
use abide_maintain::{
    Examination, FinishedRepair, RepairAction, RepairAftermath, RepairEvents, RepairPlan,
    RepairRequest, RepairStrategy, new_repair_id,
};
use abide_model::{Recovery, Seq, SessionId, StoreError};

use super::Doctor;
use super::journal_survey::{JournalRewrite, JournalSurvey};
use super::quarantine::{Quarantine, QuarantinedFile, RepairRecord};
use super::repair_plan::RepairMaterial;
use super::session::LockOwnership;
use super::source::SourceEvents;
use crate::config::Config;
use crate::error::{storage_error, store_error};
use crate::sessions::local_writer::LocalWriter;
use crate::sessions::session_ancestry::MissingParentPolicy;
use crate::shield;
use crate::store_layout::{SessionLayout, layout_path_text};

const FINISH_ERASURE: RepairAction = RepairAction::Finish { what: "an erasure" };

impl Doctor<'_> {
    /// Repairs a session as planned. If it has changed since, nothing is done.
    pub fn repair(
        &self,
        plan: &RepairPlan,
        request: RepairRequest,
        wait: Duration,
    ) -> Result<FinishedRepair, StoreError> {
        if matches!(self.store.settings_trouble(), Some(StoreError::NewerVersion { .. })) {
            return Err(StoreError::Damaged {
                place: layout_path_text(&self.store.layout().config()),
                reason: "a newer version of abide made this store; this version cannot repair it"
                    .to_owned(),
            });
        }
        let Some(session) = plan.session else { return self.repair_store(plan, wait) };
        let layout = self.store.layout_of(session)?;
        let lock = self.store.lock_session(session, &layout, wait)?;
        let examination = self.examine_session_as(session, LockOwnership::Ours)?;
        let (now, workings) = self.plan_with_material(&examination, request)?;
        // Whether its writer died was determined before the lock was taken.
        let lasting = |plan: &RepairPlan| -> Vec<RepairAction> {
            let actions = plan.actions.iter().filter(|action| **action != RepairAction::Interrupt);
            actions.cloned().collect()
        };
        if lasting(&now) != lasting(plan) {
            return Err(StoreError::Damaged {
                place: format!("session {session}"),
                reason: "it changed since the repair was planned".to_owned(),
            });
        }
        let past = self.store.reader_at(session, &layout);
        let checked = past.past().and_then(|past| past.check(MissingParentPolicy::Refuse));
        checked.map_err(store_error)?;
        // Keeps erasures away: none may check the quarantine before the record exists, or remove
        // objects before the lines that name them are written.
        let _no_erasure = self.store.cleaner().keep_sessions()?;
        let id = self.new_repair_id();
        let before = examination.facts.state.as_ref().map_or(Seq::ZERO, |state| state.core.seq);
        let record = self.repair_record(&id, session, before, &layout, plan)?;
        let quarantine = Quarantine::new(self.store);
        quarantine.begin(&record)?;
        if plan.strategy.is_some() {
            let rewrite = self.rewrite_for_repair(session, &layout, &id, plan, &workings)?;
            self.put_repaired_segments(session, &layout, &rewrite, &record)?;
        }
        for action in &plan.actions {
            self.do_file_repair(action, &layout, &record)?;
        }
        let writer = self.store.repair_writer(session, &layout, lock)?;
        let last = self.append_repair(&writer, &id, plan, &examination, &workings)?;
        writer.finish()?;
        drop(writer);
        quarantine.done(&id, last)?;
        self.store.forget(session);
        if plan.strategy.is_some() {
            // Best effort: if it fails, an examination of the fork finds it.
            let _ = self.forget_forks(session);
        }
        // Best effort: it can be rebuilt later.
        let _ = self.store.update_transcript(session);
        self.verify_repair(session, id)
    }

    /// Appends the events of a repair: what it did, the rewind, and the results of open calls.
    fn append_repair(
        &self,
        writer: &LocalWriter,
        id: &str,
        plan: &RepairPlan,
        examination: &Examination,
        workings: &RepairMaterial,
    ) -> Result<Seq, StoreError> {
        let again = &workings.rewrite.again;
        let lost = workings.rewrite.lost.iter().chain(&examination.facts.unnamed);
        let events = RepairEvents::of(plan, examination);
        let Some(recovery) = events.recovery(id, lost.copied().collect()) else {
            let state = examination.facts.state.as_ref();
            return Ok(state.map_or(Seq::ZERO, |state| state.core.seq));
        };
        let last = writer.note_recovered(&Recovery {
            reconstructed: again.clone(),
            source: (!again.is_empty()).then(|| workings.source.name.to_owned()),
            // What the index knows is not exactly what was recorded.
            requires_validation: recovery.requires_validation
                || !again.is_empty() && workings.source.name == "index",
            ..recovery
        })?;
        let open = || Ok(self.examine(examination.session)?.facts.closing);
        Ok(events.append(writer, &open)?.unwrap_or(last))
    }

    fn new_repair_id(&self) -> String {
        let env = &self.store.options().env;
        let mut random = [0; 4];
        (env.random)(&mut random);
        new_repair_id((env.now)(), random)
    }

    /// The record of what a repair of a session replaces.
    fn repair_record(
        &self,
        id: &str,
        session: SessionId,
        before: Seq,
        layout: &SessionLayout,
        plan: &RepairPlan,
    ) -> Result<RepairRecord, StoreError> {
        let mut paths: Vec<PathBuf> = Vec::new();
        // Kept for reference: derived files, and a torn tail after which others append.
        let mut stay: Vec<PathBuf> = Vec::new();
        for action in &plan.actions {
            match action {
                RepairAction::RewriteSegment { path, .. } => {
                    paths.push(path.with_extension("jsonl.zst"));
                    paths.push(path.clone());
                }
                RepairAction::MakeAnew { what: "transcript" | "watermark", path }
                | RepairAction::CutTail { path, .. } => stay.push(path.clone()),
                RepairAction::Remove { path } => paths.push(path.clone()),
                _ => {}
            }
        }
        if plan.strategy.is_some() {
            stay.push(layout.watermark());
        }
        let said = plan.actions.iter().any(|action| {
            matches!(
                action,
                RepairAction::GoBack { .. }
                    | RepairAction::EndCalls { .. }
                    | RepairAction::Interrupt
            )
        });
        Ok(RepairRecord {
            said,
            ..self.repair_record_of_files(id, Some(session), before, (paths, stay))?
        })
    }

    fn repair_record_of_files(
        &self,
        id: &str,
        session: Option<SessionId>,
        before: Seq,
        (mut paths, mut stay): (Vec<PathBuf>, Vec<PathBuf>),
    ) -> Result<RepairRecord, StoreError> {
        paths.sort_unstable();
        paths.dedup();
        stay.retain(|path| !paths.contains(path));
        stay.sort_unstable();
        stay.dedup();
        let quarantine = Quarantine::new(self.store);
        let mut files = Vec::new();
        let all = paths.iter().map(|path| (path, false));
        for (path, stays) in all.chain(stay.iter().map(|path| (path, true))) {
            let was = match self.store.storage().open(path, Access::Read) {
                Ok(_) => true,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
                Err(error) => return Err(storage_error("open", path)(error)),
            };
            files.push(QuarantinedFile { path: quarantine.below(path)?, was, stays });
        }
        let at = (self.store.options().env.now)();
        Ok(RepairRecord { id: id.to_owned(), at, session, before, said: false, files })
    }

    /// The new segments, with the objects of reconstructed events stored durably.
    fn rewrite_for_repair(
        &self,
        session: SessionId,
        layout: &SessionLayout,
        id: &str,
        plan: &RepairPlan,
        workings: &RepairMaterial,
    ) -> Result<JournalRewrite, StoreError> {
        let again = match plan.strategy {
            Some(RepairStrategy::Checkpoint) | None => Default::default(),
            Some(_) => workings.source.within(&workings.lost),
        };
        let again = self.prepare_source_events(again)?;
        let survey = self.survey(session, layout)?;
        survey.rewrite(id, &again, Seq::ZERO, &mut self.repair_salts()).map_err(store_error)
    }

    /// Random salts.
    fn repair_salts(&self) -> impl FnMut() -> Salt {
        let mut secret = [0; 32];
        (self.store.options().env.random)(&mut secret);
        let mut count = 0;
        move || {
            count += 1;
            Salt::derive(&secret, count)
        }
    }

    /// Puts segments in place, each atomically. Later events go to a new segment, so that these can
    /// be restored.
    fn put_repaired_segments(
        &self,
        session: SessionId,
        layout: &SessionLayout,
        rewrite: &JournalRewrite,
        record: &RepairRecord,
    ) -> Result<(), StoreError> {
        let quarantine = Quarantine::new(self.store);
        let storage = self.store.storage();
        let dir = layout.journal();
        let next = SegmentName { number: rewrite.next, form: SegmentForm::Plain };
        let replaced = rewrite.segments.iter().flat_map(|segment| {
            let forms = [SegmentForm::Plain, SegmentForm::Sealed];
            forms.map(|form| SegmentName { number: segment.number, form })
        });
        for name in replaced.chain([next]) {
            quarantine.check(record, &dir.join(name.file_name()))?;
        }
        // Until this is done nobody may index a half-rewritten journal.
        let _index = self.store.index().remove()?;
        let sync = || storage.sync_dir(&dir).map_err(storage_error("sync", &dir));
        storage.make_dir(&dir).map_err(storage_error("create", &dir))?;
        for segment in &rewrite.segments {
            let plain = SegmentName { number: segment.number, form: SegmentForm::Plain };
            let sealed = SegmentName { form: SegmentForm::Sealed, ..plain };
            quarantine.put(&dir.join(plain.file_name()), &segment.bytes)?;
            // The plain form is used from now on; only then may the sealed one be removed.
            sync()?;
            if segment.old == Some(SegmentForm::Sealed) {
                quarantine.remove(&dir.join(sealed.file_name()))?;
            }
        }
        let last = rewrite.segments.last().map(|segment| segment.number);
        if last.is_some_and(|last| last + 1 == rewrite.next)
            && let Some((seq, sum)) = rewrite.end
        {
            let header = SegmentHeader {
                version: rewrite.version,
                session,
                segment: rewrite.next,
                first: seq.next(),
                prev: sum,
            };
            quarantine.put(&dir.join(next.file_name()), &header.write())?;
        }
        sync()?;
        self.forget_places(layout)
    }

    /// Removes what refers to the places of lines, since these have changed.
    pub(super) fn forget_places(&self, layout: &SessionLayout) -> Result<(), StoreError> {
        let storage = self.store.storage();
        Quarantine::new(self.store).remove(&layout.watermark())?;
        self.forget_state(layout)?;
        storage.sync_dir(&layout.dir).map_err(storage_error("sync", &layout.dir))
    }

    /// Removes the state caches. They may hold what the journal has lost.
    pub(super) fn forget_state(&self, layout: &SessionLayout) -> Result<(), StoreError> {
        let quarantine = Quarantine::new(self.store);
        let slots = ["handover.0", "handover.1"].map(|slot| layout.state().join(slot));
        slots.iter().try_for_each(|slot| quarantine.remove(slot))
    }

    fn do_file_repair(
        &self,
        action: &RepairAction,
        layout: &SessionLayout,
        record: &RepairRecord,
    ) -> Result<(), StoreError> {
        let quarantine = Quarantine::new(self.store);
        match action {
            RepairAction::NameLost { objects, .. } => {
                self.forget_state(layout)?;
                // The workspace caches say that these are stored: without them, the next checkpoint
                // stores those that are still in a file again.
                if objects.is_empty() { Ok(()) } else { self.store.collector().forget_workspaces() }
            }
            RepairAction::MakeAnew { what: "snapshot of the state", .. } => {
                self.forget_state(layout)
            }
            RepairAction::MakeAnew { what: "transcript" | "watermark", path }
            | RepairAction::Remove { path } => {
                quarantine.check(record, path)?;
                quarantine.remove(path)
            }
            RepairAction::SetMode { path, mode } => repair_mode(path, *mode),
            _ => Ok(()),
        }
    }

    /// Examines a session again.
    fn verify_repair(&self, session: SessionId, id: String) -> Result<FinishedRepair, StoreError> {
        let after = RepairAftermath::Session(Box::new(self.examine(session)?));
        let quarantine = Quarantine::new(self.store).shown(&id);
        Ok(FinishedRepair { quarantine, id, after, undoable: true })
    }

    /// Records that a person has looked at what a repair left: the session no longer requires
    /// validation.
    pub fn accept(&self, session: SessionId, wait: Duration) -> Result<(), StoreError> {
        let writer = self.store.writer(session, wait)?;
        let strategy = "accept".to_owned();
        writer.note_recovered(&Recovery { strategy, accepted: true, ..Recovery::default() })?;
        writer.finish()
    }

    fn repair_store(
        &self,
        plan: &RepairPlan,
        wait: Duration,
    ) -> Result<FinishedRepair, StoreError> {
        let id = self.new_repair_id();
        let mut paths = Vec::new();
        // Read first: the index is about to be removed.
        let mut sources = Vec::new();
        for action in &plan.actions {
            match action {
                RepairAction::Remove { path } | RepairAction::SalvagePack { path } => {
                    paths.push(path.clone())
                }
                RepairAction::PutSettings { .. } => paths.push(self.store.layout().config()),
                RepairAction::RewriteSegment { path, .. } => {
                    let layout = repaired_session(path);
                    let names = self.store.storage().list(&layout.journal()).unwrap_or_default();
                    paths.extend(names.iter().map(|name| layout.journal().join(name)));
                    paths.extend([layout.watermark(), self.store.layout().index()]);
                    sources.push((layout.dir.clone(), self.source(&layout)?));
                }
                _ => {}
            }
        }
        // An erasure deletes what repairs of the store have kept, so it runs before this one keeps
        // anything. A session that is reconstructed may be the one being erased: then the next
        // repair finishes it.
        if plan.actions.contains(&FINISH_ERASURE) && sources.is_empty() {
            self.finish_erasure(wait)?;
        }
        let record = self.repair_record_of_files(&id, None, Seq::ZERO, (Vec::new(), paths))?;
        let quarantine = Quarantine::new(self.store);
        {
            let _no_erasure = self.store.cleaner().keep_sessions()?;
            quarantine.begin(&record)?;
        }
        for action in &plan.actions {
            match action {
                RepairAction::RewriteSegment { path, .. } => {
                    let layout = repaired_session(path);
                    let source = sources.iter().position(|(dir, _)| *dir == layout.dir);
                    if let Some(source) = source {
                        self.reconstruct_for_repair(
                            &layout,
                            sources.swap_remove(source).1,
                            &record,
                        )?;
                    }
                }
                action => self.do_store_repair(action, &record, wait)?,
            }
        }
        quarantine.done(&id, Seq::ZERO)?;
        let after = RepairAftermath::Store(self.examine_store()?);
        Ok(FinishedRepair { quarantine: quarantine.shown(&id), id, after, undoable: false })
    }

    fn do_store_repair(
        &self,
        action: &RepairAction,
        record: &RepairRecord,
        wait: Duration,
    ) -> Result<(), StoreError> {
        let quarantine = Quarantine::new(self.store);
        match action {
            RepairAction::PutSettings { .. } => {
                let storage = &**self.store.storage();
                let path = self.store.layout().config();
                quarantine.check(record, &path)?;
                match shield::shield_settings_copy(storage, self.store.layout()) {
                    Some(copy) => quarantine.copy_over(&copy, &path),
                    None => Config::write_default(storage, &path),
                }
            }
            RepairAction::SetMode { path, mode } => repair_mode(path, *mode),
            RepairAction::Remove { path } => {
                quarantine.check(record, path)?;
                quarantine.remove(path)
            }
            RepairAction::SalvagePack { path } => {
                let Some(number) = Packs::number_of(path) else { return Ok(()) };
                let _lock = self.store.collector().wait_for_objects(wait).map_err(|error| {
                    storage_error("lock", &self.store.layout().objects())(std::io::Error::other(
                        error.to_string(),
                    ))
                })?;
                quarantine.check(record, path)?;
                if !self.store.packs().numbers().map_err(store_error)?.contains(&number) {
                    // An erasure has rewritten it.
                    return Ok(());
                }
                // The workspace caches vouch for objects that are lost with the pack.
                self.store.collector().forget_workspaces()?;
                self.store.packs().salvage(number).map(|_| ()).map_err(store_error)
            }
            RepairAction::MakeAnew { what: "index", .. } => {
                drop(self.store.index().remove()?);
                self.store.index().update()
            }
            RepairAction::Finish { what: "a removal" } => {
                self.store.remover().delete_leftovers().map(|_| ())
            }
            action if *action == FINISH_ERASURE => Ok(()),
            // What it left unfinished was found and repaired on its own.
            RepairAction::Finish { .. } => self.close_repairs(&record.id),
            _ => Ok(()),
        }
    }

    fn finish_erasure(&self, wait: Duration) -> Result<(), StoreError> {
        let path = self.store.layout().erasing();
        let finished = self.store.eraser().finish(wait).map(|_| ());
        finished.map_err(|error| {
            storage_error("finish", &path)(std::io::Error::other(error.to_string()))
        })
    }

    /// Closes interrupted repairs: what they left was found and repaired on its own. They cannot be
    /// undone, since others may have appended to the files that they replaced.
    fn close_repairs(&self, by: &str) -> Result<(), StoreError> {
        let quarantine = Quarantine::new(self.store);
        for record in quarantine.records()? {
            if record.id != by && !quarantine.is_done(&record.id) {
                quarantine.undone(&record.id)?;
            }
        }
        Ok(())
    }

    /// Reconstructs the journal of a session that has none, from the transcript or the index.
    fn reconstruct_for_repair(
        &self,
        layout: &SessionLayout,
        source: SourceEvents,
        record: &RepairRecord,
    ) -> Result<(), StoreError> {
        let id = &record.id;
        let Some(session) = source.session else {
            return Err(StoreError::Damaged {
                place: layout_path_text(&layout.dir),
                reason: "its session is unknown".to_owned(),
            });
        };
        let lock = self.store.lock_session(session, layout, Duration::ZERO)?;
        let _no_erasure = self.store.cleaner().keep_sessions()?;
        let mark = Watermark::read(&**self.store.storage(), &layout.watermark());
        let mark = mark.map_err(store_error)?;
        let first = source.events.keys().next().copied().unwrap_or(Seq::FIRST);
        let fork = source.events.get(&first).and_then(|event| match event.fact() {
            Ok(abide_model::Fact::SessionCreated(created)) => {
                created.fields.forked_from(first).cloned()
            }
            _ => None,
        });
        let before = match fork {
            Some(parent) => {
                let reader = self.store.reader(parent.session)?;
                let sum = reader.sum_in_ancestry(parent.seq).map_err(store_error)?;
                (parent.seq, sum.unwrap_or_else(|| Sum::genesis(session)))
            }
            None => (Seq::ZERO, Sum::genesis(session)),
        };
        let (name, last) = (source.name, source.last);
        let again = self.prepare_source_events(source.events)?;
        let journal = Journal::new(self.store.storage().clone(), layout.journal());
        self.store
            .storage()
            .make_dir(&layout.journal())
            .map_err(storage_error("create", &layout.journal()))?;
        let survey = JournalSurvey::of(&journal, session, before, mark).map_err(store_error)?;
        let rewrite =
            survey.rewrite(id, &again, last, &mut self.repair_salts()).map_err(store_error)?;
        self.put_repaired_segments(session, layout, &rewrite, record)?;
        let writer = self.store.writer_with(session, layout, lock)?;
        writer.note_recovered(&Recovery {
            strategy: RepairStrategy::Reconstruct.as_str().to_owned(),
            repair: Some(id.to_owned()),
            requires_validation: !rewrite.lost.is_empty() || name == "index",
            lost: rewrite.lost,
            reconstructed: rewrite.again,
            source: Some(name.to_owned()),
            ..Recovery::default()
        })?;
        writer.finish()
    }
}

/// The session of a segment.
fn repaired_session(segment: &Path) -> SessionLayout {
    let dir = segment.parent().and_then(Path::parent).unwrap_or(segment);
    SessionLayout { dir: dir.to_owned() }
}

fn repair_mode(path: &Path, mode: u32) -> Result<(), StoreError> {
    use std::os::unix::fs::PermissionsExt;
    // Nothing in a store may lead out of it.
    if path.is_symlink() {
        return Err(crate::store_layout::refused_link(path));
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(|error| {
        StoreError::Storage {
            action: "set the permissions of",
            place: layout_path_text(path),
            source: std::sync::Arc::new(error),
        }
    })
}
