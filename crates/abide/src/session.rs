//! Sessions: open for writing, or as a view for reading.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide_model::{
    AnomalyPolicy, Digest, Durability, Epoch, Event, EventPage, EventRange, NewEvent, ReadFinding,
    Seq, SessionCore, SessionId, SessionReader, SessionState, SessionWriter, Ticket,
    read_session_name,
};
use abide_secrets::{RedactionTally, Redactor};

use crate::context_cache::ContextPartCache;
use crate::redaction::{redact_event, redact_text};
use crate::{Error, EventFollower, Events, Store, backend::ChildService};

/// A session that this process writes to. Dropping it releases the session.
pub struct Session {
    store: Store,
    view: SessionView,
    writer: Arc<dyn SessionWriter>,
    redactor: Option<Redactor>,
    /// Requests whose answers are being read by this process.
    answering: Mutex<HashSet<String>>,
    early: ContextPartCache,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.view.id).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn open(store: &Store, id: SessionId, wait: Duration) -> Result<Self, Error> {
        let (writer, redactor) = store.writer(id, wait)?;
        let view = SessionView::new(id, store.inner().read(id)?);
        let (answering, early) = (Mutex::default(), ContextPartCache::default());
        Ok(Self { store: store.clone(), view, writer, redactor, answering, early })
    }

    /// The session id, which never changes.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.view.id
    }

    /// The view for reading.
    #[must_use]
    pub const fn view(&self) -> &SessionView {
        &self.view
    }

    pub(crate) fn answering(&self) -> MutexGuard<'_, HashSet<String>> {
        self.answering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn early(&self) -> &ContextPartCache {
        &self.early
    }

    pub(crate) fn writer(&self) -> &dyn SessionWriter {
        &*self.writer
    }

    /// Appends an event. The ticket resolves once the event is on stable storage.
    pub fn append<E>(&self, event: E) -> Result<Ticket, Error>
    where
        E: TryInto<NewEvent>,
        Error: From<E::Error>,
    {
        self.append_with(vec![event.try_into()?], Durability::Synced, AnomalyPolicy::Keep)
    }

    /// Appends a batch, all or nothing, with one ticket.
    pub fn append_all(&self, events: Vec<NewEvent>) -> Result<Ticket, Error> {
        self.append_with(events, Durability::Synced, AnomalyPolicy::Keep)
    }

    /// Appends a batch with the given durability; anomalous events are kept or refused.
    pub fn append_with(
        &self,
        events: Vec<NewEvent>,
        durability: Durability,
        odd: AnomalyPolicy,
    ) -> Result<Ticket, Error> {
        Ok(self.writer.append(events, durability, odd)?)
    }

    /// The redactor of what is recorded, if secrets are redacted. Each event is redacted by itself;
    /// whoever records a text in pieces needs it to find what their borders cut.
    #[must_use]
    pub const fn redactor(&self) -> Option<&Redactor> {
        self.redactor.as_ref()
    }

    /// An event as it is recorded: without secrets, if they are redacted.
    #[must_use]
    pub fn redacted(&self, event: NewEvent) -> NewEvent {
        match &self.redactor {
            Some(redactor) => redact_event(redactor, event),
            None => event,
        }
    }

    /// A text as it is recorded: without secrets, if they are redacted.
    #[must_use]
    pub fn redacted_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if let Some(redactor) = &self.redactor {
            redact_text(redactor, &mut text, &mut RedactionTally::default());
        }
        text
    }

    /// The store that holds it.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The small part of the state. The cost does not depend on the length of the session.
    pub fn core(&self) -> Result<SessionCore, Error> {
        Ok(self.digested_core()?.0)
    }

    /// The digest of the whole state. The cost does not depend on the length of the session.
    pub fn digest(&self) -> Result<Digest, Error> {
        Ok(self.digested_core()?.1)
    }

    /// Both, of the same moment.
    pub(crate) fn digested_core(&self) -> Result<(SessionCore, Digest), Error> {
        Ok(self.writer.core()?)
    }

    /// The state after every event appended so far.
    pub fn state(&self) -> Result<SessionState, Error> {
        Ok(self.writer.state()?)
    }

    /// The writer's epoch: greater than that of every earlier writer.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.writer.epoch()
    }

    /// What was found and repaired when the session was opened.
    #[must_use]
    pub fn notes(&self) -> Vec<ReadFinding> {
        self.writer.notes()
    }

    /// Whether another process holds the session and writes for this one
    /// ([`ThroughHolder`](crate::backend::HeldSessionAccess::ThroughHolder)).
    #[must_use]
    pub fn is_relayed(&self) -> bool {
        self.writer.is_relayed()
    }

    /// Lets other processes of this user write to the session while this one holds it: `abide`
    /// commands, children that open their store with the session as
    /// [`LocalOptions::child_of`](crate::LocalOptions::child_of), and stores with
    /// [`ThroughHolder`](crate::backend::HeldSessionAccess::ThroughHolder). `seen` is called with each batch recorded for one of
    /// them, before it gets its answer; it must not block. Dropping the service disconnects them.
    pub fn serve_children(
        &self,
        seen: impl Fn(&[NewEvent]) + Send + Sync + 'static,
    ) -> Result<ChildService, Error> {
        self.store.serve_children(self.id(), &self.writer, Box::new(seen))
    }

    /// Syncs everything and releases the session.
    pub fn close(self) -> Result<(), Error> {
        Ok(self.writer.close()?)
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

    /// The session id, which never changes.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) fn reader(&self) -> &dyn SessionReader {
        &*self.reader
    }

    /// Reads one page of events.
    pub fn page(&self, range: EventRange) -> Result<EventPage, Error> {
        Ok(self.reader.page(range)?)
    }

    /// Iterates over a range of events, read page by page on demand.
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

    /// Follows events from `first` on as they are acknowledged, including those of other processes.
    #[must_use]
    pub fn follow(&self, first: Seq) -> EventFollower {
        EventFollower::new(self.clone(), first)
    }

    /// The bytes that the session takes in the store, not counting objects.
    pub fn bytes(&self) -> Result<u64, Error> {
        Ok(self.reader.bytes()?)
    }

    /// The last acknowledged event.
    pub fn acknowledged(&self) -> Result<Seq, Error> {
        Ok(self.reader.acknowledged()?)
    }

    /// Waits until there may be events after `beyond`, if the store supports notification; see
    /// [`SessionReader::grown`].
    pub(crate) fn grown(&self, beyond: Seq, within: Duration) -> Result<bool, Error> {
        Ok(self.reader.grown(beyond, within)?)
    }

    /// The state as of the last readable event.
    pub fn state(&self) -> Result<SessionState, Error> {
        Ok(self.reader.state()?)
    }

    /// What lists show the session under: the title that it was given, else the first prompt of a
    /// person, else the command of its run. `None` if it has none of them.
    ///
    /// ```
    /// use abide::{Message, NewSession, Store};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let store = Store::open_or_init(dir.path())?;
    /// let session = store.create(NewSession::default())?;
    /// session.append(Message::user("Fix the parser"))?.wait()?;
    /// assert_eq!(session.view().name()?.as_deref(), Some("Fix the parser"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(&self) -> Result<Option<String>, Error> {
        Ok(read_session_name(&*self.reader)?)
    }
}
