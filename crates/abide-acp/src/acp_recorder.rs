//! The record of one open session: a translator, and the session it writes to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use abide::workspace::Watch;
use abide::{
    AppendError, CheckpointRequest, Durability, Event, EventRange, NewEvent, Session,
    SessionFields, SessionId, SessionRef, SessionStatus, Store, TurnEnd,
    backend::ChildService,
    checkpoint::Trigger,
    event::{AgentObservation, AnomalyPolicy, LogRecord, StatusChange},
};

use crate::record::{RecordDurability, RecordedEvents, Translator};

/// The label that holds the agent's id of the session.
const INNER: &str = "acp.session";

/// Records the messages of one session. While the store fails, it counts the events it could not
/// write.
pub(crate) struct AcpRecorder {
    /// Translates messages into events.
    pub(crate) translator: Translator,
    session: Option<Arc<Session>>,
    /// Lets the user's commands write to the session meanwhile.
    others: Option<ChildService>,
    /// Where to find the session again after the store failed.
    place: Option<(Arc<Store>, SessionId)>,
    missed: u64,
    told: bool,
    closed: bool,
}

/// The agent's session that belongs to a recorded one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedAgentSession {
    /// The agent's id.
    pub(crate) id: String,
    /// It was given the past in a prompt instead of having been there.
    pub(crate) primed: bool,
}

/// The store failed. Holds the message for the user, unless one was shown before.
#[derive(Debug)]
pub(crate) struct StoreFailure(pub(crate) Option<String>);

/// The event of a session's new status.
fn status(status: SessionStatus) -> RecordedEvents {
    let change = StatusChange { status, reason: None, summary: None };
    let events = NewEvent::try_from(change).map(|event| vec![event]).unwrap_or_default();
    RecordedEvents { events, weight: RecordDurability::Before }
}

impl AcpRecorder {
    /// Records into a session.
    pub(crate) fn new(session: Arc<Session>, translator: Translator) -> Self {
        let place = Some((Arc::new(session.store().clone()), session.id()));
        let others = serve_others(&session);
        Self {
            translator,
            session: Some(session),
            others,
            place,
            missed: 0,
            told: false,
            closed: false,
        }
    }

