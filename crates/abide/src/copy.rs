//! Copying sessions from one store to another, in either direction.
//!
//! First the objects that a session's checkpoints lead to, then its events, as a bundle that one
//! side writes while the other reads it: checked line by line, whole or not at all, and only
//! forward. Whatever stops it, the same copy again does what is left. Nothing of the source is
//! changed.
//!
//! What is erased in the source and still whole on the other side is told of, and erased there only
//! where that was asked for: a source may be somebody else's.

use std::collections::HashSet;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use abide_local::{BundleError, BundleReader, ExportError, ImportError, ImportOutcome, Imported};
use abide_model::{ObjectBatch, ObjectHash, Objects, ParentReason, Seq, SessionId, SessionRef};
use abide_workspace::{Reach, ReachError};

use crate::{Error, Store};

/// So many objects are asked for at a time.
const ASKED: usize = 1024;
/// So many bytes of objects are put at a time.
const PUT: usize = 4 << 20;

/// What became of a session.
#[derive(Debug, Clone)]
pub struct Copied {
    /// What became of its events.
    pub imported: Imported,
    /// How many objects of its checkpoints the other side lacked.
    pub objects: u64,
    /// And their bytes.
    pub bytes: u64,
    /// Events whose data is erased in the source and still stands on the other side.
    pub unerased: Vec<Seq>,
    /// How many payloads were erased on the other side.
    pub erased: u64,
    /// What of it could not be copied, though its events were.
    pub notes: Vec<String>,
}

/// The objects of a session's checkpoints, on the other side.
struct CopiedObjects {
    /// How many the other side lacked, and their bytes.
    objects: u64,
    bytes: u64,
    /// Those that were looked for there.
    wanted: Vec<ObjectHash>,
    /// Held until the events that name them are there: none is removed meanwhile.
    target: Option<Arc<dyn Objects>>,
}

/// Copies sessions. What two of them share is looked at once.
#[derive(Debug)]
pub struct Copier {
    from: Store,
    /// None where there is no store yet, which is only looked at.
    to: Option<Store>,
    wait: Duration,
    dry: bool,
    erases: bool,
    reach: Reach,
    /// Objects that are on the other side, or would be.
    there: HashSet<ObjectHash>,
    /// Sessions that would be.
    made: HashSet<SessionId>,
}

impl Copier {
    /// Copies. A writer of a session on the other side is waited for so long.
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
        }
    }

    /// Reads and checks everything, and writes nothing. The other store may not be there yet.
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
        }
    }

    /// Erases on the other side what is erased in the source.
    #[must_use]
    pub fn erasing(mut self) -> Self {
        self.erases = true;
        self
    }

    /// The sessions in the order in which they can be copied: what a session was forked from comes
    /// before it, and is added where it was not named. One that cannot be read is told of when its
    /// turn comes.
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

    /// Copies one session. When it returns `Ok`, what it says is durable.
    pub fn copy(&mut self, session: SessionId) -> Result<Copied, Error> {
        let mut notes = Vec::new();
        let copied = self.copy_objects(session, &mut notes)?;
        let imported = match self.pass(session) {
            Err(Error::Import(ImportError::NoParent { parent, .. }))
                if self.made.contains(&parent) =>
            {
                // It would be there by then.
                self.would_make(session)?
            }
            passed => passed?,
        };
        // Something names them now. Of a session that was refused nothing does, and they may go.
        self.there.extend(copied.wanted);
        let (objects, bytes) = (copied.objects, copied.bytes);
        // Who erases waits until nobody puts objects.
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
                Err(error) => notes.push(on_one_line(&error)),
            }
        }
        Ok(Copied { imported, objects, bytes, unerased, erased, notes })
    }

    /// Copies what the session's checkpoints lead to, as far as the other side lacks it.
    fn copy_objects(
        &mut self,
        session: SessionId,
        notes: &mut Vec<String>,
    ) -> Result<CopiedObjects, Error> {
        let source = self.from.objects()?;
        let view = self.from.view(&SessionRef::Id(session))?;
        // What retention let go stays gone.
        for entry in view.checkpoints(true)?.into_iter().filter(|entry| !entry.thinned) {
            let Some(snapshot) = entry.checkpoint.snapshot else { continue };
            match self.reach.add(&|hash| source.read(hash), snapshot) {
                Ok(()) => {}
                Err(ReachError::Store(error)) => return Err(error.into()),
                Err(error) => {
                    notes.push(format!("the files of checkpoint {} stay: {error}", entry.number));
                }
            }
        }
        let missing = |hash: &&ObjectHash| !self.there.contains(hash);
        let wanted: Vec<ObjectHash> = self.reach.objects.iter().filter(missing).copied().collect();
        let (mut objects, mut bytes) = (0, 0);
        let Some(to) = &self.to else {
            objects = wanted.len() as u64;
            return Ok(CopiedObjects { objects, bytes, wanted, target: None });
        };
        let target = to.objects()?;
        if !self.dry {
            // From the first question on nothing is removed there, also where none is left to ask.
            target.has(&[])?;
        }
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
            // Objects are durable before the events that name them.
            target.sync()?;
        }
        Ok(CopiedObjects { objects, bytes, wanted, target: Some(target) })
    }

    /// Passes the events on: one thread writes the bundle that this one reads.
    fn pass(&self, session: SessionId) -> Result<Imported, Error> {
        let Some(to) = &self.to else { return self.would_make(session) };
        let project = self.project_there(to, session)?;
        let (reader, mut writer): (PipeReader, PipeWriter) =
            io::pipe().map_err(Error::file("make", Path::new("a pipe")))?;
        std::thread::scope(|scope| {
            let from = &self.from;
            let writing = scope.spawn(move || from.export_bundle(session, &mut writer));
            // However well a store's own session is packed, it is as large as it is there.
            let taken = BundleReader::open(Box::new(reader) as Box<dyn Read>)
                .map(BundleReader::of_any_ratio)
                .map_err(Error::from)
                .and_then(|bundle| match self.dry {
                    true => to.check_bundle_of(bundle, project.as_deref()),
                    false => to.import_bundle_of(bundle, project.as_deref(), self.wait),
                });
            let written = writing.join();
            match (taken, written) {
                (Ok(imported), _) => Ok(imported),
                // The source's own trouble, of which the reader saw the end only.
                (Err(_), Ok(Err(error))) if !is_cut_off(&error) => Err(error),
                (Err(error), _) => Err(error),
            }
        })
    }

    /// The project that a session which names none goes to: its own, where the other side tells
    /// projects apart.
    fn project_there(&self, to: &Store, session: SessionId) -> Result<Option<String>, Error> {
        if to.projects().is_empty() {
            return Ok(None);
        }
        self.from.project_of(session)
    }

    /// What would be made where nothing is.
    fn would_make(&self, session: SessionId) -> Result<Imported, Error> {
        let bundle = self.from.export_bundle(session, &mut io::sink())?;
        Ok(Imported::made(bundle))
    }
}

/// An error with its causes.
fn on_one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Did the reader stop before the end?
fn is_cut_off(error: &Error) -> bool {
    match error {
        Error::Export(ExportError::Bundle { source: BundleError::Write(error), .. }) => {
            error.kind() == io::ErrorKind::BrokenPipe
        }
        _ => false,
    }
}
