//! A store in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use abide_model::{
    AcknowledgedEvent, AnomalyPolicy, AppendError, CreatedSession, Digest, Durability, Epoch,
    Event, EventFactory, EventLimits, EventPage, EventRange, History, HistoryQuery, InputError,
    Kind, LaneId, LaneState, Lineage, NewEvent, NewSession, Objects, ParentReason, Payload,
    ReadDirection, ReadFinding, Seq, SessionCore, SessionCreated, SessionFields, SessionId,
    SessionParent, SessionReader, SessionRef, SessionState, SessionSummary, SessionWriter, Store,
    StoreError, Ticket, TicketAcknowledger, Timestamp, UsageQuery, UsageReport, WriterHolder,
    WriterOpened, made_behind,
};

use abide_workspace::MemoryObjects;

use crate::{Random, plain_history, plain_usage};

#[derive(Debug, Default)]
struct Kept {
    /// Its own events: those before are its parent's.
    events: Vec<Event>,
    /// What it was forked from, and the last event that it shares.
    parent: Option<(SessionId, Seq)>,
    state: SessionState,
    held: bool,
    key: Option<String>,
}

#[derive(Debug)]
struct Inner {
    sessions: BTreeMap<SessionId, Kept>,
    random: Random,
    clock: i64,
}

/// A store that forgets everything when it is dropped. Clones are the same store.
#[derive(Debug, Clone)]
pub struct MemoryStore(Arc<Mutex<Inner>>, Arc<MemoryObjects>, Vec<String>);

impl Default for MemoryStore {
    fn default() -> Self {
        let inner =
            Inner { sessions: BTreeMap::new(), random: Random::new(7), clock: 1_763_169_600_000 };
        Self(Arc::new(Mutex::new(inner)), Arc::default(), Vec::new())
    }
}

impl MemoryStore {
    /// The same store, for a project that is known by these ids.
    #[must_use]
    pub fn for_projects(&self, projects: Vec<String>) -> Self {
        Self(self.0.clone(), self.1.clone(), projects)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn now(&mut self) -> Timestamp {
        self.clock += 1;
        Timestamp::from_millis(self.clock)
    }

    fn kept(&mut self, id: SessionId) -> Result<&mut Kept, StoreError> {
        self.sessions
            .get_mut(&id)
            .ok_or_else(|| StoreError::NoSession { reference: id.to_string() })
    }

    fn push(&mut self, id: SessionId, new: NewEvent) -> Result<AcknowledgedEvent, StoreError> {
        let at = self.now();
        let kept = self.kept(id)?;
        let seq = kept.last().next();
        let event = new.into_event(seq, at);
        kept.events.push(event.clone());
        let anomaly = kept.state.apply(&event);
        if event.kind == Kind::SESSION_REWOUND && anomaly.is_none() {
            let state = fold(&self.events(id, seq));
            self.kept(id)?.state = state;
        }
        Ok(AcknowledgedEvent { seq, anomaly, repeated: false })
    }

    /// The events of a session up to `last`, those that it shares included.
    fn events(&self, id: SessionId, last: Seq) -> Vec<Event> {
        let Some(kept) = self.sessions.get(&id) else { return Vec::new() };
        let mut events = match kept.parent {
            Some((parent, at)) => self.events(parent, at.min(last)),
            None => Vec::new(),
        };
        events.extend(kept.events.iter().filter(|event| event.seq <= last).cloned());
        events
    }

    fn insert(&mut self, session: NewSession, kept: Kept) -> Result<CreatedSession, StoreError> {
        let mut random = [0; 10];
        self.random.fill(&mut random);
        let id = SessionId::new(session.id_time(self.now()), random);
        self.sessions.insert(id, kept);
        let created = SessionCreated { session: id, fields: session.fields };
        let data = Payload::of(&created).map_err(input)?;
        self.push(id, NewEvent::new(Kind::SESSION_CREATED, data))?;
        Ok(CreatedSession::new(id))
    }

    fn with_key(&self, projects: &[String], key: Option<&String>) -> Option<SessionId> {
        let key = Some(key?);
        let fits = |kept: &Kept| match kept.project() {
            Some(project) => projects.contains(project),
            None => projects.is_empty(),
        };
        let mut all = self.sessions.iter();
        all.find(|(_, kept)| kept.key.as_ref() == key && fits(kept)).map(|(id, _)| *id)
    }
}

impl Kept {
    fn project(&self) -> Option<&String> {
        self.state.core.fields.project_id.as_ref()
    }

