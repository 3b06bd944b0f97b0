//! The store itself: creates, finds, lists and opens sessions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use abide_journal::{
    Access, AppendTarget, Appender, Disk, Environment, FillingPolicy, Journal, JournalError,
    JournalIdentity, LockMode, Packs, SegmentForm, Storage, StorageLock, Sum, Watermark,
    write_full,
};
use abide_maintain::SealOutcome;
use abide_model::{
    CreatedSession, History, HistoryQuery, Kind, NewEvent, NewSession, Objects, Payload,
    ReadFinding, Recovery, Seq, SessionCreated, SessionId, SessionReader, SessionRef, SessionState,
    SessionSummary, SessionWriter, Store, StoreError, UsageQuery, UsageReport, WriterHolder,
};
use abide_workspace::SecretFiles;

use crate::config::{Config, ConfiguredProject, TranscriptPolicy, WorkspaceChange};
use crate::derived::changed_sessions::ChangedMark;
use crate::derived::index::IndexProgressCallback;
use crate::derived::state_cache::{CachedJournalEnd, StateCache, StatePages};
use crate::derived::transcript_worker::{TranscriptSession, TranscriptTarget, TranscriptWorker};
use crate::error::{storage_error, store_error};
use crate::maintain::disk_use::{DiskUse, disk_use};
use crate::relay::{LocalChildSocket, write_through_holder};
use crate::sessions::heartbeat::{Heartbeat, holder_in, name_holder};
use crate::sessions::keys::SessionKey;
use crate::sessions::local_objects::LocalObjects;
use crate::sessions::local_reader::LocalReader;
use crate::sessions::local_writer::{LocalWriter, WriterStart};
use crate::sessions::recovery;
use crate::sessions::sealer::{SealScope, Sealer, Sealing};
use crate::sessions::session_ancestry::MissingParentPolicy;
use crate::sessions::session_directory::SessionDirectory;
use crate::sessions::settle::settle_session;
use crate::sessions::store_id;
use crate::shield;
use crate::store_layout::{SessionLayout, StoreLayout, layout_path_text, session_name, short_of};

/// Who seals segments, and writes the transcript if the settings keep one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Upkeep {
    /// The writer, in the background.
    #[default]
    Beside,
    /// Nobody, unless asked.
    ByHand,
}

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// The file system.
    pub storage: Arc<dyn Storage>,
    /// Clock, randomness and identity.
    pub env: Environment,
    /// Who seals segments and writes the transcript.
    pub upkeep: Upkeep,
    /// The state is cached after this many events, and when a writer closes.
    pub snapshot_every: u64,
    /// When and how far a writer fills segments ahead of its lines.
    pub filling: FillingPolicy,
    /// Called with the progress while an index is built.
    pub progress: IndexProgressCallback,
    /// The session that the parent process passed to this one. If the parent holds it, this process
    /// writes through the parent.
    pub child_of: Option<SessionId>,
    /// The ids of the project whose sessions are meant if none is named. New sessions get the
    /// first. If empty, all sessions are meant.
    pub projects: Vec<String>,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            storage: Arc::new(Disk),
            env: Environment::default(),
            upkeep: Upkeep::default(),
            snapshot_every: 4096,
            filling: FillingPolicy::default(),
            progress: IndexProgressCallback::default(),
            child_of: None,
            projects: Vec::new(),
        }
    }
}

/// A store on local files.
#[derive(Debug)]
pub struct LocalStore {
    layout: StoreLayout,
    options: LocalOptions,
    config: Config,
    packs: Arc<Packs>,
    /// Where sessions were found. A session's directory is never renamed.
    found: Mutex<HashMap<SessionId, SessionLayout>>,
    /// Why the settings could not be read, if the store was opened regardless.
    settings_trouble: Option<StoreError>,
}

/// What a new session starts from.
#[derive(Debug)]
pub(crate) struct LocalStartingState {
    /// The event before its first, and its sum.
    pub(crate) last: (Seq, Sum),
    /// The state at that event.
    pub(crate) state: SessionState,
}

