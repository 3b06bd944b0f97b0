//! A store, for blocking code.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use abide_local::{LocalStore, Options, find_store, store_for_recording};
use abide_model::{
    History, HistoryQuery, NewSession, Seq, SessionId, SessionRef, SessionSummary,
    Store as StoreTrait,
};
use pollster::block_on;

use crate::{Error, Session, SessionView};

/// How long to wait for another writer to let a session go, unless said otherwise.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(2);

/// Where sessions live. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<dyn StoreTrait>,
    wait: Duration,
}

impl Store {
    /// The store of a directory: `.abide` in it or above it.
    pub fn open(from: impl AsRef<Path>) -> Result<Self, Error> {
        let from = std::path::absolute(from)?;
        let place = find_store(&from).ok_or(Error::NoStore { from })?;
        Ok(Self::over(Arc::new(LocalStore::open(&place.store, Options::default())?)))
    }

    /// The store of a directory, made where there is none: at the root of the git checkout, else
    /// in the directory itself.
    pub fn open_or_init(from: impl AsRef<Path>) -> Result<Self, Error> {
        let place = store_for_recording(&std::path::absolute(from)?);
        Ok(Self::over(Arc::new(LocalStore::init(&place.store, Options::default())?)))
    }

    /// A store of any kind.
    #[must_use]
    pub fn over(inner: Arc<dyn StoreTrait>) -> Self {
        Self { inner, wait: DEFAULT_WAIT }
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
        Session::open(&self.inner, id, self.wait)
    }

    /// The session that has this client's key, made where there is none, open for writing.
    pub fn create_or_get(&self, key: &str, session: NewSession) -> Result<Session, Error> {
        self.create(session.with_key(key))
    }

    /// Opens a session for writing. Anybody else who wants to write to it waits or is refused.
    pub fn open_session(&self, session: &SessionRef) -> Result<Session, Error> {
        let id = block_on(self.inner.find(session))?;
        Session::open(&self.inner, id, self.wait)
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