    /// Is it of one of these projects? Of none, all are.
    fn is_of(&self, projects: &[String]) -> bool {
        projects.is_empty() || self.project().is_some_and(|project| projects.contains(project))
    }

    fn is_empty(&self) -> bool {
        self.parent.is_none() && self.events.iter().all(|event| event.kind.is_reserved())
    }

    fn last(&self) -> Seq {
        let shared = self.parent.map_or(Seq::ZERO, |(_, at)| at);
        Seq(shared.0 + self.events.len() as u64)
    }
}

fn lane_of(state: &SessionState, lane: Option<&LaneId>) -> (SessionCore, LaneState) {
    let name = lane.map(LaneId::as_str).unwrap_or_default();
    (state.core.clone(), state.lane(name).cloned().unwrap_or_default())
}

/// The state after these events, rewinds and all.
fn fold(events: &[Event]) -> SessionState {
    let rewinds: Vec<(Seq, Seq)> = events
        .iter()
        .filter_map(|event| match event.fact() {
            Ok(abide_model::Fact::Rewind(rewind)) if rewind.to < event.seq => {
                Some((event.seq, rewind.to))
            }
            _ => None,
        })
        .collect();
    let last = events.last().map_or(Seq::ZERO, |event| event.seq);
    let lineage = Lineage::at(last, &rewinds);
    let mut state = SessionState::default();
    for event in events {
        if lineage.contains(event.seq) {
            state.apply(event);
        } else {
            state.apply_dead(event);
        }
    }
    state
}

impl Store for MemoryStore {
    fn create(&self, session: NewSession) -> Result<CreatedSession, StoreError> {
        let mut inner = self.lock();
        let session = session.in_project(&self.2);
        let key = session.fields.key.clone();
        match inner.with_key(&self.2, key.as_ref()) {
            Some(id) => Ok(CreatedSession::known(id)),
            None => inner.insert(session, Kept { key, ..Kept::default() }),
        }
    }