impl LocalStartingState {
    /// An empty start.
    fn of(id: SessionId) -> Self {
        Self { last: (Seq::ZERO, Sum::genesis(id)), state: SessionState::default() }
    }
}

/// The initial state of a new session is cached unless it is larger than this. A fork is small, and
/// can read its parent.
const FIRST_SNAPSHOT: usize = 32 << 10;

/// Hides the store from git.
const GITIGNORE: &str = "*\n";

impl LocalStore {
    /// Opens the store in this directory.
    pub fn open(root: &Path, options: LocalOptions) -> Result<Self, StoreError> {
        let layout = StoreLayout { root: root.to_owned() };
        layout.refuse_links()?;
        shield::mend_shield(&*options.storage, &layout);
        let config = Config::read(&*options.storage, &layout.config())?;
        Ok(Self::with(layout, options, config, None))
    }

    /// Opens a store to examine and repair it. If its settings cannot be read, the defaults are
    /// used.
    pub fn open_to_repair(root: &Path, options: LocalOptions) -> Result<Self, StoreError> {
        let layout = StoreLayout { root: root.to_owned() };
        layout.refuse_links()?;
        match Config::read(&*options.storage, &layout.config()) {
            Ok(config) => Ok(Self::with(layout, options, config, None)),
            Err(trouble) => Ok(Self::with(layout, options, Config::default(), Some(trouble))),
        }
    }

    fn with(
        layout: StoreLayout,
        options: LocalOptions,
        config: Config,
        settings_trouble: Option<StoreError>,
    ) -> Self {
        let packs = Packs::new(options.storage.clone(), layout.objects());
        let packs = Arc::new(packs.with_compression(config.objects.compression()));
        let found = Mutex::default();
        Self { layout, options, config, packs, found, settings_trouble }
    }

    pub(crate) const fn settings_trouble(&self) -> Option<&StoreError> {
        self.settings_trouble.as_ref()
    }

    /// Creates a store in this directory, or opens the existing one. A store that is opened for a
    /// project is marked as holding many ([`holds_many_projects`](crate::holds_many_projects)), so
    /// that a program that only knows its path can tell.
    pub fn init(root: &Path, options: LocalOptions) -> Result<Self, StoreError> {
        let mut store = Self::make_or_open(root, options)?;
        if !store.options.projects.is_empty() && store.config.projects.is_none() {
            store.mark_as_of_many();
        }
        Ok(store)
    }

    /// Captures files of the workspace `root` from now on although they are ignored: adds patterns to
    /// `workspace.include` in the settings of the store or, if it holds many projects, of this one.
    /// It applies once the store is opened again.
    pub fn include(&self, root: &Path, patterns: &[String]) -> Result<(), StoreError> {
        self.change_workspace(root, WorkspaceChange::Include(patterns))
    }

    /// Sets `workspace.secrets` for the workspace `root`, where [`LocalStore::include`] sets
    /// `workspace.include`. It applies once the store is opened again.
    pub fn set_secret_files(&self, root: &Path, secrets: SecretFiles) -> Result<(), StoreError> {
        self.change_workspace(root, WorkspaceChange::Secrets(secrets))
    }

    fn change_workspace(&self, root: &Path, change: WorkspaceChange<'_>) -> Result<(), StoreError> {
        let _lock = self.cleaner().hold_cleanup()?;
        let project = ConfiguredProject { ids: &self.options.projects, root };
        Config::change_workspace(&**self.storage(), &self.layout.config(), &project, change)
    }

    /// Best effort: if it fails, the next writer tries again.
    fn mark_as_of_many(&mut self) {
        if let Ok(Some(_lock)) = self.cleaner().lock_cleanup(LockMode::Exclusive)
            && let Ok(config) = Config::mark(&**self.storage(), &self.layout.config())
        {
            self.config.projects = config.projects;
        }
    }

