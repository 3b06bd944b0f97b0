//! What a store is. Implemented on local files and, for tests, in memory.
//!
//! The traits speak of sessions and events only; nothing of files, rows or wires shows here.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    AppendError, Core, Digest, Epoch, Event, History, HistoryQuery, InputError, LaneId, LaneState,
    NewEvent, Objects, Parent, Seq, SessionFields, SessionId, SessionRef, SessionState, Ticket,
    Timestamp,
};

/// What a store answers, once it has.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// How safe an event is when it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum Durability {
    /// Handed to the operating system: survives the death of the process, not a power cut.
    Buffered,
    /// On stable storage: survives a power cut.
    #[default]
    Synced,
}

/// What to do with an event that does not fit what came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OddEvents {
    /// Keep it and say what is odd.
    #[default]
    Keep,
    /// Refuse the batch.
    Refuse,
}

/// Who holds a session for writing.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct WriterHolder {
    /// Its process.
    pub process: u32,
    /// Its program.
    pub program: String,
    /// Its machine.
    pub host: String,
    /// Since when.
    pub since: Timestamp,
    /// This run of its machine; none where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// When its process began, as the system counts it, so that another process that comes to have
    /// its number is not taken for it; none where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// When it last gave a sign of life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beat: Option<Timestamp>,
}

impl fmt::Display for WriterHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (process {} on {}) since {}",
            self.program, self.process, self.host, self.since
        )
    }
}

/// Why a store could not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// There is no such session.
    #[error("there is no session {reference}")]
    NoSession {
        /// As it was asked for.
        reference: String,
    },
    /// More than one session fits.
    #[error("{reference} could be any of: {}", matches.join(", "))]
    Ambiguous {
        /// As it was asked for.
        reference: String,
        /// Some that fit.
        matches: Vec<String>,
    },
    /// There is no such event, or it is not acknowledged yet.
    #[error("session {session} has no acknowledged event @{seq}; its last is @{last}")]
    NoEvent {
        /// Which session.
        session: SessionId,
        /// Which event was asked for.
        seq: Seq,
        /// The last that is acknowledged.
        last: Seq,
    },
    /// The session that a fork shares its past with is gone.
    #[error("session {session} was forked from session {parent}, which is not in this store")]
    NoParent {
        /// The fork.
        session: SessionId,
        /// What it was forked from.
        parent: SessionId,
    },
    /// Another writer has the session.
    #[error("session {session} is held by {holder}")]
    Held {
        /// Which session.
        session: SessionId,
        /// By whom.
        holder: Box<WriterHolder>,
    },
    /// This writer's hold on a session ended, and another one has written or may write to it.
    #[error("session {session} was taken over by {by}")]
    TakenOver {
        /// Which session.
        session: SessionId,
        /// By whom, where that can still be told.
        by: String,
    },
    /// The store was written by a newer version.
    #[error("{place} is of version {found}; this program knows {known}")]
    NewerVersion {
        /// What.
        place: String,
        /// Its version.
        found: u64,
        /// The newest this program knows.
        known: u64,
    },
    /// Nobody has made a store there.
    #[error("there is no store in {place} yet")]
    NotMade {
        /// Where.
        place: String,
    },
    /// The store is as an older version made it, and is not brought up to date by itself.
    #[error("{place} is of version {found}; this program works with {known}")]
    OlderVersion {
        /// What.
        place: String,
        /// Its version.
        found: u64,
        /// The one this program works with.
        known: u64,
    },
    /// The objects of a store stay where they are.
    #[error("the objects of {place} are in {known} already")]
    ObjectsElsewhere {
        /// Which store.
        place: String,
        /// Where they are.
        known: String,
    },
    /// Something is not what it should be.
    #[error("{place} is damaged: {reason}")]
    Damaged {
        /// What and where.
        place: String,
        /// In what way.
        reason: String,
    },
    /// The storage said no.
    #[error("cannot {action} {place}")]
    Storage {
        /// What was tried.
        action: &'static str,
        /// On what.
        place: String,
        /// Its answer.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// An append failed.
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// Why a session was not deleted. It is as it was.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DeleteError {
    /// Another session needs its past.
    #[error("session {session} stays: session {fork} is a fork of it")]
    Forked {
        /// Which was to go.
        session: SessionId,
        /// Its fork.
        fork: SessionId,
    },
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A session to be made.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    /// What it is. With a `key`, the session that has that key is taken where there is one.
    pub fields: SessionFields,
}

