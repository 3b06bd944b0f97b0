//! The store, for blocking code.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use abide_local::{
    BundleHeader, CreatedSession, DiskUse, Environment, EraseOutcome, ImportOutcome,
    ImportedBundle, LocalOptions, LocalStore, SessionLiveness, SessionScope, StoreFinder,
    StoreLocation, StorePlace, TrustPolicy, UserDirs, find_store, make_parents, store_of_project,
};
use abide_model::{
    History, HistoryQuery, NewSession, ObjectHash, Objects, Retention, Seq, SessionFields,
    SessionId, SessionRef, SessionSummary, SessionWriter, StoreError, Timestamp, UsageQuery,
    UsageReport,
};
use abide_secrets::Redactor;
use abide_workspace::Policy;
use tempfile::TempDir;

use crate::acceptance::{check_accepted, own_consent};
use crate::backend::{
    Bundle, BundleStore, Capabilities, ChildBatchObserver, ChildService, Maintenance,
    ObjectCollector, PayloadEraser, SessionCleaner, StoreDoctor,
};
#[cfg(feature = "shared")]
use crate::backend::{SharedOptions, SharedStore};
use crate::redaction::{Redaction, redacting_writer};
use crate::{Consent, Error, Session, SessionView, locate::Projects};

/// Default time to wait for another writer to release a session.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(2);

/// How a session that another process holds is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeldSessionAccess {
    /// Wait for the other process to release it.
    #[default]
    Wait,
    /// Write through the other process, if it serves others ([`Session::serve_children`]).
    ThroughHolder,
}

/// A store of sessions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<dyn abide_model::Store>,
    capabilities: Arc<Capabilities>,
    wait: Duration,
    held: HeldSessionAccess,
    pub(crate) consent: Consent,
    /// The project directory of new sessions, if the store holds sessions of many projects.
    project_dir: Option<PathBuf>,
    redaction: Redaction,
    /// Derived data of this process, used if the user has no directory for it.
    scratch: Arc<OnceLock<TempDir>>,
}

impl Store {
    /// Opens the store for the current directory, as the commands find it: `ABIDE_STORE`, else
    /// `.abide` here or above, else the store named in the user's settings, else the user's own
    /// store, which is created if it is missing. In a store that holds many projects, the current
    /// project is the default for queries and new sessions.
    pub fn open_default() -> Result<Self, Error> {
        let from = std::env::current_dir().map_err(Error::CurrentDir)?;
        let person = UserDirs::of_process();
        let mut finder = StoreFinder::of_process()?;
        if let Some(StoreLocation::Files(named)) = &mut finder.named {
            // Absolute, so that it stays valid if the process changes its directory.
            *named = from.join(&*named);
        }
        let place = finder.find(&from)?;
        check_accepted(&place, &finder.trust, Some(&own_consent()))?;
        match &place.store {
            StoreLocation::Files(_) => {
                Self::for_recording(&place, &from, &person, LocalOptions::default())
            }
            #[cfg(feature = "shared")]
            StoreLocation::Shared(url) => {
                let project = Some(Projects::in_state(&person).for_recording(&from)?);
                let (here, cache) = (Some(place.project.clone()), person.cache);
                let options = SharedOptions { project, here, cache, ..SharedOptions::default() };
                Self::connect(url, options)
            }
            #[cfg(not(feature = "shared"))]
            StoreLocation::Shared(url) => {
                Err(Error::OnlyFiles { what: "this build", place: url.to_string() })
            }
        }
    }

    /// Opens the local store at this place, creating it if it is missing, to record what happens in
    /// `dir`. In a store that holds many projects, new sessions belong to the project of `dir`.
    pub fn for_recording(
        place: &StorePlace,
        dir: &Path,
        person: &UserDirs,
        options: LocalOptions,
    ) -> Result<Self, Error> {
        let StoreLocation::Files(root) = &place.store else {
            return Err(Error::OnlyFiles {
                what: "opening by directory",
                place: place.store.to_string(),
            });
        };
        make_parents(root)?;
        let mut store = LocalStore::init(root, options.clone())?;
        if place.scope == SessionScope::Project {
            // The id is kept in the store, which must be complete first.
            let projects = Projects::in_store(root, person).for_recording(dir)?.ids();
            store = LocalStore::init(root, LocalOptions { projects, ..options })?;
        }
        Ok(Self::local(store).in_project(place))
    }