    fn make_or_open(root: &Path, options: LocalOptions) -> Result<Self, StoreError> {
        let layout = StoreLayout { root: root.to_owned() };
        layout.refuse_links()?;
        let storage = &*options.storage;
        if shield::mend_shield(storage, &layout)
            || storage.open(&layout.config(), Access::Read).is_ok()
        {
            return Self::open(root, options);
        }
        for dir in [root.to_owned(), layout.sessions(), layout.objects()] {
            storage.make_dir(&dir).map_err(storage_error("create", &dir))?;
        }
        // The configuration file makes the store exist: everything else must be durable before it.
        storage.sync_dir(root).map_err(storage_error("sync", root))?;
        let ignore = layout.gitignore();
        match storage.open(&ignore, Access::CreateNew) {
            Ok(file) => {
                write_full(&*file, GITIGNORE.as_bytes(), 0)
                    .map_err(storage_error("write", &ignore))?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(storage_error("create", &ignore)(error)),
        }
        Config::write_default(storage, &layout.config())?;
        storage.sync_dir(root).map_err(storage_error("sync", root))?;
        if let Some(parent) = root.parent() {
            storage.sync_dir(parent).map_err(storage_error("sync", parent))?;
        }
        shield::raise_shield(storage, &layout);
        Self::open(root, options)
    }

    /// The store's directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.layout.root
    }

    /// The directory of a session.
    ///
    /// # Errors
    ///
    /// There is no such session, or the store cannot be read.
    pub fn session_dir(&self, id: SessionId) -> Result<PathBuf, StoreError> {
        Ok(self.layout_of(id)?.dir)
    }

    /// The store's id; `None` if it has none yet.
    pub fn store_id(&self) -> Option<String> {
        store_id::read_store_id(&**self.storage(), &self.layout)
    }

    /// The store's id, created if it has none. Durable.
    pub fn make_store_id(&self) -> Result<String, StoreError> {
        store_id::make_store_id(self)
    }

    /// The disk usage of the store.
    pub fn disk_use(&self) -> Result<DiskUse, StoreError> {
        disk_use(self)
    }

    /// The store's objects, for reading and writing.
    pub fn objects(&self) -> Result<LocalObjects, StoreError> {
        Ok(LocalObjects::new(self.packs.clone()))
    }

    /// The directory for derived data of this machine.
    #[must_use]
    pub fn cache_dir(&self) -> PathBuf {
        self.layout.cache()
    }

    /// [`LocalStore::cache_dir`], created if missing and possible.
    #[must_use]
    pub fn make_cache_dir(&self) -> PathBuf {
        let dir = self.cache_dir();
        let _ = self.storage().make_dir(&dir);
        dir
    }

    /// The store's settings.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Replaces the settings.
    #[must_use]
    pub fn with_config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// The ids of the project that the store was opened for; empty if all sessions are meant.
    #[must_use]
    pub fn projects(&self) -> &[String] {
        &self.options.projects
    }

    pub(crate) const fn packs(&self) -> &Arc<Packs> {
        &self.packs
    }

    pub(crate) const fn layout(&self) -> &StoreLayout {
        &self.layout
    }

    pub(crate) const fn options(&self) -> &LocalOptions {
        &self.options
    }

    pub(crate) fn sessions_dir(&self) -> PathBuf {
        self.layout.sessions()
    }

    /// Where running imports put what they read.
    pub(crate) fn imports_dir(&self) -> PathBuf {
        self.layout.imports()
    }

