//! A store, for blocking code.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abide_local::{Environment, LocalStore, Options, find_store, store_for_recording};
use abide_model::{
    History, HistoryQuery, NewSession, ObjectHash, Objects, Seq, SessionId, SessionRef,
    SessionSummary, Store as StoreTrait, Timestamp,
};
use abide_workspace::Policy;
use pollster::block_on;

use crate::{Error, Session, SessionView};

/// How long to wait for another writer to let a session go, unless said otherwise.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(2);

/// Where sessions live. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<dyn StoreTrait>,
    /// The same, where it is on local files.
    local: Option<Arc<LocalStore>>,
    wait: Duration,
    workspace: Arc<WorkspaceSettings>,
}

/// How the files of workspaces are dealt with.
#[derive(Debug, Clone, Default)]
struct WorkspaceSettings {
    policy: Policy,
    /// Where what is derived is kept on this machine.
    cache: Option<PathBuf>,
    /// The directory that the store belongs to.
    project: Option<PathBuf>,
}

impl Store {
    /// The store of a directory: `.abide` in it or above it.
    pub fn open(from: impl AsRef<Path>) -> Result<Self, Error> {
        let from = std::path::absolute(from)?;
        let place = find_store(&from).ok_or(Error::NoStore { from })?;
        Ok(Self::local(LocalStore::open(&place.store, Options::default())?))
    }

    /// A store on local files, with its settings.
    #[must_use]
    pub fn local(store: impl Into<Arc<LocalStore>>) -> Self {
        let store = store.into();
        let workspace = WorkspaceSettings {
            policy: store.config().workspace.clone(),
            cache: Some(store.cache_dir()),
            project: store.root().parent().map(Path::to_owned),
        };
        let (inner, local) = (store.clone(), Some(store));
        Self { inner, local, wait: DEFAULT_WAIT, workspace: Arc::new(workspace) }
    }

    /// The store of a directory, made where there is none: at the root of the git checkout, else
    /// in the directory itself.
    pub fn open_or_init(from: impl AsRef<Path>) -> Result<Self, Error> {
        let place = store_for_recording(&std::path::absolute(from)?);
        Ok(Self::local(LocalStore::init(&place.store, Options::default())?))
    }

    /// A store of any kind.
    #[must_use]
    pub fn over(inner: Arc<dyn StoreTrait>) -> Self {
        Self { inner, local: None, wait: DEFAULT_WAIT, workspace: Arc::default() }
    }

    pub(crate) fn inner(&self) -> &Arc<dyn StoreTrait> {
        &self.inner
    }

    /// The store on local files that it is.
    pub(crate) const fn as_local(&self) -> Option<&Arc<LocalStore>> {
        self.local.as_ref()
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.workspace.policy
    }

    pub(crate) fn project(&self) -> Option<PathBuf> {
        self.workspace.project.clone()
    }

    /// The time now, by this machine's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (Environment::default().now)()
    }

    pub(crate) fn new_checkpoint_id(&self) -> String {
        let mut random = [0; 10];
        (Environment::default().random)(&mut random);
        SessionId::new(self.now(), random).to_string()
    }

    /// The file that remembers what the files of a workspace looked like.
    pub(crate) fn stat_cache(&self, root: &Path) -> Result<PathBuf, Error> {
        let dir = match &self.workspace.cache {
            Some(dir) => dir.clone(),
            None => std::env::temp_dir().join("abide-cache"),
        };
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&dir)?;
        let name = ObjectHash::of(root.as_os_str().as_encoded_bytes()).to_string();
        Ok(dir.join(name.chars().take(16).collect::<String>()).with_extension("stat"))
    }

    /// The file that says which rewind of a session's files this machine has begun.
    pub(crate) fn rewind_note(&self, session: SessionId) -> Result<PathBuf, Error> {
        let cache = self.stat_cache(Path::new(""))?;
        Ok(cache.with_file_name(format!("{session}.rewind")))
    }

    /// The store's objects, to put and to read. While they are open, none is collected.
    pub fn objects(&self) -> Result<Arc<dyn Objects>, Error> {
        Ok(block_on(self.inner.objects())?)
    }

    /// The same store, with another time to wait for a session that somebody else writes.
    #[must_use]
    pub fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Makes a session without opening it; with a key that is known, gives the session that has it.
    pub fn make(&self, session: NewSession) -> Result<SessionId, Error> {
        Ok(block_on(self.inner.create(session))?)
    }

    /// Makes a session that goes on from a place in another one's past, without opening it: right
    /// behind event `at`, or behind the last acknowledged one. The past is shared, not copied. What
    /// the new session is not told it has from the other; with a key that is known, the session
    /// that has it is given.
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
    /// # Ok::<(), abide::Error>(())
    /// ```
    pub fn fork(
        &self,
        session: &SessionRef,
        at: Option<Seq>,
        new: NewSession,
    ) -> Result<SessionId, Error> {
        let parent = block_on(self.inner.find(session))?;
        Ok(block_on(self.inner.fork(parent, at, new))?)
    }

    /// Which session is meant?
    pub fn find(&self, session: &SessionRef) -> Result<SessionId, Error> {
        Ok(block_on(self.inner.find(session))?)
    }

    /// Makes a session and opens it for writing.
    pub fn create(&self, session: NewSession) -> Result<Session, Error> {
        let id = block_on(self.inner.create(session))?;
        Session::open(self, id, self.wait)
    }

    /// The session that has this client's key, made where there is none, open for writing.
    pub fn create_or_get(&self, key: &str, session: NewSession) -> Result<Session, Error> {
        self.create(session.with_key(key))
    }

    /// Opens a session for writing. Anybody else who wants to write to it waits or is refused.
    pub fn open_session(&self, session: &SessionRef) -> Result<Session, Error> {
        let id = block_on(self.inner.find(session))?;
        Session::open(self, id, self.wait)
    }

    /// Opens a session for reading, beside its writer or without one.
    pub fn view(&self, session: &SessionRef) -> Result<SessionView, Error> {
        let id = block_on(self.inner.find(session))?;
        Ok(SessionView::new(id, block_on(self.inner.read(id))?))
    }

    /// The sessions that fit, with what was searched for and where it stands.
    pub fn history(&self, query: &HistoryQuery) -> Result<History, Error> {
        Ok(block_on(self.inner.history(query))?)
    }

    /// Every session, newest first.
    pub fn sessions(&self) -> Result<Vec<SessionSummary>, Error> {
        Ok(block_on(self.inner.list())?)
    }
}