impl NewSession {
    /// A session with a title.
    #[must_use]
    pub fn titled(title: impl Into<String>) -> Self {
        Self { fields: SessionFields { title: Some(title.into()), ..SessionFields::default() } }
    }

    /// As a fork of a session that is like this: what this one is not told it has from that one. The
    /// project too, unless it has a key: that counts in the project of whoever gives it.
    #[must_use]
    pub fn forked(self, parent: Parent, like: &SessionFields) -> Self {
        let mut fields = SessionFields { parent: None, key: None, ..like.clone() };
        let inherited = fields.project_id.filter(|_| self.fields.key.is_none());
        fields.project_id = self.fields.project_id.clone().or(inherited);
        fields.update(self.fields);
        fields.parent = Some(parent);
        Self { fields }
    }

    /// As a session of the first of these projects, unless it is told another one.
    #[must_use]
    pub fn in_project(mut self, projects: &[String]) -> Self {
        self.fields.project_id = self.fields.project_id.or_else(|| projects.first().cloned());
        self
    }

    /// With the client's own key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.fields.key = Some(key.into());
        self
    }
}

/// What came of making a session that has a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// It was made.
    New(SessionId),
    /// There is one already that has its key.
    Known(SessionId),
}

impl Made {
    /// Whichever it is.
    #[must_use]
    pub const fn id(self) -> SessionId {
        match self {
            Self::New(id) | Self::Known(id) => id,
        }
    }
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its id.
    pub id: SessionId,
    /// Its short id: as long as it must be to be the only one.
    pub short: String,
}

impl SessionSummary {
    /// Of all the sessions of a store, in the same order.
    #[must_use]
    pub fn of(sessions: &[SessionId]) -> Vec<Self> {
        let mut shorts: Vec<_> = sessions.iter().map(|id| id.short(12)).collect();
        shorts.sort_unstable();
        let unique = |id: &SessionId| {
            let whole = id.short(12);
            let length = (SessionId::SHORT..12).find(|length| {
                let prefix = id.short(*length);
                let from = shorts.partition_point(|short| short.as_str() < prefix.as_str());
                shorts.iter().skip(from).take_while(|short| short.starts_with(&prefix)).count() <= 1
            });
            length.map_or(whole, |length| id.short(length))
        };
        sessions.iter().map(|id| Self { id: *id, short: unique(id) }).collect()
    }
}

/// Which way to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Oldest first.
    #[default]
    Forward,
    /// Newest first.
    Backward,
}

/// Which events to read, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRange {
    /// The least seq.
    pub first: Seq,
    /// The greatest seq.
    pub last: Seq,
    /// Which way.
    pub direction: Direction,
    /// The most events in one page.
    pub limit: usize,
}

impl EventRange {
    /// Everything, oldest first.
    pub const ALL: Self =
        Self { first: Seq::FIRST, last: Seq(u64::MAX), direction: Direction::Forward, limit: 1024 };

    /// From `first` on.
    #[must_use]
    pub const fn from(first: Seq) -> Self {
        Self { first, ..Self::ALL }
    }

    /// Newest first.
    #[must_use]
    pub const fn backward(self) -> Self {
        Self { direction: Direction::Backward, ..self }
    }

    /// At most so many in a page.
    #[must_use]
    pub const fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

/// Something a reader should know about what it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadNote {
    /// An unacknowledged write at the end was cut short. Nothing acknowledged is missing.
    TornTail {
        /// Where.
        place: String,
        /// How many bytes.
        bytes: u64,
    },
    /// Something is damaged. What can be read was read.
    Damage {
        /// Where: file and offset.
        place: String,
        /// In what way.
        reason: String,
        /// Which events are missing for it, where that is known.
        lost: Option<(Seq, Seq)>,
    },
}

impl fmt::Display for ReadNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TornTail { place, bytes } => {
                write!(
                    f,
                    "{place}: {bytes} bytes of an unacknowledged write at the end were passed over"
                )
            }
            Self::Damage { place, reason, lost: None } => write!(f, "{place}: {reason}"),
            Self::Damage { place, reason, lost: Some((first, last)) } if first == last => {
                write!(f, "{place}: {reason} (event {first} is lost)")
            }
            Self::Damage { place, reason, lost: Some((first, last)) } => {
                write!(f, "{place}: {reason} (events {first} to {last} are lost)")
            }
        }
    }
}

/// A page of events.
#[derive(Debug, Clone, Default)]
pub struct EventPage {
    /// The events, in the direction asked for.
    pub events: Vec<Event>,
    /// What to know about them.
    pub notes: Vec<ReadNote>,
    /// Where the next page starts; none at the end.
    pub next: Option<Seq>,
}