    pub(crate) const fn upkeep(&self) -> Upkeep {
        self.options.upkeep
    }

    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.options.storage
    }

    /// The names of the sessions' directories, newest first.
    pub(crate) fn names(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.unsorted_names()?;
        // Names start with the time.
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(names)
    }

    pub(crate) fn unsorted_names(&self) -> Result<Vec<String>, StoreError> {
        let dir = self.layout.sessions();
        let mut names = self.storage().list(&dir).map_err(storage_error("list", &dir))?;
        names.retain(|name| short_of(name).is_some());
        Ok(names)
    }

    /// Files and directories in the sessions directory that are not sessions.
    pub fn foreign_files(&self) -> Result<Vec<PathBuf>, StoreError> {
        let dir = self.layout.sessions();
        let names = self.storage().list(&dir).map_err(storage_error("list", &dir))?;
        Ok(names
            .iter()
            .filter(|name| short_of(name).is_none() && *name != shield::NAME)
            .map(|name| dir.join(name))
            .collect())
    }

    /// Which session a directory belongs to. Only a missing one counts as never created; anything
    /// else that keeps it from being read is an error.
    pub(crate) fn identify(&self, layout: &SessionLayout) -> Result<JournalIdentity, JournalError> {
        self.directory().identify(layout)
    }

    pub(crate) fn directory(&self) -> SessionDirectory {
        SessionDirectory::new(self.storage().clone(), self.layout.clone())
    }

    pub(crate) fn id_of(&self, layout: &SessionLayout) -> Option<SessionId> {
        match self.identify(layout) {
            Ok(JournalIdentity::Known(id)) => Some(id),
            _ => None,
        }
    }

    /// The directory of a session.
    pub(crate) fn layout_of(&self, id: SessionId) -> Result<SessionLayout, StoreError> {
        let known = |found: &HashMap<_, SessionLayout>| found.get(&id).cloned();
        if let Some(layout) = known(&self.found.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(layout);
        }
        let layout = self.directory().find(id).map_err(store_error)?;
        let layout = layout.ok_or_else(|| StoreError::NoSession { reference: id.to_string() })?;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.insert(id, layout.clone());
        Ok(layout)
    }

    /// The reader of a session, for callers that need its journal.
    pub fn reader(&self, id: SessionId) -> Result<LocalReader, StoreError> {
        let layout = self.layout_of(id)?;
        Ok(self.reader_at(id, &layout))
    }

    pub(crate) fn reader_at(&self, id: SessionId, layout: &SessionLayout) -> LocalReader {
        LocalReader::new(self.storage().clone(), id, layout, self.packs.clone(), self.directory())
    }

    /// Creates a session unless one has its key. `begin` is called only if it is created.
    pub(crate) fn make(
        &self,
        session: NewSession,
        begin: impl FnOnce(
            SessionId,
            NewSession,
        ) -> Result<(NewSession, LocalStartingState), StoreError>,
    ) -> Result<CreatedSession, StoreError> {
        let projects = &self.options.projects;
        let Some(key) = session.fields.key.clone() else {
            let id = self.new_id(&session);
            let (session, beginning) = begin(id, session)?;
            let session = session.in_project(projects);
            return self.create_at(id, session, beginning).map(|()| CreatedSession::new(id));
        };
        // A key counts within the caller's project.
        let session = session.in_project(projects);
        let project = session.fields.project_id.clone().unwrap_or_default();
        let keys = self.finder().all_keys()?;
        let id = match self.finder().key_holder(&keys, &project, &key)? {
            Some(id) if self.is_made(id)? => return Ok(CreatedSession::known(id)),
            // The key was assigned and the session never created: a crash between the two.
            Some(id) => id,
            None => {
                let id = self.new_id(&session);
                keys.put(SessionKey { project: &project, key: &key }, id)?;
                id
            }
        };
        let (session, beginning) = begin(id, session)?;
        self.create_at(id, session, beginning).map(|()| CreatedSession::new(id))
    }

    /// Whether this session was ever created. A failure to find out is an error, never "no".
    pub(crate) fn is_made(&self, id: SessionId) -> Result<bool, StoreError> {
        match self.layout_of(id) {
            Ok(_) => Ok(true),
            Err(StoreError::NoSession { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn new_id(&self, session: &NewSession) -> SessionId {
        let mut random = [0; 10];
        (self.options.env.random)(&mut random);
        SessionId::new(session.id_time((self.options.env.now)()), random)
    }

    fn create_at(
        &self,
        id: SessionId,
        session: NewSession,
        beginning: LocalStartingState,
    ) -> Result<(), StoreError> {
        let storage = self.storage();
        shield::raise_shield(&**storage, &self.layout);
        let layout = self.free_layout(id)?;
        for dir in [layout.dir.clone(), layout.journal(), layout.state()] {
            storage.make_dir(&dir).map_err(storage_error("create", &dir))?;
        }
        let lock = self.lock_session(id, &layout, Duration::from_secs(2))?;
        // What a crash left of an earlier attempt to create this session. Checked under the lock;
        // removed only if nothing was ever acknowledged.
        let journal = Journal::new(storage.clone(), layout.journal());
        if self.identify(&layout).map_err(store_error)? != JournalIdentity::Empty {
            return Err(StoreError::Damaged {
                place: layout_path_text(&layout.dir),
                reason: "it already has events".to_owned(),
            });
        }
        for name in journal.segments().map_err(store_error)? {
            let path = layout.journal().join(name.file_name());
            storage.remove(&path).map_err(storage_error("remove", &path))?;
        }
        let new_names = vec![layout.journal(), layout.dir.clone(), self.layout.sessions()];
        let appender =
            Appender::create(self.append_to(id, &layout), lock, beginning.last, new_names)
                .map_err(store_error)?;
        let writer = LocalWriter::new(WriterStart {
            storage: storage.clone(),
            env: self.options.env.clone(),
            reader: self.reader_at(id, &layout),
            snapshot_bytes: FIRST_SNAPSHOT,
            appender,
            packs: self.packs.clone(),
            snapshots: StateCache::new(storage.clone(), layout.state()),
            at: id.created().max(beginning.state.core.at),
            state: beginning.state,
            pages: StatePages::new(storage.clone(), layout.state(), 0, 0),
            durable: beginning.last.0,
            stand: None,
            recovered: None,
            notes: Vec::new(),
            changed: ChangedMark::new(storage, &self.layout, &layout.dir),
            scribe: None,
            heartbeat: None,
            object_bytes: self.config.journal.object_bytes,
            snapshot_every: self.options.snapshot_every,
            sealer: None,
        })?;
        let created = SessionCreated { session: id, fields: session.fields };
        let data = Payload::of(&created).map_err(|source| {
            StoreError::Append(abide_model::AppendError::Input {
                index: 0,
                source: Arc::new(source),
            })
        })?;
        writer.begin(NewEvent::new(Kind::SESSION_CREATED, data))
    }

    pub(crate) fn append_to(&self, session: SessionId, layout: &SessionLayout) -> AppendTarget {
        AppendTarget {
            storage: self.storage().clone(),
            dir: layout.journal(),
            session,
            watermark: layout.watermark(),
            limit: self.config.journal.segment_bytes,
            filling: self.options.filling,
        }
    }

    /// The directory for a new session. If its name is taken, a longer short id is used.
    pub(crate) fn free_layout(&self, id: SessionId) -> Result<SessionLayout, StoreError> {
        for short in SessionId::SHORT..=12 {
            let layout = self.layout.session(&session_name(id, short));
            if self.identify(&layout).map_err(store_error)? == JournalIdentity::Empty {
                return Ok(layout);
            }
        }
        Err(StoreError::Damaged {
            place: layout_path_text(&self.layout.sessions()),
            reason: format!("no free directory name for session {id}"),
        })
    }

    pub(crate) fn lock_session(
        &self,
        session: SessionId,
        layout: &SessionLayout,
        wait: Duration,
    ) -> Result<Box<dyn StorageLock>, StoreError> {
        self.lock_at(session, &layout.lock(), wait)
    }

    pub(crate) fn lock_at(
        &self,
        session: SessionId,
        path: &Path,
        wait: Duration,
    ) -> Result<Box<dyn StorageLock>, StoreError> {
        let until = Instant::now().checked_add(wait);
        let mut pause = Duration::from_millis(1);
        loop {
            let lock = self.storage().lock(path, LockMode::Exclusive);
            if let Some(lock) = lock.map_err(storage_error("lock", path))? {
                name_holder(&**self.storage(), path, &self.options.env);
                return Ok(lock);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(StoreError::Held { session, holder: Box::new(self.holder_of(path)) });
            }
            std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    fn holder_of(&self, path: &Path) -> WriterHolder {
        holder_in(&**self.storage(), path).unwrap_or_else(|| WriterHolder {
            program: "another writer".to_owned(),
            ..WriterHolder::default()
        })
    }

    /// Opens a session for writing: takes the lock and recovers the end of the journal.
    pub fn writer(&self, session: SessionId, wait: Duration) -> Result<LocalWriter, StoreError> {
        let layout = self.layout_of(session)?;
        let lock = self.lock_session(session, &layout, wait)?;
        self.writer_with(session, &layout, lock)
    }

    /// [`LocalStore::writer`] with a lock that is already held.
    pub(crate) fn writer_with(
        &self,
        session: SessionId,
        layout: &SessionLayout,
        lock: Box<dyn StorageLock>,
    ) -> Result<LocalWriter, StoreError> {
        let seals = self.options.upkeep == Upkeep::Beside && self.config.journal.seal;
        self.writer_over(session, layout, lock, seals.then(Sealer::default))
    }

    /// A writer that leaves segments as they are, for a repair or its undoing: what was just put in
    /// its place stays there.
    pub(crate) fn repair_writer(
        &self,
        session: SessionId,
        layout: &SessionLayout,
        lock: Box<dyn StorageLock>,
    ) -> Result<LocalWriter, StoreError> {
        self.writer_over(session, layout, lock, None)
    }

    fn writer_over(
        &self,
        session: SessionId,
        layout: &SessionLayout,
        lock: Box<dyn StorageLock>,
        mut sealer: Option<Sealer>,
    ) -> Result<LocalWriter, StoreError> {
        let storage = self.storage();
        let journal = Journal::new(storage.clone(), layout.journal());
        storage.make_dir(&layout.state()).map_err(storage_error("create", &layout.state()))?;
        let mark = Watermark::read(&**storage, &layout.watermark()).map_err(store_error)?;
        let mut snapshots = StateCache::new(storage.clone(), layout.state());
        let reader = self.reader_at(session, layout);
        let mut look =
            recovery::look_for_recovery(&reader, &mut snapshots, mark, MissingParentPolicy::Refuse)
                .map_err(store_error)?;
        let notes = notes_of_recovery(&look);
        let recovered = recovery_to_record(&look);
        let mended =
            recovery::mend_recovered_journal(&**storage, &journal, session, &mut look, mark)
                .map_err(store_error)?;
        let new_names = if mended.new_name {
            vec![layout.journal(), layout.dir.clone(), self.layout.sessions()]
        } else {
            Vec::new()
        };
        let to = self.append_to(session, layout);
        let appender =
            Appender::resume(to, lock, look.end, mended.durable, new_names).map_err(store_error)?;
        // A killed writer left full segments plain.
        if let Some(sealer) = &mut sealer
            && let Some(before) = look.end.segment.checked_sub(1).filter(|before| *before > 0)
            && journal.form_of(before) == Some(SegmentForm::Plain)
        {
            sealer.start(storage, journal.dir());
        }
        LocalWriter::new(WriterStart {
            storage: storage.clone(),
            env: self.options.env.clone(),
            reader,
            snapshot_bytes: usize::MAX,
            appender,
            packs: self.packs.clone(),
            snapshots,
            state: look.state,
            pages: look.pages,
            at: look.at,
            durable: mended.durable,
            stand: Some(CachedJournalEnd { end: look.end, line: look.line }),
            recovered,
            notes,
            changed: ChangedMark::new(storage, &self.layout, &layout.dir),
            scribe: self.scribe(session, layout),
            heartbeat: Heartbeat::of(&**storage, &layout.lock()),
            object_bytes: self.config.journal.object_bytes,
            snapshot_every: self.options.snapshot_every,
            sealer,
        })
    }

    fn write_now(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError> {
        if self.options.child_of == Some(session) {
            return self.write_through_holder(session, wait);
        }
        Ok(Arc::new(self.writer(session, wait)?))
    }

    /// Opens a session for writing through the process that holds it, if that listens
    /// ([`LocalStore::serve_children`]). If no process holds it, this one does.
    pub fn write_through_holder(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError> {
        let layout = self.layout_of(session)?;
        let reader: Arc<dyn SessionReader> = Arc::new(self.reader_at(session, &layout));
        let own = || -> Result<Arc<dyn SessionWriter>, StoreError> {
            Ok(Arc::new(self.writer(session, Duration::ZERO)?))
        };
        write_through_holder(&layout.socket(), &reader, session, wait, own)
    }

    /// Lets other processes of this user write to a session that this one holds, through a socket in
    /// the session's directory: its children, and whoever opens the session by
    /// [`LocalStore::write_through_holder`]. What they record goes through `writer`, the session's, while
    /// it exists. `seen` is called with each batch recorded for one of them, before it is answered; it must not
    /// block.
    pub fn serve_children(
        &self,
        session: SessionId,
        writer: &Arc<dyn SessionWriter>,
        seen: impl Fn(&[NewEvent]) + Send + Sync + 'static,
    ) -> Result<LocalChildSocket, StoreError> {
        let layout = self.layout_of(session)?;
        LocalChildSocket::new(&layout.socket(), session, writer, Box::new(seen))
    }

    /// Forgets a session that is no longer in the store.
    pub(crate) fn forget(&self, session: SessionId) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
    }

    /// Whether no writer has this session open.
    pub(crate) fn at_rest(&self, layout: &SessionLayout) -> Result<bool, StoreError> {
        let lock = self.storage().lock(&layout.lock(), LockMode::Shared);
        Ok(lock.map_err(storage_error("lock", &layout.lock()))?.is_some())
    }

    fn scribe(&self, session: SessionId, layout: &SessionLayout) -> Option<TranscriptWorker> {
        let desk = self.desk(session, layout);
        let beside = self.options.upkeep == Upkeep::Beside;
        (beside && self.keeps_transcripts()).then(|| TranscriptWorker::new(desk))
    }

    /// Whether the settings want each session in readable form beside its journal.
    pub(crate) fn keeps_transcripts(&self) -> bool {
        self.config.transcript == TranscriptPolicy::Live
    }

    pub(crate) fn desk(&self, session: SessionId, layout: &SessionLayout) -> TranscriptSession {
        let (storage, packs) = (self.storage().clone(), self.packs.clone());
        TranscriptSession {
            storage,
            session,
            layout: layout.clone(),
            packs,
            directory: self.directory(),
        }
    }

    /// Brings a session's transcript up to date, if the settings keep one, and unless another
    /// process is doing so.
    pub fn update_transcript(&self, session: SessionId) -> Result<(), StoreError> {
        if !self.keeps_transcripts() {
            return Ok(());
        }
        let layout = self.layout_of(session)?;
        let Some(mut transcript) = self.desk(session, &layout).transcript() else { return Ok(()) };
        // Beside a writer only what is acknowledged, otherwise everything that can be read.
        let until = if self.at_rest(&layout)? {
            TranscriptTarget::End
        } else {
            TranscriptTarget::Acknowledged
        };
        transcript.update(until, &|_| true).map_err(store_error)
    }

    /// Seals the full segments of a session. The last one, to which the next writer appends, stays
    /// plain.
    pub fn seal(&self, session: SessionId, wait: Duration) -> Result<SealOutcome, StoreError> {
        self.seal_full(session, wait, u64::MAX)
    }

    /// As [`LocalStore::seal`]; begins no segment once `most` plain bytes are sealed.
    pub(crate) fn seal_full(
        &self,
        session: SessionId,
        wait: Duration,
        most: u64,
    ) -> Result<SealOutcome, StoreError> {
        let layout = self.layout_of(session)?;
        let _lock = self.lock_session(session, &layout, wait)?;
        let journal = layout.journal();
        let sealing = Sealing { most, ..Sealing::of(self.storage(), &journal) };
        sealing.seal(SealScope::Full).map_err(store_error)
    }

    /// Seals every segment of a session; the next writer starts a new one.
    pub fn seal_whole(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<SealOutcome, StoreError> {
        self.seal_all(session, wait, u64::MAX)
    }

    /// As [`LocalStore::seal_whole`]; begins no segment once `most` plain bytes are sealed.
    pub(crate) fn seal_all(
        &self,
        session: SessionId,
        wait: Duration,
        most: u64,
    ) -> Result<SealOutcome, StoreError> {
        let layout = self.layout_of(session)?;
        let lock = self.lock_session(session, &layout, wait)?;
        let journal = layout.journal();
        let sealing = Sealing { most, ..Sealing::of(self.storage(), &journal) };
        let look = self.reader_at(session, &layout).look(MissingParentPolicy::PassOver);
        let look = look.map_err(store_error)?;
        if !look.damage.is_empty() || look.torn.is_some() {
            // The next writer recovers the end, and names what it finds.
            return sealing.seal(SealScope::Full).map_err(store_error);
        }
        let _hold = settle_session(self, session, &layout, lock)?;
        sealing.seal(SealScope::Whole).map_err(store_error)
    }

    pub(crate) fn system_time(&self) -> SystemTime {
        let millis = (self.options().env.now)().as_millis();
        SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

fn notes_of_recovery(look: &recovery::RecoveryScan) -> Vec<ReadFinding> {
    let torn = look.torn.map(|(segment, _, bytes)| ReadFinding::TornTail {
        place: format!("segment {segment}"),
        bytes,
    });
    let damage = look.damage.iter().map(|damage| ReadFinding::Damage {
        place: format!("{} at byte {}", layout_path_text(&damage.path), damage.offset),
        reason: damage.reason.to_string(),
        lost: damage.lost,
    });
    torn.into_iter().chain(damage).collect()
}

/// What to record about a recovery; `None` if nothing needed recovering.
fn recovery_to_record(look: &recovery::RecoveryScan) -> Option<Recovery> {
    // Damage that an earlier writer has already named is not named again.
    let lost: Vec<_> = look.lost().into_iter().filter(|(_, last)| *last == look.end.seq).collect();
    let cut_bytes = look.torn.map_or(0, |(_, _, bytes)| bytes);
    (cut_bytes > 0 || !lost.is_empty()).then(|| Recovery {
        strategy: "tail".to_owned(),
        cut_bytes,
        requires_validation: !lost.is_empty(),
        lost,
        ..Recovery::default()
    })
}

impl Store for LocalStore {
    fn create(&self, session: NewSession) -> Result<CreatedSession, StoreError> {
        self.make(session, |id, session| Ok((session, LocalStartingState::of(id))))
    }

    fn fork(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Result<CreatedSession, StoreError> {
        self.forker().fork(parent, at, session)
    }

    fn find(&self, reference: &SessionRef) -> Result<SessionId, StoreError> {
        self.finder().find(reference)
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        Ok(SessionSummary::of(&self.finder().sessions()?))
    }

    fn history(&self, query: &HistoryQuery) -> Result<History, StoreError> {
        self.index().history(query)
    }

    fn usage(&self, query: &UsageQuery) -> Result<UsageReport, StoreError> {
        self.index().usage(query)
    }

    fn write(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError> {
        self.write_now(session, wait)
    }

    fn read(&self, session: SessionId) -> Result<Arc<dyn SessionReader>, StoreError> {
        Ok(Arc::new(self.reader(session)?))
    }

    fn objects(&self) -> Result<Arc<dyn Objects>, StoreError> {
        Ok(Arc::new(LocalStore::objects(self)?))
    }
}