    /// Makes new sessions record the directory of their whole project, if the store holds many
    /// projects.
    #[must_use]
    pub fn in_project(mut self, place: &StorePlace) -> Self {
        self.project_dir = (place.scope == SessionScope::Project).then(|| place.project.clone());
        self
    }

    /// The session with the directory of its whole project.
    fn placed(&self, mut session: NewSession) -> NewSession {
        let fields = &mut session.fields;
        if let (Some(dir), Some(workspace), None) =
            (&self.project_dir, &fields.workspace, &fields.project)
            && Path::new(workspace).starts_with(dir)
        {
            fields.project = Some(SessionFields::workspace_text(dir));
        }
        session
    }

    /// Opens the store of a directory: `.abide` in it or above it. Refuses a store that another
    /// user owns or can write to, and a store outside the project that a project file points to,
    /// unless the user has accepted it ([`Consent`]).
    pub fn open(from: impl AsRef<Path>) -> Result<Self, Error> {
        let from = std::path::absolute(from).map_err(Error::CurrentDir)?;
        let place = find_store(&from, &TrustPolicy::of_process())?;
        let place = place.ok_or(Error::NoStore { from })?;
        Ok(Self::local(LocalStore::open(&local_store_files(place)?, LocalOptions::default())?))
    }

    /// A store on local files, with its own settings.
    #[must_use]
    pub fn local(store: impl Into<Arc<LocalStore>>) -> Self {
        let store = store.into();
        let capabilities = Capabilities::of_local(&store);
        Self::with_capabilities(store, capabilities)
    }

    /// Like [`Store::open`], but creates a store if there is none: at the root of the git checkout,
    /// or else in the directory itself.
    pub fn open_or_init(from: impl AsRef<Path>) -> Result<Self, Error> {
        let from = std::path::absolute(from).map_err(Error::CurrentDir)?;
        let place = store_of_project(&from, &TrustPolicy::of_process())?;
        Ok(Self::local(LocalStore::init(&local_store_files(place)?, LocalOptions::default())?))
    }

    /// Wraps any store. It supports sessions and events, and none of the [`Capabilities`].
    #[must_use]
    pub fn over(inner: Arc<dyn abide_model::Store>) -> Self {
        Self::with_capabilities(inner, Capabilities::default())
    }

    /// Connects to a team's shared store by URL.
    #[cfg(feature = "shared")]
    pub fn connect(url: &abide_model::StoreUrl, options: SharedOptions) -> Result<Self, Error> {
        url.check().map_err(|source| Error::Url { url: url.clone(), source })?;
        let store = Arc::new(SharedStore::open(url.reveal(), options)?);
        let capabilities = Capabilities::of_shared(&store);
        Ok(Self::with_capabilities(store, capabilities))
    }

    /// Wraps a store that can do more than hold sessions. The capabilities must be of this store.
    /// Secrets are redacted by the user's settings.
    #[must_use]
    pub fn with_capabilities(
        inner: Arc<dyn abide_model::Store>,
        capabilities: Capabilities,
    ) -> Self {
        Self {
            inner,
            capabilities: Arc::new(capabilities),
            wait: DEFAULT_WAIT,
            held: HeldSessionAccess::default(),
            consent: Consent::default(),
            project_dir: None,
            redaction: Redaction::default(),
            scratch: Arc::default(),
        }
    }

    /// Sets how secrets are redacted in what is recorded from now on.
    #[must_use]
    pub fn with_redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// How secrets are redacted in what is recorded.
    #[must_use]
    pub const fn redaction(&self) -> &Redaction {
        &self.redaction
    }

