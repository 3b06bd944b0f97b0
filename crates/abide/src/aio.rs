//! The async interface, for any runtime.
//!
//! Blocking operations run on a thread pool. Appends do not block; await their ticket.
//!
//! ```
//! # pollster::block_on(async {
//! # let dir = tempfile::tempdir()?;
//! use abide::{Message, NewSession, aio};
//!
//! let store = aio::Store::open_or_init(dir.path()).await?;
//! let session = store.create(NewSession::titled("async")).await?;
//! let hello = session.append(Message::user("hello"))?;
//! let again = session.append(Message::user("are you there?"))?;
//! hello.await?;
//! again.await?;
//! assert_eq!(session.last(2).await?.len(), 2);
//! session.close().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

use std::path::Path;
use std::sync::Arc;

use abide_model::{
    Event, EventPage, EventRange, History, HistoryQuery, NewEvent, NewSession, Seq, SessionId,
    SessionRef, SessionState, SessionSummary, Ticket,
};
use blocking::unblock;

use crate::Error;

/// The async counterpart of [`crate::Store`].
#[derive(Debug, Clone)]
pub struct Store(crate::Store);

impl Store {
    /// See [`crate::Store::open`].
    pub async fn open(from: impl AsRef<Path>) -> Result<Self, Error> {
        let from = from.as_ref().to_owned();
        unblock(move || crate::Store::open(from)).await.map(Self)
    }

    /// See [`crate::Store::open_or_init`].
    pub async fn open_or_init(from: impl AsRef<Path>) -> Result<Self, Error> {
        let from = from.as_ref().to_owned();
        unblock(move || crate::Store::open_or_init(from)).await.map(Self)
    }

    /// See [`crate::Store::open_default`].
    pub async fn open_default() -> Result<Self, Error> {
        unblock(crate::Store::open_default).await.map(Self)
    }

    /// See [`crate::Store::create`].
    pub async fn create(&self, session: NewSession) -> Result<Session, Error> {
        let store = self.0.clone();
        unblock(move || store.create(session)).await.map(Session::from)
    }

    /// See [`crate::Store::create_or_get`].
    pub async fn create_or_get(&self, key: &str, session: NewSession) -> Result<Session, Error> {
        self.create(session.with_key(key)).await
    }

    /// See [`crate::Store::open_session`].
    pub async fn open_session(&self, session: SessionRef) -> Result<Session, Error> {
        let store = self.0.clone();
        unblock(move || store.open_session(&session)).await.map(Session::from)
    }

    /// See [`crate::Store::fork`].
    pub async fn fork(
        &self,
        session: SessionRef,
        at: Option<Seq>,
        new: NewSession,
    ) -> Result<SessionId, Error> {
        let store = self.0.clone();
        unblock(move || store.fork(&session, at, new)).await
    }

    /// See [`crate::Store::history`].
    pub async fn history(&self, query: HistoryQuery) -> Result<History, Error> {
        let store = self.0.clone();
        unblock(move || store.history(&query)).await
    }

    /// See [`crate::Store::sessions`].
    pub async fn sessions(&self) -> Result<Vec<SessionSummary>, Error> {
        let store = self.0.clone();
        unblock(move || store.sessions()).await
    }
}

impl From<crate::Store> for Store {
    fn from(store: crate::Store) -> Self {
        Self(store)
    }
}

/// The async counterpart of [`crate::Session`]. Cheap to clone; released when the last clone is
/// closed or dropped.
#[derive(Debug, Clone)]
pub struct Session(Arc<crate::Session>);

impl From<crate::Session> for Session {
    fn from(session: crate::Session) -> Self {
        Self(Arc::new(session))
    }
}

impl Session {
    /// The session id, which never changes.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.0.id()
    }

    /// Appends an event. Await the ticket for the acknowledgement.
    pub fn append<E>(&self, event: E) -> Result<Ticket, Error>
    where
        E: TryInto<NewEvent>,
        Error: From<E::Error>,
    {
        self.0.append(event)
    }

    /// Appends a batch, all or nothing, with one ticket.
    pub fn append_all(&self, events: Vec<NewEvent>) -> Result<Ticket, Error> {
        self.0.append_all(events)
    }

    /// Reads one page of events.
    pub async fn page(&self, range: EventRange) -> Result<EventPage, Error> {
        let view = self.0.view().clone();
        unblock(move || view.page(range)).await
    }

    /// The last `count` events, oldest first.
    pub async fn last(&self, count: usize) -> Result<Vec<Event>, Error> {
        let view = self.0.view().clone();
        unblock(move || view.last(count)).await
    }

    /// The state after every event appended so far.
    pub async fn state(&self) -> Result<SessionState, Error> {
        let session = self.0.clone();
        unblock(move || session.state()).await
    }

    /// Syncs everything and releases the session, unless another clone still uses it.
    pub async fn close(self) -> Result<(), Error> {
        match Arc::try_unwrap(self.0) {
            Ok(session) => unblock(move || session.close()).await,
            Err(_) => Ok(()),
        }
    }
}
