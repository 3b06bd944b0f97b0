//! Copies sessions from one store to another, in either direction.
//!
//! First come the objects that a session's checkpoints need, then its events, as a bundle that one
//! side writes while the other reads it. The bundle is verified line by line, applied completely or
//! not at all, and can only fast-forward. If a copy is interrupted, running it again does the rest.
//! The source is never changed.
//!
//! Payloads that are erased in the source but still present in the target are reported, and erased
//! there only on request: the source may be somebody else's.

use std::collections::{HashMap, HashSet};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use abide_local::{
    BundleError, BundleReader, ExportError, ImportError, ImportOutcome, ImportedBundle,
};
use abide_model::{ObjectBatch, ObjectHash, Objects, ParentReason, Seq, SessionId, SessionRef};
use abide_workspace::{Reach, ReachError};

use crate::checkpoint::CheckpointEntry;
use crate::{Error, Store};

/// Number of objects looked up at once.
const ASKED: usize = 1024;
/// Bytes of objects stored at once.
const PUT: usize = 4 << 20;

/// The result of copying a session.
#[derive(Debug, Clone)]
pub struct CopiedSession {
    /// The result for its events.
    pub imported: ImportedBundle,
    /// Number of its checkpoints' objects that the target lacked.
    pub objects: u64,
    /// The size of these objects in bytes.
    pub bytes: u64,
    /// Events whose payload is erased in the source but still present in the target.
    pub unerased: Vec<Seq>,
    /// Number of payloads erased in the target by this copy.
    pub erased: u64,
    /// What could not be copied although the events were.
    pub notes: Vec<String>,
}

/// The objects of a session's checkpoints in the target.
struct CopiedObjects {
    /// Number and size of the objects that the target lacked.
    objects: u64,
    bytes: u64,
    /// The objects that were looked up.
    wanted: Vec<ObjectHash>,
    /// Held until the events that refer to them are there, so that none is collected meanwhile.
    target: Option<Arc<dyn Objects>>,
}

/// Copies sessions. Shared objects are handled once.
#[derive(Debug)]
pub struct Copier {
    from: Store,
    /// `None` in a dry run if the target does not exist yet.
    to: Option<Store>,
    wait: Duration,
    dry: bool,
    erases: bool,
    reach: Reach,
    /// Objects that exist in the target, or would.
    there: HashSet<ObjectHash>,
    /// Sessions that would exist.
    made: HashSet<SessionId>,
    /// The events of each session, of its ancestors too, whose data was erased in the target.
    erased: HashMap<SessionId, HashSet<Seq>>,
    /// Changes whenever objects of a shared target are removed.
    mark: Option<String>,
}

/// What becomes of the bundle that a session is copied as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PassMode {
    Check,
    Import,
}

impl Copier {
    /// Copies sessions. Waits up to `wait` for a writer in the target.
    #[must_use]
    pub fn new(from: Store, to: Store, wait: Duration) -> Self {
        Self {
            from,
            to: Some(to),
            wait,
            dry: false,
            erases: false,
            reach: Reach::default(),
            there: HashSet::new(),
            made: HashSet::new(),
            erased: HashMap::new(),
            mark: None,
        }
    }

    /// A dry run: reads and verifies everything but writes nothing. The target may not exist yet.
    #[must_use]
    pub fn rehearsal(from: Store, to: Option<Store>) -> Self {
        Self {
            from,
            to,
            wait: Duration::ZERO,
            dry: true,
            erases: false,
            reach: Reach::default(),
            there: HashSet::new(),
            made: HashSet::new(),
            erased: HashMap::new(),
            mark: None,
        }
    }

    /// Erases in the target what is erased in the source.
    #[must_use]
    pub fn erasing(mut self) -> Self {
        self.erases = true;
        self
    }

    /// The sessions in the order in which they can be copied: parents of forks come first, and are
    /// added if they were not named. A session that cannot be read is reported when it is copied.
    #[must_use]
    pub fn order(&self, sessions: &[SessionId]) -> Vec<SessionId> {
        let mut ordered = Vec::new();
        let mut seen = HashSet::new();
        for session in sessions {
            let mut line = Vec::new();
            let mut next = Some(*session);
            while let Some(id) = next.filter(|id| seen.insert(*id)) {
                line.push(id);
                next = self.forked_from(id).unwrap_or(None);
            }
            ordered.extend(line.into_iter().rev());
        }
        ordered
    }

