//! The interface for async code, on any runtime.
//!
//! What blocks runs on a pool of threads; an append does not block, and its ticket is awaited.
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

/// A store, for async code.
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

/// A session, for async code. Cheap to clone; let go when the last one is closed or dropped.
#[derive(Debug, Clone)]
pub struct Session(Arc<crate::Session>);

impl From<crate::Session> for Session {
    fn from(session: crate::Session) -> Self {
        Self(Arc::new(session))
    }
}

impl Session {
    /// The id, which never changes.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.0.id()
    }

    /// Takes an event in; await the ticket for its acknowledgement.
    pub fn append<E>(&self, event: E) -> Result<Ticket, Error>
    where
        E: TryInto<NewEvent>,
        Error: From<E::Error>,
    {
        self.0.append(event)
    }

    /// Takes many in with one ticket: accepts all of them or refuses all.
    pub fn append_all(&self, events: Vec<NewEvent>) -> Result<Ticket, Error> {
        self.0.append_all(events)
    }

    /// One page of events.
    pub async fn page(&self, range: EventRange) -> Result<EventPage, Error> {
        let view = self.0.view().clone();
        unblock(move || view.page(range)).await
    }

    /// The last `count` events, oldest first.
    pub async fn last(&self, count: usize) -> Result<Vec<Event>, Error> {
        let view = self.0.view().clone();
        unblock(move || view.last(count)).await
    }

    /// The state after every event taken in so far.
    pub async fn state(&self) -> Result<SessionState, Error> {
        let session = self.0.clone();
        unblock(move || session.state()).await
    }

    /// Makes everything durable and lets the session go, unless another clone still has it.
    pub async fn close(self) -> Result<(), Error> {
        match Arc::try_unwrap(self.0) {
            Ok(session) => unblock(move || session.close()).await,
            Err(_) => Ok(()),
        }
    }
}