/// Where sessions live.
pub trait Store: fmt::Debug + Send + Sync {
    /// Makes a session; with a key that is known, gives the session that has it. Durable.
    fn create(&self, session: NewSession) -> Pending<'_, SessionId>;
    /// Makes a session that shares the past of another one up to `at`; up to its last acknowledged
    /// event, where that is not given. What the new one is not told it has from the other: title,
    /// agent, labels and so on, but not the key. Otherwise as [`Store::create`].
    fn fork(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Pending<'_, SessionId>;
    /// Which session is meant?
    fn find<'a>(&'a self, reference: &'a SessionRef) -> Pending<'a, SessionId>;
    /// Every session, newest first.
    fn list(&self) -> Pending<'_, Vec<SessionSummary>>;
    /// The sessions that fit, with all that was acknowledged before it was asked for.
    fn history<'a>(&'a self, query: &'a HistoryQuery) -> Pending<'a, History>;
    /// Takes a session for writing, waiting so long for another writer to let go.
    fn write(&self, session: SessionId, wait: Duration) -> Pending<'_, Arc<dyn SessionWriter>>;
    /// Opens a session for reading.
    fn read(&self, session: SessionId) -> Pending<'_, Arc<dyn SessionReader>>;
    /// The store's objects, to put and to read. From the first that is asked for or put, none is
    /// collected until they are dropped.
    fn objects(&self) -> Pending<'_, Arc<dyn Objects>>;
}

/// Makes an event for the place right behind this one.
pub type MakeEvent<'a> = dyn Fn(Seq) -> Result<NewEvent, InputError> + 'a;

/// The one writer of a session. Dropping it lets the session go.
pub trait SessionWriter: Send + Sync {
    /// Takes events in: accepts all of them or refuses all. They are acknowledged when the ticket
    /// says so; after a crash before that, the first of them may be there.
    fn append(
        &self,
        events: Vec<NewEvent>,
        durability: Durability,
        odd: OddEvents,
    ) -> Result<Ticket, AppendError>;
    /// Appends one event that names the event right before it: `make` is told which that is, and
    /// nothing comes between, whoever else appends.
    fn append_behind(&self, make: &MakeEvent<'_>) -> Result<Ticket, AppendError>;
    /// The state after every event taken in so far.
    fn state(&self) -> Result<SessionState, StoreError>;
    /// The small part of that state and the digest of all of it: for the same price however long
    /// the session is.
    fn core(&self) -> Result<(Core, Digest), StoreError>;
    /// The small part of that state and one lane of it, once every event taken in so far can be
    /// read: for the same price however long the session is.
    fn lane(&self, lane: Option<&LaneId>) -> Result<(Core, LaneState), StoreError>;
    /// Makes everything durable that was taken in so far.
    fn flush(&self) -> Result<(), AppendError>;
    /// This writer's epoch.
    fn epoch(&self) -> Epoch;
    /// What was found and mended when the session was opened.
    fn notes(&self) -> Vec<ReadNote>;
    /// Makes everything durable and lets the session go.
    fn close(&self) -> Pending<'_, ()>;
}

/// Reads a session, beside its writer or without one.
pub trait SessionReader: Send + Sync {
    /// A page of events.
    fn page(&self, range: EventRange) -> Pending<'_, EventPage>;
    /// The last event that is acknowledged.
    fn acknowledged(&self) -> Pending<'_, Seq>;
    /// Waits until there may be more than `beyond`, and no longer than `within`. A store that is not
    /// told of what is new does not wait, and says no.
    fn grown(&self, _beyond: Seq, _within: Duration) -> Pending<'_, bool> {
        Box::pin(async { Ok(false) })
    }
    /// The state as of the last event that can be read.
    fn state(&self) -> Pending<'_, SessionState>;
    /// The small part of that state and the digest of all of it.
    fn core(&self) -> Pending<'_, (Core, Digest)> {
        Box::pin(async move {
            let state = self.state().await?;
            let digest = state.digest();
            Ok((state.core, digest))
        })
    }
    /// The small part of that state and one lane of it, for the same price however long the session
    /// is; or of the state right behind `at`, which is folded anew.
    fn lane<'a>(
        &'a self,
        lane: Option<&'a LaneId>,
        at: Option<Seq>,
    ) -> Pending<'a, (Core, LaneState)>;
    /// The bytes that the session takes in the store, its objects left aside.
    fn bytes(&self) -> Pending<'_, u64>;
}
