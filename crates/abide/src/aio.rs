//! The async interface, for any runtime.
//!
//! Blocking operations run on a thread pool. Appends do not block; await their ticket.
//!
//! ```
//! # abide_testkit::block_on(async {
//! # let dir = tempfile::tempdir()?;
//! use abide::{Message, NewSession, aio};
//!
//! let store = aio::AsyncStore::open_or_init(dir.path()).await?;
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
    SessionRef, SessionState, SessionSummary, Ticket, UsageQuery, UsageReport,
};
use blocking::unblock;

use crate::Error;

/// The async counterpart of [`crate::Store`].
#[derive(Debug, Clone)]
pub struct AsyncStore(crate::Store);

impl AsyncStore {
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
    pub async fn create(&self, session: NewSession) -> Result<AsyncSession, Error> {
        let store = self.0.clone();
        unblock(move || store.create(session)).await.map(AsyncSession::from)
    }

    /// See [`crate::Store::create_or_get`].
    pub async fn create_or_get(
        &self,
        key: &str,
        session: NewSession,
    ) -> Result<AsyncSession, Error> {
        self.create(session.with_key(key)).await
    }

    /// See [`crate::Store::open_session`].
    pub async fn open_session(&self, session: SessionRef) -> Result<AsyncSession, Error> {
        let store = self.0.clone();
        unblock(move || store.open_session(&session)).await.map(AsyncSession::from)
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

    /// See [`crate::Store::usage`].
    pub async fn usage(&self, query: UsageQuery) -> Result<UsageReport, Error> {
        let store = self.0.clone();
        unblock(move || store.usage(&query)).await
    }

    /// See [`crate::Store::sessions`].
    pub async fn sessions(&self) -> Result<Vec<SessionSummary>, Error> {
        let store = self.0.clone();
        unblock(move || store.sessions()).await
    }
}

impl From<crate::Store> for AsyncStore {
    fn from(store: crate::Store) -> Self {
        Self(store)
    }
}

/// The async counterpart of [`crate::Session`]. Cheap to clone; released when the last clone is
/// closed or dropped.
#[derive(Debug, Clone)]
pub struct AsyncSession(Arc<crate::Session>);

impl From<crate::Session> for AsyncSession {
    fn from(session: crate::Session) -> Self {
        Self(Arc::new(session))
    }
}

impl AsyncSession {
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use abide_testkit::block_on;

    use super::*;
    use crate::Message;

    /// Polls a future once and drops it, wherever it is by then.
    fn give_up<T>(future: impl Future<Output = T>) {
        let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    }

    fn text(event: &Event) -> &str {
        event.data.as_ref().map(abide_model::Payload::as_str).unwrap_or_default()
    }

    #[test]
    fn a_future_that_is_dropped_takes_no_acknowledged_event_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let acknowledged = block_on(async {
            let store = AsyncStore::open_or_init(dir.path()).await.unwrap();
            give_up(store.create(NewSession::titled("given up")));
            let session = store.create_or_get("kept", NewSession::titled("kept")).await.unwrap();
            let mut acknowledged = Vec::new();
            for n in 0..40 {
                let before = session.append(Message::user(format!("before {n}"))).unwrap();
                drop(session.append(Message::user("dropped")).unwrap());
                give_up(session.append(Message::user("given up")).unwrap());
                give_up(session.page(EventRange::ALL));
                give_up(session.state());
                let behind = session.append(Message::user(format!("behind {n}"))).unwrap();
                let behind = behind.await.unwrap();
                acknowledged.push((before.await.unwrap()[0].seq, format!("before {n}")));
                acknowledged.push((behind[0].seq, format!("behind {n}")));
            }
            // Another reader sees them in the files before the session is closed.
            let view = crate::Store::open(dir.path()).unwrap();
            let view = view.view(&SessionRef::Id(session.id())).unwrap();
            let events = view.page(EventRange::ALL).unwrap().events;
            for (seq, said) in &acknowledged {
                let event = events.iter().find(|event| event.seq == *seq).expect("acknowledged");
                assert!(text(event).contains(said), "{event:?}");
            }
            give_up(session.close());
            acknowledged
        });
        block_on(async {
            let store = AsyncStore::open(dir.path()).await.unwrap();
            // As soon as the writer that was given up has let go.
            let session = store.create_or_get("kept", NewSession::default()).await.unwrap();
            let last = session.append(Message::user("and on")).unwrap().await.unwrap()[0].seq;
            let events = session.page(EventRange::ALL).await.unwrap().events;
            for (place, event) in events.iter().enumerate() {
                assert_eq!(event.seq, Seq(place as u64 + 1), "no gap");
            }
            for (seq, said) in &acknowledged {
                let event = events.iter().find(|event| event.seq == *seq).expect("acknowledged");
                assert!(text(event).contains(said), "{event:?}");
            }
            assert_eq!(events.last().unwrap().seq, last);
            session.close().await.unwrap();
        });
    }
}
