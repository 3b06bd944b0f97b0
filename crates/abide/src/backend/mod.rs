//! Capabilities: what a store may be able to do beyond [`abide_model::Store`].
//!
//! Each capability is a small trait that a store has or lacks as a whole; no method answers that
//! it is not supported. Code above asks for a capability, never for a kind of store, and
//! [`crate::Store`] alone reports what is missing.

pub use crate::store::{DEFAULT_WAIT, HeldSessionAccess};
pub use abide_local::CreatedSession;
pub use abide_model::Objects;

mod local;
#[cfg(feature = "shared")]
mod shared_store;
#[cfg(feature = "shared")]
mod storing_writer;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use abide_local::{
    BundleHeader, BundleReader, CleanupOutcome, CleanupPlan, CleanupRules, CollectError,
    CollectionSummary, DiskUse, EraseError, EraseOutcome, ErasePlan, EventPart, Examination,
    FileMatches, FinishedRepair, ImportedBundle, Leftovers, LocalStore, RepairPlan, RepairRequest,
    SessionLiveness, TextMatches,
};
use abide_model::{Finding, NewEvent, Seq, SessionId, SessionWriter, StoreError};

use crate::Error;

#[cfg(feature = "shared")]
pub use self::shared_store::{SharedOptions, SharedStore};

/// A collection leaves objects that were stored in this time.
const COLLECTION_GRACE: Duration = Duration::from_secs(3600);

/// A bundle read from any source.
pub type Bundle<'a> = BundleReader<Box<dyn Read + 'a>>;

/// Called with each batch that was recorded for a child process.
pub type ChildBatchObserver = Box<dyn Fn(&[NewEvent]) + Send + Sync>;

/// What a store can do beyond holding sessions. By default, nothing.
#[derive(Debug, Clone, Default)]
pub struct Capabilities {
    /// It has a location and an id.
    pub home: Option<Arc<dyn StoreHome>>,
    /// It tells sessions of several projects apart.
    pub projects: Option<Arc<dyn ProjectRegistry>>,
    /// It knows the state of its sessions' writers.
    pub liveness: Option<Arc<dyn LivenessProbe>>,
    /// It exports and imports bundles.
    pub bundles: Option<Arc<dyn BundleStore>>,
    /// It lets child processes write to a session that this process holds.
    pub relay: Option<Arc<dyn ChildRelay>>,
    /// It measures, deletes and erases what it holds.
    pub maintenance: Option<Arc<dyn Maintenance>>,
    /// It finds and erases what was recorded.
    pub eraser: Option<Arc<dyn PayloadEraser>>,
    /// It removes objects that nothing names.
    pub collector: Option<Arc<dyn ObjectCollector>>,
    /// It removes sessions by their age and number.
    pub cleaner: Option<Arc<dyn SessionCleaner>>,
    /// It examines and repairs what it holds.
    pub doctor: Option<Arc<dyn StoreDoctor>>,
    /// It is a directory of files, with settings and transcripts.
    pub files: Option<Arc<LocalStore>>,
}

impl Capabilities {
    /// The capabilities that the store on local files and the shared one have in common.
    fn of_store<S>(store: &Arc<S>) -> Self
    where
        S: StoreHome
            + ProjectRegistry
            + LivenessProbe
            + BundleStore
            + ChildRelay
            + Maintenance
            + PayloadEraser
            + ObjectCollector
            + SessionCleaner
            + StoreDoctor
            + 'static,
    {
        Self {
            home: Some(store.clone()),
            projects: Some(store.clone()),
            liveness: Some(store.clone()),
            bundles: Some(store.clone()),
            relay: Some(store.clone()),
            maintenance: Some(store.clone()),
            eraser: Some(store.clone()),
            collector: Some(store.clone()),
            cleaner: Some(store.clone()),
            doctor: Some(store.clone()),
            files: None,
        }
    }
}

/// Where a store is and how it is recognised.
pub trait StoreHome: fmt::Debug + Send + Sync {
    /// The store's location for display, without secrets.
    fn place(&self) -> String;
    /// The directory for this machine's derived data, if there is one.
    fn cache_dir(&self) -> Option<PathBuf>;
    /// An id that tells this store from another one that later appears at the same location; `None`
    /// if it has none yet.
    fn store_id(&self) -> Result<Option<String>, Error>;
    /// The store id, created if it is missing.
    fn make_store_id(&self) -> Result<String, Error>;
    /// Changes whenever other machines may have removed objects; `None` if only this one can. What
    /// this machine remembers of the objects is of no use after that.
    fn objects_mark(&self) -> Result<Option<String>, Error>;
}