    fn fork(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Result<CreatedSession, StoreError> {
        let mut inner = self.lock();
        let kept = inner.kept(parent)?;
        let (last, project_id) = (kept.last(), kept.project().cloned());
        let key = session.fields.key.clone();
        if let Some(id) = inner.with_key(&self.2, key.as_ref()) {
            return Ok(CreatedSession::known(id));
        }
        let seq = at.unwrap_or(last);
        if seq == Seq::ZERO || seq > last {
            return Err(StoreError::NoEvent { session: parent, seq, last });
        }
        let state = fold(&inner.events(parent, seq));
        let link = SessionParent { session: parent, seq, reason: ParentReason::Fork };
        let like = SessionFields { project_id, ..state.core.fields.clone() };
        let session = session.forked(link, &like).in_project(&self.2);
        let parent = Some((parent, seq));
        inner.insert(session, Kept { key, parent, state, ..Kept::default() })
    }

    fn find(&self, reference: &SessionRef) -> Result<SessionId, StoreError> {
        let inner = self.lock();
        let none = || StoreError::NoSession { reference: reference.to_string() };
        let newest = |workspace: Option<String>| {
            let fits = |(_, kept): &(&SessionId, &Kept)| {
                let here = kept.state.core.fields.workspace.as_ref();
                !kept.is_empty()
                    && kept.is_of(&self.2)
                    && workspace.as_ref().is_none_or(|wanted| here == Some(wanted))
            };
            inner.sessions.iter().rev().find(fits).map(|(id, _)| *id).ok_or_else(none)
        };
        let prefix = match reference {
            SessionRef::Id(id) => {
                return inner.sessions.contains_key(id).then_some(*id).ok_or_else(none);
            }
            SessionRef::Key(key) => {
                return inner.with_key(&self.2, Some(key)).ok_or_else(none);
            }
            SessionRef::Latest => return newest(None),
            SessionRef::LatestIn(dir) => {
                return newest(Some(SessionFields::workspace_text(dir)));
            }
            SessionRef::Prefix(prefix) if prefix.is_empty() => return Err(none()),
            SessionRef::Prefix(prefix) => prefix,
        };
        // Of the project first; another one's is found by its id as well.
        for projects in [self.2.as_slice(), &[]] {
            let fits = |(id, kept): &(&SessionId, &Kept)| {
                let starts = id.to_string().starts_with(prefix) || id.short(12).starts_with(prefix);
                starts && kept.is_of(projects)
            };
            let fits: Vec<SessionId> =
                inner.sessions.iter().rev().filter(fits).map(|(id, _)| *id).collect();
            match fits.as_slice() {
                [] => {}
                [id] => return Ok(*id),
                many => {
                    return Err(StoreError::Ambiguous {
                        reference: reference.to_string(),
                        matches: many.iter().map(|id| id.short(8)).collect(),
                    });
                }
            }
        }
        Err(none())
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let inner = self.lock();
        let ours = inner.sessions.iter().rev().filter(|(_, kept)| kept.is_of(&self.2));
        let summary = |(id, _): (&SessionId, &Kept)| SessionSummary { id: *id, short: id.short(6) };
        Ok(ours.map(summary).collect())
    }

    fn history(&self, query: &HistoryQuery) -> Result<History, StoreError> {
        let inner = self.lock();
        let projects = if query.all_projects { &[] } else { self.2.as_slice() };
        let ours = inner.sessions.iter().filter(|(_, kept)| kept.is_of(projects));
        let sessions = ours.map(|(id, kept)| (*id, kept.events.as_slice()));
        Ok(plain_history(query, sessions))
    }

    fn usage(&self, query: &UsageQuery) -> Result<UsageReport, StoreError> {
        let inner = self.lock();
        let projects = if query.all_projects { &[] } else { self.2.as_slice() };
        let all = inner.sessions.iter();
        let all = all.map(|(id, kept)| (*id, kept.events.as_slice(), kept.is_of(projects)));
        Ok(plain_usage(query, all))
    }

    fn write(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError> {
        let until = Instant::now() + wait;
        loop {
            let mut inner = self.lock();
            let kept = inner.kept(session)?;
            if !kept.held {
                kept.held = true;
                let epoch = kept.state.core.epoch.next();
                let writer =
                    MemoryWriter { store: self.clone(), session, epoch, opened: Mutex::new(false) };
                return Ok(Arc::new(writer));
            }
            if Instant::now() >= until {
                let holder = WriterHolder { program: "memory".into(), ..WriterHolder::default() };
                return Err(StoreError::Held { session, holder: Box::new(holder) });
            }
            drop(inner);
            std::thread::yield_now();
        }
    }

    fn read(&self, session: SessionId) -> Result<Arc<dyn SessionReader>, StoreError> {
        self.lock().kept(session)?;
        Ok(Arc::new(MemoryReader { store: self.clone(), session }))
    }

    fn objects(&self) -> Result<Arc<dyn Objects>, StoreError> {
        Ok(self.1.clone())
    }
}

fn input(source: InputError) -> StoreError {
    StoreError::Append(AppendError::Input { index: 0, source: Arc::new(source) })
}

struct Done;

impl TicketAcknowledger for Done {
    fn wait(&self, _: Seq, _: Durability) -> Result<(), AppendError> {
        Ok(())
    }

    fn poll(&self, _: Seq, _: Durability, _: &mut Context<'_>) -> Poll<Result<(), AppendError>> {
        Poll::Ready(Ok(()))
    }
}

struct MemoryWriter {
    store: MemoryStore,
    session: SessionId,
    epoch: Epoch,
    opened: Mutex<bool>,
}

impl MemoryWriter {
    fn let_go(&self) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inner = self.store.lock();
        if std::mem::take(&mut *opened) {
            let closing = NewEvent::new(Kind::WRITER_CLOSED, Payload::from_stored("{}".into()));
            let _ = inner.push(self.session, closing);
        }
        if let Ok(kept) = inner.kept(self.session) {
            kept.held = false;
        }
    }
}

fn gone(error: StoreError) -> AppendError {
    AppendError::Stopped { safe: Seq::ZERO, source: Arc::new(error) }
}

impl MemoryWriter {
    /// Says that it writes, once.
    fn open(&self, opened: &mut bool, inner: &mut Inner) -> Result<(), AppendError> {
        if !std::mem::replace(opened, true) {
            let fact = WriterOpened { epoch: self.epoch, by: "memory".into(), who: None };
            let data = Payload::of(&fact)
                .map_err(|source| AppendError::Input { index: 0, source: Arc::new(source) })?;
            inner.push(self.session, NewEvent::new(Kind::WRITER_OPENED, data)).map_err(gone)?;
        }
        Ok(())
    }

