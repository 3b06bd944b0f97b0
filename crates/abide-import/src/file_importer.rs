//! Imports the sessions that were found into a store: what is new of each, on a few threads.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use abide::backend::HeldSessionAccess;
use abide::locate::Projects;
use abide::{SessionRef, Store, StoreError};

use crate::ImportFilesError;
use crate::import_ledger::ImportLedger;
use crate::session_import::{ImportWork, SessionImported, import_session};
use crate::source_finder::FoundSession;

/// How long a session is waited for that another process holds.
const HELD_WAIT: Duration = Duration::from_millis(50);
/// After how many sessions the ledger is written.
const LEDGER_EVERY: usize = 256;
/// How often progress is told.
const TELLING: Duration = Duration::from_millis(100);

/// What there is to import of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportNews {
    /// It is not in the store.
    New,
    /// It is in the store, and its files have changed since.
    Changed,
    /// Nothing is new.
    None,
    /// It was imported, and removed from the store since.
    Removed,
}

/// Imports the files of agents into a store.
#[derive(Debug)]
pub struct FileImporter {
    store: Store,
    /// Where the ledger is; `None` if the store is not on files.
    root: Option<PathBuf>,
    ledger: ImportLedger,
    projects: Option<Projects>,
    threads: usize,
}

/// How far an import has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportProgress {
    /// Sessions that are done.
    pub sessions: usize,
    /// Bytes that were read.
    pub bytes: u64,
}

/// What an import did.
#[derive(Debug, Default)]
pub struct FilesImported {
    /// What became of each session, in the order in which they were given; `None` if it was not
    /// reached.
    pub sessions: Vec<Option<SessionImported>>,
    /// Sessions that could not be imported, by their place in that order.
    pub failed: BTreeMap<usize, ImportFilesError>,
    /// It was interrupted.
    pub interrupted: bool,
}

impl FileImporter {
    /// Imports into this store. New sessions belong to the projects of their own directories.
    #[must_use]
    pub fn new(store: &Store, projects: Option<Projects>) -> Self {
        let root = store.root().map(Path::to_owned);
        let ledger = root.as_deref().map(ImportLedger::read).unwrap_or_default();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        let store = store.clone().waiting(HELD_WAIT);
        // What goes back in a conversation can be recorded by its holder only.
        let store = store.with_held_sessions(HeldSessionAccess::Wait);
        Self { store, root, ledger, projects, threads }
    }

    /// What there is to import of a session.
    pub fn news(&self, found: &FoundSession) -> Result<ImportNews, ImportFilesError> {
        let Some(known) = self.ledger.get(found.agent.as_str(), &found.id) else {
            return Ok(ImportNews::New);
        };
        if known.is_of(found) {
            return Ok(ImportNews::None);
        }
        match self.store.view(&SessionRef::Id(known.session)) {
            Ok(_) => Ok(ImportNews::Changed),
            Err(abide::Error::Store(StoreError::NoSession { .. })) => Ok(ImportNews::Removed),
            Err(error) => Err(error.into()),
        }
    }

    /// Imports what is new of these sessions. A session that fails does not stop the others.
    pub fn import(
        &mut self,
        found: &[FoundSession],
        interrupted: &AtomicBool,
        progress: &(dyn Fn(ImportProgress) + Sync),
    ) -> Result<FilesImported, ImportFilesError> {
        let projects = ProjectIds { projects: self.projects.as_ref(), known: Mutex::default() };
        let project = |dir: &Path| projects.of(dir);
        let read = AtomicU64::new(0);
        let work = ImportWork { store: &self.store, project: &project, interrupted, read: &read };
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcome = Mutex::new(FilesImported::default());
        lock(&outcome).sessions.resize_with(found.len(), || None);
        let ledger = Mutex::new(&mut self.ledger);
        let root = self.root.as_deref();
        let one = |index: usize, session: &FoundSession| {
            let agent = session.agent.as_str();
            let known = lock(&ledger).get(agent, &session.id).cloned();
            match import_session(&work, session, known.as_ref()) {
                Ok((imported, recorded)) => {
                    if let Some(slot) = lock(&outcome).sessions.get_mut(index) {
                        *slot = Some(imported);
                    }
                    if let Some(recorded) = recorded {
                        lock(&ledger).put(agent, &session.id, recorded);
                    }
                }
                Err(ImportFilesError::Interrupted) => lock(&outcome).interrupted = true,
                Err(error) => _ = lock(&outcome).failed.insert(index, error),
            }
            let count = done.fetch_add(1, Ordering::Relaxed) + 1;
            match root {
                Some(root) if count.is_multiple_of(LEDGER_EVERY) => lock(&ledger).write(root),
                _ => Ok(()),
            }
        };
        let written = std::thread::scope(|scope| {
            let worker = || {
                while !interrupted.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(session) = found.get(index) else { break };
                    one(index, session)?;
                }
                Ok::<(), ImportFilesError>(())
            };
            let workers: Vec<_> =
                (0..self.threads.min(found.len())).map(|_| scope.spawn(worker)).collect();
            let tell = || {
                let sessions = done.load(Ordering::Relaxed);
                progress(ImportProgress { sessions, bytes: read.load(Ordering::Relaxed) });
            };
            while workers.iter().any(|worker| !worker.is_finished()) {
                std::thread::park_timeout(TELLING.min(Duration::from_millis(5)));
                tell();
            }
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        });
        written?;
        let mut outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome.interrupted |= interrupted.load(Ordering::Relaxed);
        if let Some(root) = root {
            lock(&ledger).write(root)?;
        }
        Ok(outcome)
    }
}

/// The projects of directories, each looked up once.
struct ProjectIds<'a> {
    projects: Option<&'a Projects>,
    known: Mutex<HashMap<PathBuf, Option<String>>>,
}

impl ProjectIds<'_> {
    /// The id of a directory's project; `None` if it cannot be told.
    fn of(&self, dir: &Path) -> Option<String> {
        let mut known = lock(&self.known);
        if let Some(known) = known.get(dir) {
            return known.clone();
        }
        let id = self.projects.and_then(|projects| projects.for_recording(dir).ok());
        let id = id.map(|identity| identity.id);
        known.insert(dir.to_owned(), id.clone());
        id
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