/// Which projects the sessions of a store belong to.
pub trait ProjectRegistry: fmt::Debug + Send + Sync {
    /// The ids of the project that the store was opened for; empty for all projects.
    fn projects(&self) -> &[String];
    /// The id of the project that a session was recorded in, if known.
    fn project_of(&self, session: SessionId) -> Result<Option<String>, Error>;
    /// Where a session's files are in the local clone of its project, whichever machine it was
    /// started on; `None` if they are at the session's recorded path.
    fn workspace_here(&self, session: SessionId) -> Result<Option<PathBuf>, Error>;
}

/// Looks at the writers of sessions.
pub trait LivenessProbe: fmt::Debug + Send + Sync {
    /// The state of these sessions' writers, each by itself.
    fn livenesses(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, Error>>;
    /// Returns true if somebody has this session open for writing. Cheap, so not certain.
    fn is_held(&self, session: SessionId) -> bool;
}

/// Exports and imports sessions as bundles.
pub trait BundleStore: fmt::Debug + Send + Sync {
    /// Exports a session with all its objects.
    fn export_bundle(&self, session: SessionId, out: &mut dyn Write)
    -> Result<BundleHeader, Error>;
    /// Reports what [`BundleStore::import_bundle`] would do.
    fn check_bundle(
        &self,
        bundle: Bundle<'_>,
        project: Option<&str>,
    ) -> Result<ImportedBundle, Error>;
    /// Imports a session, complete and verified, or not at all. A new session that names no project
    /// is assigned to `project`, or else to the one the store was opened for. Waits up to `wait`
    /// for a writer.
    fn import_bundle(
        &self,
        bundle: Bundle<'_>,
        project: Option<&str>,
        wait: Duration,
    ) -> Result<ImportedBundle, Error>;
}

/// Lets several processes of one user write to a session: one holds it and writes for the others.
pub trait ChildRelay: fmt::Debug + Send + Sync {
    /// Opens a session for writing through the process that holds it, if that serves others. If no
    /// process holds it, this one does.
    fn write_through_holder(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError>;
    /// Writes for other processes until the returned service is dropped, through `writer`, the session's. `seen` is
    /// called with each batch that was recorded for one.
    fn serve_children(
        &self,
        session: SessionId,
        writer: &Arc<dyn SessionWriter>,
        seen: ChildBatchObserver,
    ) -> Result<ChildService, Error>;
}

/// Measures and removes what a store holds.
pub trait Maintenance: fmt::Debug + Send + Sync {
    /// Disk usage.
    fn disk_use(&self) -> Result<DiskUse, Error>;
    /// Deletes a session permanently. Returns notes about what could not be cleaned up afterwards.
    fn delete_session(&self, session: SessionId) -> Result<Vec<String>, Error>;
    /// Erases the payloads of these events, which must be the session's own. Waits up to `wait` for
    /// a writer.
    fn erase_payloads(
        &self,
        session: SessionId,
        seqs: &[Seq],
        wait: Duration,
    ) -> Result<EraseOutcome, Error>;
    /// Whether events of a session were erased here, also if it was removed since. An import leaves
    /// their data out.
    fn has_erased(&self, session: SessionId) -> Result<bool, Error>;
}

/// What earlier erasures have left to be done, and whether it was.
#[derive(Debug, Clone, Default)]
pub struct EraseRemains {
    /// Interrupted erasures were finished.
    pub finished: bool,
    /// One still is not.
    pub unfinished: bool,
    /// What was left of removed sessions and of imports, and was deleted.
    pub leftovers: Leftovers,
    /// What could not be done, and why.
    pub notes: Vec<String>,
}

/// Finds what was recorded, and erases it.
pub trait PayloadEraser: fmt::Debug + Send + Sync {
    /// Finishes interrupted erasures, and deletes their remains.
    fn tidy_erasures(&self, wait: Duration) -> Result<EraseRemains, EraseError>;
    /// Whether an erasure is in progress or was interrupted.
    fn is_erasing(&self) -> Result<bool, StoreError>;
    /// Where the events of a session are: for a fork, the shared ones first and its own last.
    fn event_parts(&self, session: SessionId) -> Result<Vec<EventPart>, StoreError>;
    /// The session's own events whose payload, objects included, contains a text.
    fn find_payloads(&self, session: SessionId, text: &str) -> Result<TextMatches, StoreError>;
    /// The checkpoints and rewinds among these events whose files contain a text, and the objects
    /// that contain it and that nothing in the store names.
    fn find_files(&self, parts: &[EventPart], text: &str) -> Result<FileMatches, StoreError>;
    /// Plans the erasure of the payloads of these events, all of them the session's own. Changes
    /// nothing.
    fn plan_erasure(&self, session: SessionId, seqs: &[Seq]) -> Result<ErasePlan, EraseError>;
    /// Applies erasures one after the other, and calls `each` with what was done. Waits this long
    /// for writers to close. Returns notes on all of them.
    fn apply_erasures(
        &self,
        plans: &[ErasePlan],
        reason: Option<&str>,
        wait: Duration,
        each: &mut dyn FnMut(&ErasePlan, &EraseOutcome),
    ) -> Result<Vec<String>, EraseError>;
    /// Removes every object that nothing names, however new.
    fn erase_unnamed(&self, wait: Duration) -> Result<EraseOutcome, EraseError>;
}

/// Removes objects that nothing names and that were not just stored.
pub trait ObjectCollector: fmt::Debug + Send + Sync {
    /// What a collection would remove, with notes on what cannot be told.
    fn preview_collection(
        &self,
        notes: &mut Vec<String>,
    ) -> Result<CollectionSummary, CollectError>;
    /// Removes it. Waits this long for those who store objects.
    fn collect_objects(
        &self,
        wait: Duration,
        notes: &mut Vec<String>,
    ) -> Result<CollectionSummary, CollectError>;
}

/// Removes sessions by retention, and then the objects that nothing names any more.
pub trait SessionCleaner: fmt::Debug + Send + Sync {
    /// The rules of the store's settings. A shared store has none: nothing goes by them.
    fn cleanup_rules(&self) -> CleanupRules;
    /// What a cleanup by these rules would do. Changes nothing.
    fn plan_cleanup(&self, rules: &CleanupRules) -> Result<CleanupPlan, StoreError>;
    /// Applies a plan as far as it still holds: a session that was used since stays. Waits this long
    /// for those who store objects.
    fn apply_cleanup(
        &self,
        plan: &CleanupPlan,
        rules: &CleanupRules,
        wait: Duration,
    ) -> Result<CleanupOutcome, StoreError>;
}

/// Examines what a store holds, and repairs it.
pub trait StoreDoctor: fmt::Debug + Send + Sync {
    /// The sessions to examine, newest first.
    fn sessions(&self) -> Result<Vec<SessionId>, StoreError>;
    /// Examines a session: every line and link, its events, every object they name, and what is
    /// derived from them.
    fn examine(&self, session: SessionId) -> Result<Examination, StoreError>;
    /// Examines what the store has beside its sessions.
    fn examine_store(&self) -> Result<Vec<Finding>, StoreError>;
    /// Plans the repair of a session. Changes nothing.
    fn plan(
        &self,
        examination: &Examination,
        request: RepairRequest,
    ) -> Result<RepairPlan, StoreError>;
    /// Plans the repair of what the store has beside its sessions. Changes nothing.
    fn plan_store(&self, findings: &[Finding]) -> Result<RepairPlan, StoreError>;
    /// Repairs as planned. If the session has changed since, nothing is done. Waits up to `wait`
    /// for a writer.
    fn repair(
        &self,
        plan: &RepairPlan,
        request: RepairRequest,
        wait: Duration,
    ) -> Result<FinishedRepair, StoreError>;
    /// Records that a person has looked at what a repair left.
    fn accept(&self, session: SessionId, wait: Duration) -> Result<(), StoreError>;
}

/// Serves the child processes of a session's holder. Dropping it disconnects them.
pub struct ChildService(Box<dyn fmt::Debug + Send>);

impl ChildService {
    /// Wraps whatever serves them until it is dropped.
    pub fn new(serving: impl fmt::Debug + Send + 'static) -> Self {
        Self(Box::new(serving))
    }
}

impl fmt::Debug for ChildService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
