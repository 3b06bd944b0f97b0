//! A session: open for writing, and the view on it for reading.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide_model::{
    Core, Digest, Durability, Epoch, Event, EventPage, EventRange, NewEvent, OddEvents, ReadNote,
    Seq, SessionId, SessionReader, SessionState, SessionWriter, Ticket,
};
use pollster::block_on;

use crate::early::Early;
use crate::{ChildSocket, Error, Events, Follow, Store};

/// A session that this process writes to. Dropping it lets the session go.
pub struct Session {
    store: Store,
    view: SessionView,
    writer: Arc<dyn SessionWriter>,
    /// The requests to models whose answers are being listened to here.
    answering: Mutex<HashSet<String>>,
    early: Early,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.view.id).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn open(store: &Store, id: SessionId, wait: Duration) -> Result<Self, Error> {
        let writer = block_on(store.backend().write(id, wait))?;
        let view = SessionView::new(id, block_on(store.backend().read(id))?);
        let (answering, early) = (Mutex::default(), Early::default());
        Ok(Self { store: store.clone(), view, writer, answering, early })
    }

    /// The id, which never changes.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.view.id
    }

    /// The view on it, for reading.
    #[must_use]
    pub const fn view(&self) -> &SessionView {
        &self.view
    }

    pub(crate) fn answering(&self) -> MutexGuard<'_, HashSet<String>> {
        self.answering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn early(&self) -> &Early {
        &self.early
    }

    pub(crate) fn writer(&self) -> &dyn SessionWriter {
        &*self.writer
    }

    /// Takes an event in. It is acknowledged, on stable storage, when the ticket says so.
    pub fn append<E>(&self, event: E) -> Result<Ticket, Error>
    where
        E: TryInto<NewEvent>,
        Error: From<E::Error>,
    {
        self.append_with(vec![event.try_into()?], Durability::Synced, OddEvents::Keep)
    }

    /// Takes many in with one ticket: accepts all of them or refuses all.
    pub fn append_all(&self, events: Vec<NewEvent>) -> Result<Ticket, Error> {
        self.append_with(events, Durability::Synced, OddEvents::Keep)
    }

    /// Takes events in with a durability of one's choice, odd ones kept or refused.
    pub fn append_with(
        &self,
        events: Vec<NewEvent>,
        durability: Durability,
        odd: OddEvents,
    ) -> Result<Ticket, Error> {
        Ok(self.writer.append(events, durability, odd)?)
    }

    /// The store that it is in.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The small part of its state and the digest of all of it, at the same price however long the
    /// session is.
    pub fn core(&self) -> Result<(Core, Digest), Error> {
        Ok(self.writer.core()?)
    }

    /// The state after every event taken in so far.
    pub fn state(&self) -> Result<SessionState, Error> {
        Ok(self.writer.state()?)
    }

    /// The number of this tenure: greater than that of every writer before.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.writer.epoch()
    }

    /// What was found and mended when the session was opened.
    #[must_use]
    pub fn notes(&self) -> Vec<ReadNote> {
        self.writer.notes()
    }

    /// Lets the processes that this one starts write to the session while it is held here: the
    /// commands of `abide`, and every store that is opened with the session as
    /// [`Options::child_of`](crate::Options::child_of). `seen` is told of each batch that was
    /// recorded for one of them, before that one is answered; it must not wait for anything. They
    /// are cut off when the socket is dropped.
    pub fn serve_children(
        &self,
        seen: impl Fn(&[NewEvent]) + Send + Sync + 'static,
    ) -> Result<ChildSocket, Error> {
        self.store.backend().serve_children(self.id(), Box::new(seen))
    }

    /// Makes everything durable and lets the session go.
    pub fn close(self) -> Result<(), Error> {
        Ok(block_on(self.writer.close())?)
    }
}

/// A session, open for reading. Cheap to clone.
#[derive(Clone)]
pub struct SessionView {
    id: SessionId,
    reader: Arc<dyn SessionReader>,
}

impl std::fmt::Debug for SessionView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionView").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SessionView {
    pub(crate) fn new(id: SessionId, reader: Arc<dyn SessionReader>) -> Self {
        Self { id, reader }
    }

    /// The id, which never changes.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) fn reader(&self) -> &dyn SessionReader {
        &*self.reader
    }

    /// One page of events.
    pub fn page(&self, range: EventRange) -> Result<EventPage, Error> {
        Ok(block_on(self.reader.page(range))?)
    }

    /// The events of a range, read page by page as they are asked for.
    #[must_use]
    pub fn events(&self, range: EventRange) -> Events {
        Events::new(self.clone(), range)
    }

    /// The last `count` events, oldest first.
    pub fn last(&self, count: usize) -> Result<Vec<Event>, Error> {
        let mut events = self.page(EventRange::ALL.backward().limit(count))?.events;
        events.reverse();
        Ok(events)
    }

    /// Events from `first` on, those of other processes included, as they are acknowledged.
    #[must_use]
    pub fn follow(&self, first: Seq) -> Follow {
        Follow::new(self.clone(), first)
    }

    /// The bytes that the session takes in the store, its objects left aside.
    pub fn bytes(&self) -> Result<u64, Error> {
        Ok(block_on(self.reader.bytes())?)
    }

    /// The last event that is acknowledged.
    pub fn acknowledged(&self) -> Result<Seq, Error> {
        Ok(block_on(self.reader.acknowledged())?)
    }

    /// Waits until there may be more than `beyond`, where the store is told; see
    /// [`SessionReader::grown`].
    pub(crate) fn grown(&self, beyond: Seq, within: Duration) -> Result<bool, Error> {
        Ok(block_on(self.reader.grown(beyond, within))?)
    }

    /// The state as of the last event that can be read.
    pub fn state(&self) -> Result<SessionState, Error> {
        Ok(block_on(self.reader.state())?)
    }
}