    /// What the store can do beyond holding sessions.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    pub(crate) fn inner(&self) -> &dyn abide_model::Store {
        &*self.inner
    }

    /// A capability, or an error saying that the store does not support `what`.
    fn capability<'a, T: ?Sized>(
        &self,
        capability: Option<&'a Arc<T>>,
        what: &'static str,
    ) -> Result<&'a T, Error> {
        capability.map(|it| &**it).ok_or_else(|| Error::Lacking { what, place: self.place() })
    }

    fn bundles(&self) -> Result<&dyn BundleStore, Error> {
        self.capability(self.capabilities.bundles.as_ref(), "bundles")
    }

    /// Finds what was recorded and erases it, or an error saying that `what` needs that.
    pub fn eraser(&self, what: &'static str) -> Result<&dyn PayloadEraser, Error> {
        self.capability(self.capabilities.eraser.as_ref(), what)
    }

    /// Removes objects that nothing names, or an error saying that `what` needs that.
    pub fn collector(&self, what: &'static str) -> Result<&dyn ObjectCollector, Error> {
        self.capability(self.capabilities.collector.as_ref(), what)
    }

    /// Removes sessions by retention, or an error saying that `what` needs that.
    pub fn cleaner(&self, what: &'static str) -> Result<&dyn SessionCleaner, Error> {
        self.capability(self.capabilities.cleaner.as_ref(), what)
    }

    fn maintenance(&self, what: &'static str) -> Result<&dyn Maintenance, Error> {
        self.capability(self.capabilities.maintenance.as_ref(), what)
    }

    /// The id of the store, if it has one already.
    pub(crate) fn store_id(&self) -> Result<Option<String>, Error> {
        self.capabilities.home.as_ref().map_or(Ok(None), |home| home.store_id())
    }

    /// The id of the store, created if it is missing; `None` if it cannot have one.
    pub(crate) fn make_store_id(&self) -> Result<Option<String>, Error> {
        self.capabilities.home.as_ref().map(|home| home.make_store_id()).transpose()
    }

    /// Which files are captured of the workspace in this directory.
    pub(crate) fn workspace_policy(&self, root: &Path) -> Policy {
        self.as_files().map_or_else(Policy::default, |files| {
            files.config().workspace_of(files.projects(), root)
        })
    }

    /// Lets child processes write to a session that this process holds.
    pub(crate) fn serve_children(
        &self,
        session: SessionId,
        writer: &Arc<dyn SessionWriter>,
        seen: ChildBatchObserver,
    ) -> Result<ChildService, Error> {
        let relay = self.capability(self.capabilities.relay.as_ref(), "child processes")?;
        relay.serve_children(session, writer, seen)
    }

    /// The store's location for display, without secrets.
    #[must_use]
    pub fn place(&self) -> String {
        let home = self.capabilities.home.as_ref();
        home.map_or_else(|| "this store".to_owned(), |home| home.place())
    }

    /// The directory of a local store.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.as_files().map(LocalStore::root)
    }

    /// The local store, for operations that work on files only.
    #[must_use]
    pub fn as_files(&self) -> Option<&LocalStore> {
        self.capabilities.files.as_deref()
    }

    /// Its doctor, or an error saying that the store does not support `what`.
    pub fn doctor(&self, what: &'static str) -> Result<&dyn StoreDoctor, Error> {
        self.capability(self.capabilities.doctor.as_ref(), what)
    }

    /// The local store, or an error saying that `what` works on local stores only.
    pub fn files(&self, what: &'static str) -> Result<&LocalStore, Error> {
        self.as_files().ok_or_else(|| Error::OnlyFiles { what, place: self.place() })
    }

    /// The directory that the store belongs to; `None` if it is not a project's own store.
    #[must_use]
    pub fn project(&self) -> Option<&Path> {
        let own = |root: &&Path| root.file_name().is_some_and(|name| name == ".abide");
        self.root().filter(own).and_then(Path::parent)
    }

    /// The current time, by this machine's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (Environment::default().now)()
    }

    pub(crate) fn new_checkpoint_id(&self) -> String {
        let mut random = [0; 10];
        (Environment::default().random)(&mut random);
        SessionId::new(self.now(), random).to_string()
    }

    /// The directory for this machine's derived data, created if it is missing.
    fn cache_dir(&self) -> Result<PathBuf, Error> {
        let home = self.capabilities.home.as_ref();
        let dir = home.and_then(|home| home.cache_dir());
        let dir = dir.map_or_else(|| self.scratch(), Ok)?;
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&dir).map_err(Error::file("make", &dir))?;
        Ok(dir)
    }

    /// The path of the stat cache of a workspace. Where others may remove objects, each removal
    /// leads to another path: the cache says that unchanged files are in the store.
    pub(crate) fn stat_cache(&self, root: &Path) -> Result<PathBuf, Error> {
        let path = self.workspace_note(root, "stat")?;
        let Some(mark) = self.objects_mark()? else { return Ok(path) };
        let marked = path.with_extension(format!("{mark}.stat"));
        if !marked.exists() {
            remove_marked_caches(&path);
        }
        Ok(marked)
    }

    /// The path of what this machine remembers of a workspace.
    pub(crate) fn workspace_note(&self, root: &Path, extension: &str) -> Result<PathBuf, Error> {
        let name = ObjectHash::of(root.as_os_str().as_encoded_bytes()).to_string();
        let name: String = name.chars().take(16).collect();
        Ok(self.cache_dir()?.join(name).with_extension(extension))
    }

    /// See [`crate::backend::StoreHome::objects_mark`].
    pub(crate) fn objects_mark(&self) -> Result<Option<String>, Error> {
        self.capabilities.home.as_ref().map_or(Ok(None), |home| home.objects_mark())
    }

    /// A private directory that lives as long as this process. In a directory that everyone can
    /// write to, a predictable name could be somebody else's.
    fn scratch(&self) -> Result<PathBuf, Error> {
        if self.scratch.get().is_none() {
            let mut builder = tempfile::Builder::new();
            builder.prefix("abide-").permissions(Permissions::from_mode(0o700));
            let made = builder.tempdir().map_err(|source| StoreError::Storage {
                action: "make a directory in",
                place: std::env::temp_dir().display().to_string(),
                source: Arc::new(source),
            })?;
            // If another thread was faster, this directory is removed again.
            let _ = self.scratch.set(made);
        }
        Ok(self.scratch.get().map(|dir| dir.path().to_owned()).unwrap_or_default())
    }

    /// The file that notes which of a session's files this machine's clone has.
    pub(crate) fn files_note(&self, session: SessionId) -> Result<PathBuf, Error> {
        Ok(self.cache_dir()?.join(format!("{session}.files")))
    }

    /// Where a session's files are in the local clone of its project; `None` if they are at the
    /// session's recorded path.
    pub fn workspace_here(&self, session: SessionId) -> Result<Option<PathBuf>, Error> {
        let projects = self.capabilities.projects.as_ref();
        projects.map_or(Ok(None), |projects| projects.workspace_here(session))
    }

    /// The store's objects, for reading and writing. While they are open, none is garbage
    /// collected.
    pub fn objects(&self) -> Result<Arc<dyn Objects>, Error> {
        Ok(self.inner.objects()?)
    }

    /// Sets how long to wait for a session that another writer holds.
    #[must_use]
    pub fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets how sessions that another process holds are opened for writing.
    #[must_use]
    pub const fn with_held_sessions(mut self, access: HeldSessionAccess) -> Self {
        self.held = access;
        self
    }

    /// The writer of a session, and the redactor of what it writes, if secrets are redacted. Waits
    /// for another writer.
    pub(crate) fn writer(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<(Arc<dyn SessionWriter>, Option<Redactor>), Error> {
        // Before anything is opened: without rules, nothing is written.
        let is_redacted = self.redaction.recorder(None)?.is_some();
        let writer = match (self.held, &self.capabilities.relay) {
            (HeldSessionAccess::ThroughHolder, Some(relay)) => {
                relay.write_through_holder(session, wait)?
            }
            _ => self.inner.write(session, wait)?,
        };
        if !is_redacted {
            return Ok((writer, None));
        }
        // Whoever writes through a holder was started in the workspace.
        let workspace = if writer.is_relayed() { None } else { writer.core()?.0.fields.workspace };
        let redactor = self.redaction.redactor(workspace.as_deref().map(Path::new))?;
        Ok((redacting_writer(writer, &redactor), Some(redactor)))
    }

    /// The shortest unambiguous prefix of a session's id.
    pub fn short_id(&self, session: SessionId) -> Result<String, Error> {
        if let Some(files) = self.as_files() {
            return Ok(files.finder().short_id(session)?);
        }
        let known = self.sessions()?.into_iter().find(|one| one.id == session);
        Ok(known.map_or_else(|| session.short(SessionId::SHORT), |one| one.short))
    }

    /// Creates a session without opening it. If its key exists, returns the session that has it.
    pub fn make(&self, session: NewSession) -> Result<SessionId, Error> {
        Ok(self.make_new(session)?.id)
    }

    /// Creates a session that continues from an earlier point of another one, without opening it:
    /// right after event `at`, or after the last acknowledged one. The history is shared, not
    /// copied. Fields that are not set are inherited. If the key exists, returns the session that
    /// has it.
    ///
    /// ```
    /// use abide::{Message, NewSession, SessionRef, Store};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let store = Store::open_or_init(dir.path())?;
    /// let session = store.create(NewSession::titled("one way"))?;
    /// session.append(Message::user("hello"))?.wait()?;
    /// let place = session.view().resolve("@3")?;
    /// let parent = SessionRef::Id(session.id());
    /// let fork = store.fork(&parent, Some(place.seq), NewSession::titled("another way"))?;
    /// let fork = store.open_session(&SessionRef::Id(fork))?;
    /// assert_eq!(fork.state()?.core.messages.total, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fork(
        &self,
        session: &SessionRef,
        at: Option<Seq>,
        new: NewSession,
    ) -> Result<SessionId, Error> {
        let parent = self.find(session)?;
        Ok(self.fork_new(parent, at, new)?.id)
    }

    /// Resolves a reference to a session.
    pub fn find(&self, session: &SessionRef) -> Result<SessionId, Error> {
        let missing = match (self.inner.find(session), session) {
            (Err(missing @ StoreError::NoSession { .. }), SessionRef::Key(_)) => missing,
            (found, _) => return Ok(found?),
        };
        // A key with a secret is recorded with a mark.
        match session {
            SessionRef::Key(key) => match self.redaction.key(key) {
                Ok(recorded) if recorded != *key => {
                    Ok(self.inner.find(&SessionRef::Key(recorded))?)
                }
                // Whoever only reads needs no rules.
                _ => Err(missing.into()),
            },
            _ => Err(missing.into()),
        }
    }

    /// Creates a session and opens it for writing.
    pub fn create(&self, session: NewSession) -> Result<Session, Error> {
        let id = self.make(session)?;
        Session::open(self, id, self.wait)
    }

    /// Opens the session with this client key for writing, creating it if it does not exist.
    pub fn create_or_get(&self, key: &str, session: NewSession) -> Result<Session, Error> {
        self.create(session.with_key(key))
    }

    /// Opens a session for writing. Other writers wait or are refused.
    pub fn open_session(&self, session: &SessionRef) -> Result<Session, Error> {
        let id = self.find(session)?;
        Session::open(self, id, self.wait)
    }

    /// Opens a session for reading, with or without an active writer.
    pub fn view(&self, session: &SessionRef) -> Result<SessionView, Error> {
        let id = self.find(session)?;
        Ok(SessionView::new(id, self.inner.read(id)?))
    }

    /// The ids of the project that the store was opened for; empty for all projects.
    #[must_use]
    pub fn projects(&self) -> &[String] {
        self.capabilities.projects.as_ref().map_or(&[], |projects| projects.projects())
    }

    /// The id of the project that a session was recorded in, if known.
    pub fn project_of(&self, session: SessionId) -> Result<Option<String>, Error> {
        match &self.capabilities.projects {
            Some(projects) => projects.project_of(session),
            None => Ok(self.inner.read(session)?.state()?.core.fields.project_id),
        }
    }

    /// The sessions that match, with the positions of the search matches.
    pub fn history(&self, query: &HistoryQuery) -> Result<History, Error> {
        Ok(self.inner.history(query)?)
    }

    /// The tokens that were spent, by session, time and model.
    pub fn usage(&self, query: &UsageQuery) -> Result<UsageReport, Error> {
        Ok(self.inner.usage(query)?)
    }

    /// Every session, newest first.
    pub fn sessions(&self) -> Result<Vec<SessionSummary>, Error> {
        Ok(self.inner.list()?)
    }

    /// Creates a session without opening it and tells whether it is new. If several callers use the
    /// same key at once, exactly one is told so.
    pub fn make_new(&self, session: NewSession) -> Result<CreatedSession, Error> {
        if let Some(known) = self.known_by_key(&session)? {
            return Ok(CreatedSession::known(known));
        }
        Ok(self.inner.create(self.redaction.session(self.placed(session), None)?)?)
    }

    /// Like [`Store::fork`] for a known session id; also tells whether the fork is new.
    pub fn fork_new(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Result<CreatedSession, Error> {
        if let Some(known) = self.known_by_key(&session)? {
            return Ok(CreatedSession::known(known));
        }
        // What is inherited is written anew, and may be older than its redaction.
        let like = self.inner.read(parent)?.state()?.core.fields;
        let session = self.redaction.session(self.placed(session), Some(&like))?;
        Ok(self.inner.fork(parent, at, session)?)
    }

    /// The session of this project whose key was recorded as it is, with a secret in it, before keys
    /// were redacted.
    fn known_by_key(&self, session: &NewSession) -> Result<Option<SessionId>, Error> {
        let SessionFields { key, project_id, .. } = &session.fields;
        let Some(key) = key.as_ref().filter(|_| project_id.is_none()) else { return Ok(None) };
        if self.redaction.key(key)? == *key {
            return Ok(None);
        }
        match self.inner.find(&SessionRef::Key(key.clone())) {
            Ok(known) => Ok(Some(known)),
            Err(StoreError::NoSession { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a session permanently. Nobody may hold it, and it must have no forks. Returns notes
    /// about what could not be cleaned up afterwards.
    pub fn delete_session(&self, session: SessionId) -> Result<Vec<String>, Error> {
        self.maintenance("deleting sessions")?.delete_session(session)
    }

    /// The state of a session's writer.
    pub fn liveness(&self, session: SessionId) -> Result<SessionLiveness, Error> {
        let none = || Err(StoreError::NoSession { reference: session.to_string() }.into());
        self.livenesses(&[session]).pop().unwrap_or_else(none)
    }

    /// The state of these sessions' writers, each by itself.
    #[must_use]
    pub fn livenesses(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, Error>> {
        let lacking = || Error::Lacking { what: "the liveness of writers", place: self.place() };
        match &self.capabilities.liveness {
            Some(probe) => probe.livenesses(sessions),
            None => sessions.iter().map(|_| Err(lacking())).collect(),
        }
    }

    /// Returns true if somebody has this session open for writing. Cheap, so not certain.
    #[must_use]
    pub fn is_held(&self, session: SessionId) -> bool {
        self.capabilities.liveness.as_ref().is_some_and(|probe| probe.is_held(session))
    }

    /// Disk usage.
    pub fn disk_use(&self) -> Result<DiskUse, Error> {
        self.maintenance("disk usage")?.disk_use()
    }

    /// The store's retention settings.
    #[must_use]
    pub fn retention(&self) -> Retention {
        self.as_files().map(|files| files.config().retention.clone()).unwrap_or_default()
    }

    /// Exports a session with all its objects.
    pub fn export_bundle(
        &self,
        session: SessionId,
        out: &mut dyn Write,
    ) -> Result<BundleHeader, Error> {
        self.bundles()?.export_bundle(session, out)
    }

    /// Reports what an import would do. A bundle with secrets is refused as in an import.
    pub fn check_bundle(&self, bundle: Bundle<'_>) -> Result<ImportedBundle, Error> {
        self.check_bundle_into_project(bundle, None)
    }

    /// Imports a session, complete and verified, or not at all. Its events cannot be redacted: a
    /// bundle with secrets is refused, unless the store keeps them ([`Redaction::off`]).
    pub fn import_bundle(
        &self,
        bundle: Bundle<'_>,
        wait: Duration,
    ) -> Result<ImportedBundle, Error> {
        self.import_bundle_into_project(bundle, None, wait)
    }

    /// Reports what [`Store::import_bundle_into_project`] would do.
    pub(crate) fn check_bundle_into_project(
        &self,
        bundle: Bundle<'_>,
        project: Option<&str>,
    ) -> Result<ImportedBundle, Error> {
        let (bundle, secrets) = self.redaction.bundle(bundle)?;
        self.bundles()?.check_bundle(bundle, project).map_err(|error| error.screened(&secrets))
    }

    /// Like [`Store::import_bundle`]: a new session that names no project is assigned to this one,
    /// or else to the one the store was opened for.
    pub(crate) fn import_bundle_into_project(
        &self,
        bundle: Bundle<'_>,
        project: Option<&str>,
        wait: Duration,
    ) -> Result<ImportedBundle, Error> {
        let (bundle, secrets) = self.redaction.bundle(bundle)?;
        let imported = self.bundles()?.import_bundle(bundle, project, wait);
        let imported = imported.map_err(|error| error.screened(&secrets))?;
        if matches!(imported.outcome, ImportOutcome::Forwarded { .. }) {
            self.forget_consent_to_runs(imported.bundle.session);
        }
        Ok(imported)
    }

    /// Erases the payloads of these events, which must be the session's own. Waits up to `wait` for
    /// a writer.
    pub fn erase_payloads(
        &self,
        session: SessionId,
        seqs: &[Seq],
        wait: Duration,
    ) -> Result<EraseOutcome, Error> {
        self.maintenance("erasing payloads")?.erase_payloads(session, seqs, wait)
    }

    /// Whether events of a session were erased here, also if it was removed since. An import leaves
    /// their data out.
    pub(crate) fn has_erased(&self, session: SessionId) -> Result<bool, Error> {
        self.maintenance("knowing what was erased")?.has_erased(session)
    }

    /// Updates the transcript of a session, if the store keeps one.
    pub fn update_transcript(&self, session: SessionId) -> Result<(), Error> {
        match self.as_files() {
            Some(files) => Ok(files.update_transcript(session)?),
            None => Ok(()),
        }
    }
}

/// The directory of a local store that may be used.
fn local_store_files(place: StorePlace) -> Result<PathBuf, Error> {
    match &place.store {
        StoreLocation::Files(root) => {
            check_accepted(&place, &TrustPolicy::of_process(), Some(&own_consent()))?;
            Ok(root.clone())
        }
        StoreLocation::Shared(url) => {
            Err(Error::OnlyFiles { what: "opening by directory", place: url.to_string() })
        }
    }
}

/// Removes the stat caches beside this path that are of no use any more.
fn remove_marked_caches(path: &Path) {
    let (Some(dir), Some(name)) = (path.parent(), path.file_stem().and_then(|name| name.to_str()))
    else {
        return;
    };
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let file = file.to_str().unwrap_or_default();
        if file
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".stat"))
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use abide_testkit::MemoryStore;

    use super::*;

    #[test]
    fn no_id_is_put_where_no_store_can_be_made() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let (root, project) = (home.join("store"), home.join("project"));
        for dir in [&root, &project] {
            fs::create_dir(dir).unwrap();
        }
        fs::write(root.join("config.toml"), "version = 99\n").unwrap();
        let person = UserDirs::by(|_| None, || Some(home));
        let place = StorePlace {
            store: StoreLocation::Files(root.clone()),
            project: project.clone(),
            scope: SessionScope::Project,
            elsewhere: None,
        };
        let open = || Store::for_recording(&place, &project, &person, LocalOptions::default());
        open().unwrap_err();
        assert!(!root.join("projects").exists());
        fs::remove_file(root.join("config.toml")).unwrap();
        assert_eq!(open().unwrap().projects(), open().unwrap().projects());
        assert_eq!(open().unwrap().projects().len(), 1);
        // A program that knows only its path must not take it for the store of one project.
        assert!(abide_local::holds_many_projects(&root));
    }

    #[test]
    fn what_is_derived_is_kept_where_nobody_else_can_write() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = [(), ()].map(|()| Store::over(Arc::new(MemoryStore::default())));
        let place = |store: &Store| {
            let cache = store.stat_cache(dir.path()).unwrap();
            cache.parent().unwrap().to_owned()
        };
        let own = place(&one);
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        assert_ne!(own, std::env::temp_dir().join("abide-cache"), "anybody may have made that");
        assert_ne!(own, place(&other));
        assert_eq!(own, place(&one.clone()));
        drop(one);
        assert!(!own.exists(), "it goes with whoever needed it");
    }

    #[test]
    fn a_directory_leads_to_no_place_that_its_user_has_not_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let (project, outside) = (dir.path().join("project"), dir.path().join("outside"));
        fs::create_dir(&project).unwrap();
        LocalStore::init(&outside, LocalOptions::default()).unwrap();
        fs::write(project.join(".abide"), "../outside\n").unwrap();
        for refused in [Store::open(&project), Store::open_or_init(&project)] {
            assert!(matches!(refused, Err(Error::NotAccepted { .. })), "{refused:?}");
        }
    }
}