    /// Records that a session goes on, if it was completed.
    pub(crate) fn go_on(&mut self) -> Result<(), StoreFailure> {
        let Some(session) = &self.session else { return Ok(()) };
        match session.core() {
            Ok(core) if core.status == SessionStatus::Completed => {
                // It runs for as long as it is open; what is recorded is what it is afterwards.
                self.write(status(SessionStatus::Idle))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Ends the turn that a proxy left open when it died.
    pub(crate) fn settle(&mut self) -> Result<(), StoreFailure> {
        let Some(session) = &self.session else { return Ok(()) };
        let turn = match session.core() {
            Ok(core) => core.main.turn,
            Err(error) => return Err(self.failed(&error)),
        };
        let Some(turn) = turn else { return Ok(()) };
        let end = TurnEnd { turn: Some(turn), status: "interrupted".into(), usage: None };
        let events = NewEvent::try_from(end).map(|event| vec![event]).unwrap_or_default();
        self.write(RecordedEvents { events, weight: RecordDurability::Behind })
    }

    /// Records nothing: the store failed before there was a session.
    pub(crate) fn none(translator: Translator) -> Self {
        Self {
            translator,
            session: None,
            others: None,
            place: None,
            missed: 0,
            told: false,
            closed: false,
        }
    }

    /// The session, while it can be written.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.session.as_ref()
    }

    /// Writes events, and waits until they are durable if the message must not be forwarded before.
    pub(crate) fn write(&mut self, recorded: RecordedEvents) -> Result<(), StoreFailure> {
        let RecordedEvents { events, weight } = recorded;
        if events.is_empty() {
            return Ok(());
        }
        let count = events.len() as u64;
        let Some(session) = &self.session else {
            self.missed += count;
            return Ok(());
        };
        let durability = match weight {
            RecordDurability::Before => Durability::Synced,
            RecordDurability::Behind => Durability::Buffered,
        };
        let written =
            session.append_with(events, durability, AnomalyPolicy::Keep).and_then(|ticket| {
                // On stable storage, or at least out of this process, which may be killed.
                ticket.wait()?;
                Ok(())
            });
        match written {
            Ok(()) => Ok(()),
            // Refused because of their contents, which says nothing about the store.
            Err(abide::Error::Append(
                AppendError::Input { .. } | AppendError::TooLarge { .. } | AppendError::Odd { .. },
            )) => {
                self.missed += count;
                Ok(())
            }
            Err(error) => {
                self.missed += count;
                Err(self.failed(&error))
            }
        }
    }

    /// Handles a failure of the store: nothing is written until the session is opened again.
    pub(crate) fn failed(&mut self, error: &dyn std::error::Error) -> StoreFailure {
        self.others = None;
        self.session = None;
        if std::mem::replace(&mut self.told, true) {
            return StoreFailure(None);
        }
        let mut why = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            why.push_str(": ");
            why.push_str(&error.to_string());
            source = error.source();
        }
        StoreFailure(Some(format!(
            "abide cannot record this session: {why}. The conversation continues unrecorded; \
             abide tries again at the next prompt."
        )))
    }

    /// Starts recording into a session that could not be made before.
    pub(crate) fn take(&mut self, session: Session) {
        self.place = Some((Arc::new(session.store().clone()), session.id()));
        self.others = serve_others(&session);
        // The translator was made when there was no session whose secrets it should know.
        self.translator.redact_with(session.redactor().cloned());
        self.session = Some(Arc::new(session));
    }

    /// Whether there never was a session to record into.
    pub(crate) fn is_homeless(&self) -> bool {
        self.place.is_none() && !self.closed
    }

    /// Opens the session again after the store failed. Returns the message that says so.
    pub(crate) fn reopen(&mut self) -> Option<String> {
        if self.session.is_some() {
            return None;
        }
        let (store, id) = self.place.as_ref()?;
        let session = store.open_session(&SessionRef::Id(*id)).ok()?;
        self.others = serve_others(&session);
        self.translator.redact_with(session.redactor().cloned());
        self.session = Some(Arc::new(session));
        let missed = std::mem::take(&mut self.missed);
        let text = format!("the store had failed; {missed} events before this were not recorded");
        let gap = LogRecord { level: "warn".into(), text };
        let events = NewEvent::try_from(gap).map(|event| vec![event]).unwrap_or_default();
        self.write(RecordedEvents { events, weight: RecordDurability::Before }).ok()?;
        Some(format!("abide records this session again; {missed} events were not recorded."))
    }

    /// Makes a checkpoint of the workspace as it is before a prompt, if it has changed.
    pub(crate) fn checkpoint(
        session: &Session,
        cancelled: Arc<AtomicBool>,
    ) -> Result<(), abide::Error> {
        let request = CheckpointRequest {
            trigger: Trigger::Turn,
            lenient: true,
            watch: Watch { cancel: Some(cancelled), ..Watch::default() },
            ..CheckpointRequest::default()
        };
        session.checkpoint_changes(&request).map(drop)
    }

    /// Records which of the agent's sessions this is.
    pub(crate) fn observe(
        &mut self,
        inner: &str,
        agent: &str,
        primed: bool,
    ) -> Result<(), StoreFailure> {
        let Some(session) = &self.session else { return Ok(()) };
        let rewinds = match session.core() {
            Ok(core) => core.rewinds,
            Err(error) => return Err(self.failed(&error)),
        };
        let how = if primed { "primed" } else { "whole" };
        let label = format!("{} {rewinds} {how} {inner}", session.id());
        let fields = SessionFields {
            labels: BTreeMap::from([(INNER.to_owned(), label)]),
            ..SessionFields::default()
        };
        let seen = AgentObservation {
            session: Some(inner.to_owned()),
            agent: Some(agent.to_owned()),
            model: None,
        };
        let events = [NewEvent::try_from(fields), NewEvent::try_from(seen)];
        let events = events.into_iter().filter_map(Result::ok).collect();
        self.write(RecordedEvents { events, weight: RecordDurability::Before })
    }

    /// The agent's session that knows all of this one; `None` if this one was rewound since, or is
    /// a fork.
    pub(crate) fn inner(&self) -> Option<RecordedAgentSession> {
        let session = self.session.as_ref()?;
        let core = session.core().ok()?;
        let mut parts = core.fields.labels.get(INNER)?.splitn(4, ' ');
        let (of, rewinds) = (parts.next()?, parts.next()?);
        let (how, id) = (parts.next()?, parts.next()?);
        let fits = of == session.id().to_string() && rewinds == core.rewinds.to_string();
        fits.then(|| RecordedAgentSession { id: id.to_owned(), primed: how == "primed" })
    }

    /// Writes a warning to the session's log.
    pub(crate) fn log(&mut self, text: String) -> Result<(), StoreFailure> {
        let event = NewEvent::try_from(LogRecord { level: "warn".into(), text });
        let events = event.map(|event| vec![event]).unwrap_or_default();
        self.write(RecordedEvents { events, weight: RecordDurability::Behind })
    }

    /// Calls `take` with the session's live events, in order, until it returns false. Messages that were
    /// replaced are left out.
    pub(crate) fn each(
        session: &Session,
        take: &mut dyn FnMut(&Event) -> bool,
    ) -> Result<(), abide::Error> {
        let view = session.view();
        let state = view.state()?;
        for event in view.events(EventRange::ALL) {
            let event = event?;
            if event.seq > state.core.seq {
                break;
            }
            if state.shows(&event) && !take(&event) {
                break;
            }
        }
        Ok(())
    }

    /// Records that the client has closed the session: it is completed, unless another process is
    /// still at work in it.
    pub(crate) fn complete(&mut self) {
        if self.session.as_ref().is_some_and(|session| !session.is_relayed()) {
            let _ = self.write(status(SessionStatus::Completed));
        }
    }

    /// Closes the session.
    pub(crate) fn close(&mut self) {
        self.others = None;
        self.session = None;
        self.place = None;
        self.closed = true;
    }
}

/// Without a socket only the proxy writes to the session: other commands say who holds it.
fn serve_others(session: &Session) -> Option<ChildService> {
    session.serve_children(|_| ()).ok()
}