    fn forked_from(&self, session: SessionId) -> Result<Option<SessionId>, Error> {
        let fields = self.from.view(&SessionRef::Id(session))?.state()?.core.fields;
        let parent = fields.parent.filter(|parent| parent.reason == ParentReason::Fork);
        Ok(parent.map(|parent| parent.session))
    }

    /// Copies one session. When this returns `Ok`, the result is durable.
    pub fn copy(&mut self, session: SessionId) -> Result<CopiedSession, Error> {
        let mut notes = Vec::new();
        let copied = self.copy_objects(session, &mut notes)?;
        let mode = if self.dry { PassMode::Check } else { PassMode::Import };
        let imported = match self.pass(session, mode) {
            Err(Error::Import(ImportError::NoParent { parent, .. }))
                if self.made.contains(&parent) =>
            {
                // By then the target would exist.
                self.would_make(session)?
            }
            passed => passed?,
        };
        // They are referenced now. For a refused session they are not, and may be collected.
        self.there.extend(copied.wanted);
        let (objects, bytes) = (copied.objects, copied.bytes);
        // Erasing waits until nobody writes objects.
        drop(copied.target);
        if self.dry && imported.outcome == ImportOutcome::Made {
            self.made.insert(session);
        }
        let mut unerased = imported.unerased.clone();
        let mut erased = 0;
        if let Some(to) = self.to.as_ref().filter(|_| self.erases && !self.dry)
            && !unerased.is_empty()
        {
            match to.erase_payloads(session, &unerased, self.wait) {
                Ok(done) => {
                    erased = done.payloads;
                    notes.extend(done.notes);
                    unerased.clear();
                }
                Err(error) => notes.push(copy_error_text(&error)),
            }
        }
        Ok(CopiedSession { imported, objects, bytes, unerased, erased, notes })
    }

    /// Copies the objects that the session's checkpoints need and the target lacks.
    fn copy_objects(
        &mut self,
        session: SessionId,
        notes: &mut Vec<String>,
    ) -> Result<CopiedObjects, Error> {
        let source = self.from.objects()?;
        let target = self.to.as_ref().map(Store::objects).transpose()?;
        if let (Some(to), Some(target), false) = (&self.to, &target, self.dry) {
            // From the first lookup on the target deletes nothing, and what is erased there stays as it
            // is. What was there before may be gone since.
            target.has(&[])?;
            let mark = to.objects_mark()?;
            if self.mark != mark {
                self.there.clear();
                self.mark = mark;
            }
        }
        let view = self.from.view(&SessionRef::Id(session))?;
        let erased_there = self.erased_there(session)?;
        // Thinned checkpoints stay thinned, and what was erased there stays erased.
        let wanted = |entry: &CheckpointEntry| !entry.thinned && !erased_there.contains(&entry.seq);
        for entry in view.all_checkpoints()?.into_iter().filter(wanted) {
            let Some(snapshot) = entry.checkpoint.snapshot else { continue };
            match self.reach.add(&|hash| source.read(hash), snapshot) {
                Ok(()) => {}
                Err(ReachError::Store(error)) => return Err(error.into()),
                Err(error) => {
                    notes.push(format!(
                        "the files of checkpoint {} are not copied: {error}",
                        entry.number
                    ));
                }
            }
        }
        let missing = |hash: &&ObjectHash| !self.there.contains(hash);
        let wanted: Vec<ObjectHash> = self.reach.objects.iter().filter(missing).copied().collect();
        let (mut objects, mut bytes) = (0, 0);
        let Some(target) = target else {
            objects = wanted.len() as u64;
            return Ok(CopiedObjects { objects, bytes, wanted, target: None });
        };
        let mut batch = ObjectBatch::default();
        for asked in wanted.chunks(ASKED) {
            let has = target.has(asked)?;
            let lacking = asked.iter().zip(has).filter(|(_, has)| !has);
            let lacking: Vec<ObjectHash> = lacking.map(|(hash, _)| *hash).collect();
            if self.dry {
                objects += lacking.len() as u64;
                continue;
            }
            let mut failed = None;
            source.read_many(&lacking, &mut |index, found| {
                let Some(hash) = lacking.get(index) else { return ControlFlow::Continue(()) };
                let Some(found) = found else {
                    notes.push(format!("object {hash} of its files is missing or damaged"));
                    return ControlFlow::Continue(());
                };
                batch.push(*hash, found);
                (objects, bytes) = (objects + 1, bytes + found.len() as u64);
                if batch.plain().len() < PUT {
                    return ControlFlow::Continue(());
                }
                let put = target.put_batch(&batch);
                batch.clear();
                match put {
                    Ok(_) => ControlFlow::Continue(()),
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                }
            })?;
            if let Some(error) = failed {
                return Err(error.into());
            }
        }
        if !batch.is_empty() {
            target.put_batch(&batch)?;
        }
        if !self.dry {
            // Objects must be durable before the events that refer to them.
            target.sync()?;
        }
        Ok(CopiedObjects { objects, bytes, wanted, target: Some(target) })
    }

