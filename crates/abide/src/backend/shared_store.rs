//! The store on PostgreSQL and its capabilities, with objects in the database or in S3-compatible storage.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abide_local::{
    BundleHeader, CleanupOutcome, CleanupPlan, CleanupRules, CollectError, CollectionSummary,
    DiskUse, EraseError, EraseOutcome, ErasePlan, EventPart, Examination, FileMatches,
    FinishedRepair, ImportedBundle, LocalChildSocket, RepairPlan, RepairRequest, SessionLiveness,
    TextMatches, write_through_holder,
};
use abide_model::{
    CreatedSession, Finding, History, HistoryQuery, NewSession, ObjectHash, Objects, Seq,
    SessionId, SessionReader, SessionRef, SessionSummary, SessionWriter, Store, StoreError,
    UsageQuery, UsageReport,
};
use abide_objects::{CacheOptions, ObjectsOptions, ObjectsUrl, RemoteObjects};
use abide_postgres::{MigratedVersions, PostgresStore, ServerUrl, StoreStatus};

use super::storing_writer::StoringWriter;
use super::{
    Bundle, BundleStore, COLLECTION_GRACE, Capabilities, ChildBatchObserver, ChildRelay,
    ChildService, EraseRemains, LivenessProbe, Maintenance, ObjectCollector, PayloadEraser,
    ProjectRegistry, SessionCleaner, StoreDoctor, StoreHome,
};
use crate::consent::is_usable;
use crate::{Error, locate::ProjectIdentity};

/// Maximum size of the local object cache in bytes.
const CACHE_BYTES: u64 = 2 << 30;

/// How long to wait for new object storage to answer.
const FIRST_CONTACT: Duration = Duration::from_secs(5);

/// Options for opening a shared store.
#[derive(Debug, Clone, Default)]
pub struct SharedOptions {
    /// The project whose sessions are the default; `None` for all projects.
    pub project: Option<ProjectIdentity>,
    /// That project's directory on this machine, which holds the files of its sessions whichever
    /// machine they were started on. `None` if they are at each session's recorded path.
    pub here: Option<PathBuf>,
    /// Take over a session even if its holder is alive.
    pub take_over: bool,
    /// The directory for this machine's derived data, if there is one.
    pub cache: Option<PathBuf>,
    /// The session that the parent process passed to this one. While the parent holds it, writes go
    /// through the parent.
    pub child_of: Option<SessionId>,
    /// The local directory in which the store may keep its objects. The store itself says where
    /// they are; if it names another directory it is refused ([`Error::LocalObjects`]).
    pub local_objects: Option<PathBuf>,
}

/// A store on a server.
#[derive(Debug)]
pub struct SharedStore {
    inner: PostgresStore,
    cache: Option<PathBuf>,
    here: Option<PathBuf>,
    child_of: Option<SessionId>,
}

impl SharedStore {
    /// Opens an existing store.
    pub fn open(url: &str, options: SharedOptions) -> Result<Self, Error> {
        let url = parse_shared_url(url)?;
        let store = PostgresStore::open(&url, shared_settings(&options))?;
        let cache = shared_cache_dir(&options, &store);
        let objects = store.objects_place()?;
        let inner = match objects {
            None => store,
            Some(place) => {
                let place = ObjectsUrl::parse(&place)?;
                check_shared_is_local(&place, &options, &store)?;
                let remote = remote_objects(place, cache.as_deref())?;
                store.with_objects(Arc::new(remote))
            }
        };
        let here = options.project.and(options.here);
        Ok(Self { inner, cache, here, child_of: options.child_of })
    }

    /// Creates a store or upgrades an existing one. Objects go to `objects` (`s3://bucket/prefix`,
    /// with the feature `s3`), or else into the database. An existing store keeps them where they
    /// are.
    pub fn init(url: &str, objects: Option<&str>) -> Result<MigratedVersions, Error> {
        let url = parse_shared_url(url)?;
        let objects = objects.map(|place| Ok::<_, Error>((place, ObjectsUrl::parse(place)?)));
        let objects = objects.transpose()?;
        if let Some((_, url)) = &objects {
            url.check_supported()?;
        }
        let options = shared_settings(&SharedOptions::default());
        let (store, migrated) = PostgresStore::init(&url, options)?;
        if let Some((place, url)) = objects {
            store.check_objects_place(place)?;
            // Ask for an object that does not exist, to see whether the storage is reachable.
            let mut options = ObjectsOptions::of(std::env::vars_os());
            options.patience = FIRST_CONTACT;
            let remote = RemoteObjects::open(url, &options)?;
            remote.has(&[ObjectHash::of(b"abide")])?;
            store.set_objects_place(place)?;
        }
        Ok(migrated)
    }