    fn take_in(
        &self,
        opened: &mut bool,
        inner: &mut Inner,
        events: Vec<NewEvent>,
        durability: Durability,
        odd: AnomalyPolicy,
    ) -> Result<Ticket, AppendError> {
        let kept = inner.kept(self.session).map_err(gone)?;
        let before = (kept.events.len(), kept.state.clone(), *opened);
        let mut acknowledged = Vec::new();
        for (index, event) in events.into_iter().enumerate() {
            let known =
                event.key.as_ref().and_then(|key| inner.kept(self.session).ok()?.state.key(key));
            if let Some(seq) = known {
                acknowledged.push(AcknowledgedEvent { seq, anomaly: None, repeated: true });
                continue;
            }
            self.open(opened, inner)?;
            let done = inner.push(self.session, event).map_err(gone)?;
            if let (AnomalyPolicy::Refuse, Some(anomaly)) = (odd, done.anomaly) {
                let kept = inner.kept(self.session).map_err(gone)?;
                kept.events.truncate(before.0);
                kept.state = before.1;
                *opened = before.2;
                return Err(AppendError::Odd { index, anomaly });
            }
            acknowledged.push(done);
        }
        Ok(Ticket::new(acknowledged, Seq::ZERO, durability, Arc::new(Done)))
    }
}

impl SessionWriter for MemoryWriter {
    fn append(
        &self,
        events: Vec<NewEvent>,
        durability: Durability,
        odd: AnomalyPolicy,
    ) -> Result<Ticket, AppendError> {
        for (index, event) in events.iter().enumerate() {
            let checked = if event.kind.is_reserved() {
                Err(InputError::Reserved { kind: event.kind.to_string() })
            } else {
                event.check(&EventLimits::default())
            };
            checked.map_err(|source| AppendError::Input { index, source: Arc::new(source) })?;
        }
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        self.take_in(&mut opened, &mut self.store.lock(), events, durability, odd)
    }

    fn append_behind(&self, make: &EventFactory<'_>) -> Result<Ticket, AppendError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inner = self.store.lock();
        self.open(&mut opened, &mut inner)?;
        let last = inner.kept(self.session).map_err(gone)?.last();
        let event = made_behind(make, last, &EventLimits::default())?;
        self.take_in(&mut opened, &mut inner, vec![event], Durability::Synced, AnomalyPolicy::Keep)
    }

    fn flush(&self) -> Result<(), AppendError> {
        Ok(())
    }

    fn state(&self) -> Result<SessionState, StoreError> {
        Ok(self.store.lock().kept(self.session)?.state.clone())
    }

    fn core(&self) -> Result<(SessionCore, Digest), StoreError> {
        let mut inner = self.store.lock();
        let state = &inner.kept(self.session)?.state;
        Ok((state.core.clone(), state.digest()))
    }

    fn lane(&self, lane: Option<&LaneId>) -> Result<(SessionCore, LaneState), StoreError> {
        let mut inner = self.store.lock();
        Ok(lane_of(&inner.kept(self.session)?.state, lane))
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn notes(&self) -> Vec<ReadFinding> {
        Vec::new()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.let_go();
        Ok(())
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        self.let_go();
    }
}

struct MemoryReader {
    store: MemoryStore,
    session: SessionId,
}

impl SessionReader for MemoryReader {
    fn page(&self, range: EventRange) -> Result<EventPage, StoreError> {
        let inner = self.store.lock();
        let fits = |event: &Event| event.seq >= range.first && event.seq <= range.last;
        let events = inner.events(self.session, range.last).into_iter().filter(fits);
        let mut all: Vec<Event> = match range.direction {
            ReadDirection::Forward => events.collect(),
            ReadDirection::Backward => events.rev().collect(),
        };
        let next = all.get(range.limit.max(1)).map(|event| event.seq);
        all.truncate(range.limit.max(1));
        Ok(EventPage { events: all, notes: Vec::new(), next })
    }

    fn acknowledged(&self) -> Result<Seq, StoreError> {
        Ok(self.store.lock().kept(self.session)?.last())
    }

    fn lane(
        &self,
        lane: Option<&LaneId>,
        at: Option<Seq>,
    ) -> Result<(SessionCore, LaneState), StoreError> {
        let mut inner = self.store.lock();
        Ok(match at {
            Some(at) => lane_of(&fold(&inner.events(self.session, at)), lane),
            None => lane_of(&inner.kept(self.session)?.state, lane),
        })
    }

    fn bytes(&self) -> Result<u64, StoreError> {
        let mut inner = self.store.lock();
        let data = inner.kept(self.session)?.events.iter().filter_map(|event| event.data.as_ref());
        Ok(data.map(|data| data.as_str().len() as u64).sum())
    }

    fn state(&self) -> Result<SessionState, StoreError> {
        Ok(self.store.lock().kept(self.session)?.state.clone())
    }
}