    /// The events of a session, of its ancestors too, whose data was erased in the target. Parents come
    /// first, so theirs are known.
    fn erased_there(&mut self, session: SessionId) -> Result<HashSet<Seq>, Error> {
        let mut erased = HashSet::new();
        if let Some(to) = &self.to
            && to.has_erased(session)?
        {
            // Only a comparison line by line tells which.
            match self.pass(session, PassMode::Check) {
                Ok(checked) => erased.extend(checked.kept_erased),
                // It is not there yet in a rehearsal, and then nothing of this session is.
                Err(Error::Import(ImportError::NoParent { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        let fields = self.from.view(&SessionRef::Id(session))?.state()?.core.fields;
        if let Some(parent) = fields.parent
            && let Some(theirs) = self.erased.get(&parent.session)
        {
            erased.extend(theirs.iter().filter(|seq| **seq <= parent.seq));
        }
        self.erased.insert(session, erased.clone());
        Ok(erased)
    }

    /// Copies the events: another thread writes the bundle that this one reads.
    fn pass(&self, session: SessionId, mode: PassMode) -> Result<ImportedBundle, Error> {
        let Some(to) = &self.to else { return self.would_make(session) };
        let project = self.project_there(to, session)?;
        let (reader, mut writer): (PipeReader, PipeWriter) =
            io::pipe().map_err(Error::file("make", Path::new("a pipe")))?;
        std::thread::scope(|scope| {
            let from = &self.from;
            let writing = scope.spawn(move || from.export_bundle(session, &mut writer));
            // No limit on the compression ratio: the data is a store's own.
            let taken = BundleReader::open(Box::new(reader) as Box<dyn Read>)
                .map(BundleReader::of_any_ratio)
                .map_err(Error::from)
                .and_then(|bundle| match mode {
                    PassMode::Check => to.check_bundle_into_project(bundle, project.as_deref()),
                    PassMode::Import => {
                        to.import_bundle_into_project(bundle, project.as_deref(), self.wait)
                    }
                });
            let written = writing.join();
            match (taken, written) {
                (Ok(imported), _) => Ok(imported),
                // The source's own error; the reader only saw the stream end.
                (Err(_), Ok(Err(error))) if !is_copy_cut_off(&error) => Err(error),
                (Err(error), _) => Err(error),
            }
        })
    }

    /// The project for a session that names none: its own, if the target distinguishes projects.
    fn project_there(&self, to: &Store, session: SessionId) -> Result<Option<String>, Error> {
        if to.projects().is_empty() {
            return Ok(None);
        }
        self.from.project_of(session)
    }

    /// The import result if the target does not exist.
    fn would_make(&self, session: SessionId) -> Result<ImportedBundle, Error> {
        let bundle = self.from.export_bundle(session, &mut io::sink())?;
        Ok(ImportedBundle::made(bundle))
    }
}

/// An error with its causes.
fn copy_error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Returns true if the error only says that the reader stopped early.
fn is_copy_cut_off(error: &Error) -> bool {
    match error {
        Error::Export(ExportError::Bundle { source: BundleError::Write(error), .. }) => {
            error.kind() == io::ErrorKind::BrokenPipe
        }
        _ => false,
    }
}