    /// Upgrades the tables of an existing store.
    pub fn migrate(url: &str) -> Result<MigratedVersions, Error> {
        let url = parse_shared_url(url)?;
        let store = PostgresStore::connect(&url, shared_settings(&SharedOptions::default()))?;
        if store.version()?.is_none() {
            return Err(StoreError::NotMade { place: store.place() }.into());
        }
        Ok(store.migrate()?)
    }

    /// Reads a store's own description, whatever its version.
    pub fn status(url: &str) -> Result<StoreStatus, Error> {
        let url = parse_shared_url(url)?;
        let store = PostgresStore::connect(&url, shared_settings(&SharedOptions::default()))?;
        Ok(store.status()?)
    }

    /// The socket on which the holder of a session serves its children on this machine.
    fn socket_of(&self, session: SessionId) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.join("sockets").join(session.to_string()))
    }

    fn write_now(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError> {
        if self.child_of == Some(session) {
            return self.write_beside_holder(session, wait);
        }
        self.inner.write(session, wait)
    }

    fn write_beside_holder(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError> {
        let Some(socket) = self.socket_of(session) else {
            return self.inner.write(session, wait);
        };
        let reader = self.inner.read(session)?;
        let own = || self.inner.write(session, Duration::ZERO);
        let writer = write_through_holder(&socket, &reader, session, wait, own)?;
        Ok(StoringWriter::over(writer, self.inner.stored_check()))
    }
}

impl SharedStore {
    /// The session with the directory of its whole project: on another machine, its workspace is
    /// the same part of that machine's clone.
    fn placed(&self, mut session: NewSession) -> NewSession {
        let fields = &mut session.fields;
        if let (Some(here), Some(workspace), None) =
            (&self.here, &fields.workspace, &fields.project)
            && Path::new(workspace).starts_with(here)
        {
            fields.project = Some(here.to_string_lossy().into_owned());
        }
        session
    }
}

fn parse_shared_url(url: &str) -> Result<ServerUrl, Error> {
    Ok(ServerUrl::parse(url)?)
}

fn shared_settings(options: &SharedOptions) -> abide_postgres::PostgresOptions {
    let projects = options.project.iter();
    let projects = projects.flat_map(|it| std::iter::once(&it.id).chain(&it.also)).cloned();
    abide_postgres::PostgresOptions {
        projects: projects.collect(),
        take_over: options.take_over,
        ..abide_postgres::PostgresOptions::default()
    }
}

fn shared_cache_dir(options: &SharedOptions, store: &PostgresStore) -> Option<PathBuf> {
    let name = ObjectHash::of(store.place().as_bytes()).to_string();
    let cache = options.cache.as_ref().filter(|dir| is_usable(dir))?;
    Some(cache.join(name.chars().take(16).collect::<String>()))
}

/// Creates a directory that only this user can access.
fn make_private_cache(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
}

/// Refuses a local directory that only the store names: otherwise whoever can write the store's
/// settings would decide where files are written here.
fn check_shared_is_local(
    place: &ObjectsUrl,
    options: &SharedOptions,
    store: &PostgresStore,
) -> Result<(), Error> {
    match place {
        ObjectsUrl::Directory(directory) if options.local_objects.as_ref() != Some(directory) => {
            Err(Error::LocalObjects { place: store.place(), directory: directory.clone() })
        }
        _ => Ok(()),
    }
}

fn remote_objects(url: ObjectsUrl, cache: Option<&Path>) -> Result<RemoteObjects, Error> {
    let mut options = ObjectsOptions::of(std::env::vars_os());
    options.cache =
        cache.map(|dir| CacheOptions { directory: dir.join("objects"), bytes: CACHE_BYTES });
    Ok(RemoteObjects::open(url, &options)?)
}

impl Capabilities {
    /// The capabilities of a shared store.
    #[must_use]
    pub fn of_shared(store: &Arc<SharedStore>) -> Self {
        Self::of_store(store)
    }
}

impl StoreHome for SharedStore {
    fn place(&self) -> String {
        self.inner.place()
    }

    fn cache_dir(&self) -> Option<PathBuf> {
        self.cache.clone()
    }

    fn store_id(&self) -> Result<Option<String>, Error> {
        Ok(Some(self.inner.store_id()?))
    }

    fn make_store_id(&self) -> Result<String, Error> {
        Ok(self.inner.store_id()?)
    }

    fn objects_mark(&self) -> Result<Option<String>, Error> {
        Ok(Some(self.inner.objects_mark()?))
    }
}

impl ProjectRegistry for SharedStore {
    fn projects(&self) -> &[String] {
        &self.inner.options().projects
    }

    fn project_of(&self, session: SessionId) -> Result<Option<String>, Error> {
        Ok(self.inner.project_of(session)?)
    }

    fn workspace_here(&self, session: SessionId) -> Result<Option<PathBuf>, Error> {
        let Some(here) = &self.here else { return Ok(None) };
        // Other projects' sessions have nothing to do with these files.
        let ours = self.inner.list()?;
        Ok(ours.iter().any(|ours| ours.id == session).then(|| here.clone()))
    }
}

impl LivenessProbe for SharedStore {
    fn livenesses(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, Error>> {
        let found = self.inner.livenesses(sessions);
        found.into_iter().map(|found| found.map_err(Error::from)).collect()
    }

    fn is_held(&self, session: SessionId) -> bool {
        self.inner.is_held(session)
    }
}

impl BundleStore for SharedStore {
    fn export_bundle(
        &self,
        session: SessionId,
        out: &mut dyn Write,
    ) -> Result<BundleHeader, Error> {
        Ok(self.inner.export_bundle(session, out)?)
    }

    fn check_bundle(
        &self,
        bundle: Bundle<'_>,
        project: Option<&str>,
    ) -> Result<ImportedBundle, Error> {
        Ok(self.inner.check_bundle(bundle, project)?)
    }

    fn import_bundle(
        &self,
        bundle: Bundle<'_>,
        project: Option<&str>,
        wait: Duration,
    ) -> Result<ImportedBundle, Error> {
        Ok(self.inner.import_bundle(bundle, project, wait)?)
    }
}

impl ChildRelay for SharedStore {
    fn write_through_holder(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError> {
        self.write_beside_holder(session, wait)
    }

    fn serve_children(
        &self,
        session: SessionId,
        writer: &Arc<dyn SessionWriter>,
        seen: ChildBatchObserver,
    ) -> Result<ChildService, Error> {
        let lacking = || Error::Lacking {
            what: "child processes without a private directory",
            place: self.place(),
        };
        let socket = self.socket_of(session).ok_or_else(lacking)?;
        if let Some(dir) = socket.parent() {
            make_private_cache(dir).map_err(|source| StoreError::Storage {
                action: "make",
                place: dir.display().to_string(),
                source: Arc::new(source),
            })?;
        }
        let socket = LocalChildSocket::new(&socket, session, writer, seen)?;
        Ok(ChildService::new(socket))
    }
}

impl Maintenance for SharedStore {
    fn disk_use(&self) -> Result<DiskUse, Error> {
        let used = self.inner.space()?;
        Ok(DiskUse {
            journals: used.events,
            state: used.state,
            objects: used.objects,
            index: used.index,
            other: used.other,
            total: used.events + used.state + used.objects + used.index + used.other,
            ..DiskUse::default()
        })
    }

    fn delete_session(&self, session: SessionId) -> Result<Vec<String>, Error> {
        self.inner.delete_session(session)?;
        Ok(Vec::new())
    }

    fn erase_payloads(
        &self,
        session: SessionId,
        seqs: &[Seq],
        wait: Duration,
    ) -> Result<EraseOutcome, Error> {
        let plan = self.inner.eraser().plan(session, seqs)?;
        Ok(self.inner.eraser().apply(&plan, None, wait)?)
    }

    fn has_erased(&self, session: SessionId) -> Result<bool, Error> {
        Ok(self.inner.has_erased(session)?)
    }
}

impl PayloadEraser for SharedStore {
    fn tidy_erasures(&self, wait: Duration) -> Result<EraseRemains, EraseError> {
        let (count, finished) = self.inner.eraser().finish(wait)?;
        Ok(EraseRemains {
            finished: count > 0,
            unfinished: self.inner.eraser().is_erasing()?,
            notes: finished.notes,
            ..EraseRemains::default()
        })
    }

    fn is_erasing(&self) -> Result<bool, StoreError> {
        self.inner.eraser().is_erasing()
    }

    fn event_parts(&self, session: SessionId) -> Result<Vec<EventPart>, StoreError> {
        self.inner.eraser().parts_of(session)
    }

    fn find_payloads(&self, session: SessionId, text: &str) -> Result<TextMatches, StoreError> {
        self.inner.eraser().find_payloads(session, text)
    }

    fn find_files(&self, parts: &[EventPart], text: &str) -> Result<FileMatches, StoreError> {
        self.inner.eraser().find_files(parts, text)
    }

    fn plan_erasure(&self, session: SessionId, seqs: &[Seq]) -> Result<ErasePlan, EraseError> {
        self.inner.eraser().plan(session, seqs)
    }

    fn apply_erasures(
        &self,
        plans: &[ErasePlan],
        reason: Option<&str>,
        wait: Duration,
        each: &mut dyn FnMut(&ErasePlan, &EraseOutcome),
    ) -> Result<Vec<String>, EraseError> {
        self.inner.eraser().apply_all(plans, reason, wait, each)
    }

    fn erase_unnamed(&self, wait: Duration) -> Result<EraseOutcome, EraseError> {
        self.inner.eraser().erase_unnamed(wait)
    }
}

impl ObjectCollector for SharedStore {
    fn preview_collection(
        &self,
        notes: &mut Vec<String>,
    ) -> Result<CollectionSummary, CollectError> {
        self.inner.collector().preview(COLLECTION_GRACE, notes)
    }

    fn collect_objects(
        &self,
        wait: Duration,
        notes: &mut Vec<String>,
    ) -> Result<CollectionSummary, CollectError> {
        self.inner.collector().collect(COLLECTION_GRACE, wait, notes)
    }
}

impl SessionCleaner for SharedStore {
    fn cleanup_rules(&self) -> CleanupRules {
        CleanupRules { known_by: self.projects().to_vec(), ..CleanupRules::default() }
    }

    fn plan_cleanup(&self, rules: &CleanupRules) -> Result<CleanupPlan, StoreError> {
        self.inner.cleaner().plan(rules, COLLECTION_GRACE)
    }

    fn apply_cleanup(
        &self,
        plan: &CleanupPlan,
        rules: &CleanupRules,
        wait: Duration,
    ) -> Result<CleanupOutcome, StoreError> {
        self.inner.cleaner().apply(plan, rules, COLLECTION_GRACE, wait)
    }
}

impl StoreDoctor for SharedStore {
    fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        self.inner.doctor().sessions()
    }

    fn examine(&self, session: SessionId) -> Result<Examination, StoreError> {
        self.inner.doctor().examine(session)
    }

    fn examine_store(&self) -> Result<Vec<Finding>, StoreError> {
        self.inner.doctor().examine_store()
    }

    fn plan(
        &self,
        examination: &Examination,
        request: RepairRequest,
    ) -> Result<RepairPlan, StoreError> {
        self.inner.doctor().plan(examination, request)
    }

    fn plan_store(&self, findings: &[Finding]) -> Result<RepairPlan, StoreError> {
        Ok(self.inner.doctor().plan_store(findings))
    }

    fn repair(
        &self,
        plan: &RepairPlan,
        request: RepairRequest,
        wait: Duration,
    ) -> Result<FinishedRepair, StoreError> {
        self.inner.doctor().repair(plan, request, wait)
    }

    fn accept(&self, session: SessionId, wait: Duration) -> Result<(), StoreError> {
        self.inner.doctor().accept(session, wait)
    }
}

impl Store for SharedStore {
    fn create(&self, session: NewSession) -> Result<CreatedSession, StoreError> {
        self.inner.create(self.placed(session))
    }

    fn fork(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Result<CreatedSession, StoreError> {
        self.inner.fork(parent, at, session)
    }

    fn find(&self, reference: &SessionRef) -> Result<SessionId, StoreError> {
        self.inner.find(reference)
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        self.inner.list()
    }

    fn history(&self, query: &HistoryQuery) -> Result<History, StoreError> {
        self.inner.history(query)
    }

    fn usage(&self, query: &UsageQuery) -> Result<UsageReport, StoreError> {
        self.inner.usage(query)
    }

    fn write(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError> {
        self.write_now(session, wait)
    }

    fn read(&self, session: SessionId) -> Result<Arc<dyn SessionReader>, StoreError> {
        self.inner.read(session)
    }

    fn objects(&self) -> Result<Arc<dyn Objects>, StoreError> {
        self.inner.objects()
    }
}
