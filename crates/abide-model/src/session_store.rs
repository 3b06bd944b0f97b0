//! The store traits and their errors.
//!
//! The traits use domain types only: no files, rows or wire formats. Their methods block.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    AppendError, Digest, Epoch, Event, HeldMark, History, HistoryQuery, InputError, LaneId,
    LaneState, NewEvent, Objects, Seq, SessionCore, SessionFields, SessionId, SessionParent,
    SessionRef, SessionState, Ticket, Timestamp, UsageQuery, UsageReport,
};

/// What an acknowledged event survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum Durability {
    /// Handed to the operating system: survives the death of the process, not a power cut.
    Buffered,
    /// On stable storage: survives a power cut.
    #[default]
    Synced,
}

/// What to do with an event that has an anomaly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnomalyPolicy {
    /// Record it and report the anomaly.
    #[default]
    Keep,
    /// Refuse the batch.
    Refuse,
}

/// The process that holds a session for writing.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct WriterHolder {
    /// Process id.
    pub process: u32,
    /// Program name.
    pub program: String,
    /// Host name.
    pub host: String,
    /// User name; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// When it opened the session.
    pub since: Timestamp,
    /// Boot id of its machine; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// Start time of the process, in the system's own unit. Tells it from a later process with the
    /// same id. `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// Its last sign of life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beat: Option<Timestamp>,
}

impl WriterHolder {
    /// The person and the machine: `user@host`. `None` if the user is not known.
    #[must_use]
    pub fn who(&self) -> Option<String> {
        self.user.as_ref().map(|user| format!("{user}@{}", self.host))
    }
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

/// Why a store operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// No such session.
    #[error("there is no session {reference}")]
    NoSession {
        /// The reference as given.
        reference: String,
    },
    /// More than one session matches.
    #[error("{reference} is ambiguous: {}", matches.join(", "))]
    Ambiguous {
        /// The reference as given.
        reference: String,
        /// Some of the matches.
        matches: Vec<String>,
    },
    /// No such event, or it is not acknowledged yet.
    #[error("session {session} has no acknowledged event @{seq}; its last is @{last}")]
    NoEvent {
        /// The session.
        session: SessionId,
        /// The requested event.
        seq: Seq,
        /// The last acknowledged event.
        last: Seq,
    },
    /// The parent of a fork is missing.
    #[error("session {session} was forked from session {parent}, which is not in this store")]
    NoParent {
        /// The fork.
        session: SessionId,
        /// Its parent.
        parent: SessionId,
    },
    /// Another writer holds the session.
    #[error("session {session} is held by {holder}")]
    Held {
        /// The session.
        session: SessionId,
        /// Its holder.
        holder: Box<WriterHolder>,
    },
    /// This writer lost the session: another one has written to it or may write to it.
    #[error("session {session} was taken over by {by}")]
    TakenOver {
        /// The session.
        session: SessionId,
        /// The new writer, if known.
        by: String,
    },
    /// The store was written by a newer version of abide.
    #[error("{place} is of version {found}; this program knows {known}")]
    NewerVersion {
        /// The store or file.
        place: String,
        /// Its version.
        found: u64,
        /// The newest version this program supports.
        known: u64,
    },
    /// There is no store at this place.
    #[error("there is no store in {place} yet")]
    NotMade {
        /// The place.
        place: String,
    },
    /// The store has an older version and is not migrated automatically.
    #[error("{place} is of version {found}; this program works with {known}")]
    OlderVersion {
        /// The store or file.
        place: String,
        /// Its version.
        found: u64,
        /// The version this program needs.
        known: u64,
    },
    /// The store already keeps its objects elsewhere; they cannot be moved.
    #[error("the objects of {place} are already in {known}")]
    ObjectsElsewhere {
        /// The store.
        place: String,
        /// Where its objects are.
        known: String,
    },
    /// Stored data is damaged.
    #[error("{place} is damaged: {reason}")]
    Damaged {
        /// The file or row, and where in it.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// An I/O operation failed.
    #[error("cannot {action} {place}")]
    Storage {
        /// The operation, as a verb.
        action: &'static str,
        /// Its object.
        place: String,
        /// The underlying error.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// An append failed.
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// Why a session was not deleted. It is unchanged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DeleteError {
    /// Another session is a fork of it.
    #[error("cannot delete session {session}: session {fork} is a fork of it")]
    Forked {
        /// The session to delete.
        session: SessionId,
        /// Its fork.
        fork: SessionId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A session to create.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    /// Its fields. With a `key`, an existing session with that key is used instead.
    pub fields: SessionFields,
    /// When it started, if that was not now: its id carries this time. Never later than now.
    pub started: Option<Timestamp>,
}

impl From<SessionFields> for NewSession {
    fn from(fields: SessionFields) -> Self {
        Self { fields, started: None }
    }
}

impl NewSession {
    /// A session with a title.
    #[must_use]
    pub fn titled(title: impl Into<String>) -> Self {
        SessionFields { title: Some(title.into()), ..SessionFields::default() }.into()
    }

    /// That started then, as the record of another program says.
    #[must_use]
    pub const fn started(mut self, at: Timestamp) -> Self {
        self.started = Some(at);
        self
    }

    /// The time for its id.
    #[must_use]
    pub fn id_time(&self, now: Timestamp) -> Timestamp {
        self.started.map_or(now, |started| started.min(now))
    }

    /// As a fork of a session with the fields `like`: fields that are not set are inherited. The
    /// project is inherited only without a `key`, because a key is unique within the caller's
    /// project.
    #[must_use]
    pub fn forked(self, parent: SessionParent, like: &SessionFields) -> Self {
        let mut fields = SessionFields { parent: None, key: None, ..like.clone() };
        let inherited = fields.project_id.filter(|_| self.fields.key.is_none());
        fields.project_id = self.fields.project_id.clone().or(inherited);
        fields.update(self.fields);
        fields.parent = Some(parent);
        Self { fields, started: self.started }
    }

    /// In the first of these projects, unless a project is set.
    #[must_use]
    pub fn in_project(mut self, projects: &[String]) -> Self {
        self.fields.project_id = self.fields.project_id.or_else(|| projects.first().cloned());
        self
    }

    /// With an idempotency key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.fields.key = Some(key.into());
        self
    }
}

/// A session that was created, or that already had the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedSession {
    /// Its id.
    pub id: SessionId,
    /// Whether this call created it. If several callers use the same key at once, this is true for
    /// exactly one of them.
    pub is_new: bool,
}

impl CreatedSession {
    /// A session that this call created.
    #[must_use]
    pub const fn new(id: SessionId) -> Self {
        Self { id, is_new: true }
    }

    /// A session that already had the key.
    #[must_use]
    pub const fn known(id: SessionId) -> Self {
        Self { id, is_new: false }
    }
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its id.
    pub id: SessionId,
    /// Its short id: as many characters as it takes to be unique.
    pub short: String,
}

impl SessionSummary {
    /// Summaries of all sessions of a store, in the given order.
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

/// The order in which to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadDirection {
    /// Oldest first.
    #[default]
    Forward,
    /// Newest first.
    Backward,
}

/// Which events to read, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRange {
    /// The lowest seq.
    pub first: Seq,
    /// The highest seq.
    pub last: Seq,
    /// The order.
    pub direction: ReadDirection,
    /// The maximum number of events in a page.
    pub limit: usize,
}

impl EventRange {
    /// Everything, oldest first.
    pub const ALL: Self = Self {
        first: Seq::FIRST,
        last: Seq(u64::MAX),
        direction: ReadDirection::Forward,
        limit: 1024,
    };

    /// All events from `first` on.
    #[must_use]
    pub const fn from(first: Seq) -> Self {
        Self { first, ..Self::ALL }
    }

    /// Newest first.
    #[must_use]
    pub const fn backward(self) -> Self {
        Self { direction: ReadDirection::Backward, ..self }
    }

    /// With at most `limit` events in a page.
    #[must_use]
    pub const fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

/// Something a reader should know about the events it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFinding {
    /// The last write is incomplete. It was never acknowledged, so nothing acknowledged is missing.
    TornTail {
        /// The file.
        place: String,
        /// The size of the incomplete write.
        bytes: u64,
    },
    /// Part of the session is damaged; the rest was read.
    Damage {
        /// The file and offset.
        place: String,
        /// What is wrong.
        reason: String,
        /// The first and the last lost event, if known.
        lost: Option<(Seq, Seq)>,
    },
}

impl fmt::Display for ReadFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TornTail { place, bytes } => {
                write!(
                    f,
                    "{place}: ignored a torn write of {bytes} bytes at the end (never acknowledged)"
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
    /// Findings about them.
    pub notes: Vec<ReadFinding>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<Seq>,
}

/// A place that holds sessions.
pub trait Store: fmt::Debug + Send + Sync {
    /// Creates a session, or returns the one that already has the given key. The session is
    /// durable.
    fn create(&self, session: NewSession) -> Result<CreatedSession, StoreError>;
    /// Creates a session that shares the history of `parent` up to `at`, or up to its last
    /// acknowledged event without `at`. Fields that are not set are inherited (title, agent, labels
    /// and so on), except for the key. Otherwise like [`Store::create`].
    fn fork(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Result<CreatedSession, StoreError>;
    /// Resolves a reference to a session.
    fn find(&self, reference: &SessionRef) -> Result<SessionId, StoreError>;
    /// Every session, newest first.
    fn list(&self) -> Result<Vec<SessionSummary>, StoreError>;
    /// The sessions that match the query. Covers every event acknowledged before the call.
    fn history(&self, query: &HistoryQuery) -> Result<History, StoreError>;
    /// The tokens that were spent. Covers every event acknowledged before the call.
    fn usage(&self, query: &UsageQuery) -> Result<UsageReport, StoreError>;
    /// Opens a session for writing. Waits up to `wait` for another writer to release it.
    fn write(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError>;
    /// Opens a session for reading.
    fn read(&self, session: SessionId) -> Result<Arc<dyn SessionReader>, StoreError>;
    /// The objects of the store. From the first lookup or write on, no object is collected until
    /// the returned handle is dropped.
    fn objects(&self) -> Result<Arc<dyn Objects>, StoreError>;
}

/// Makes an event that follows the event at this seq.
pub type EventFactory<'a> = dyn Fn(Seq) -> Result<NewEvent, InputError> + 'a;

/// The only writer of a session. Dropping it releases the session.
pub trait SessionWriter: Send + Sync {
    /// Appends a batch, all or nothing. The ticket resolves once the batch is acknowledged. After a
    /// crash before that, a prefix of the batch may survive.
    fn append(
        &self,
        events: Vec<NewEvent>,
        durability: Durability,
        odd: AnomalyPolicy,
    ) -> Result<Ticket, AppendError>;
    /// Appends one event that refers to the event right before it. `make` is given the seq of that
    /// event; no other append can come between the two.
    fn append_behind(&self, make: &EventFactory<'_>) -> Result<Ticket, AppendError>;
    /// The state after every event appended so far, acknowledged or not.
    fn state(&self) -> Result<SessionState, StoreError>;
    /// The core of that state and the digest of all of it. The cost does not depend on the length
    /// of the session.
    fn core(&self) -> Result<(SessionCore, Digest), StoreError>;
    /// The core of that state and one lane of it, once every event appended so far can be read. The
    /// cost does not depend on the length of the session.
    fn lane(&self, lane: Option<&LaneId>) -> Result<(SessionCore, LaneState), StoreError>;
    /// Makes every event appended so far durable.
    fn flush(&self) -> Result<(), AppendError>;
    /// This writer's epoch.
    fn epoch(&self) -> Epoch;
    /// What was found and repaired when the session was opened.
    fn notes(&self) -> Vec<ReadFinding>;
    /// Makes everything durable and releases the session.
    fn close(&self) -> Result<(), StoreError>;
    /// From now on, until what is returned is dropped, an append that names objects is refused if the
    /// mark of the store's objects is not this one: another process has stored them under it.
    fn hold_mark(&self, _mark: &str) -> Result<HeldMark, StoreError> {
        Err(StoreError::Storage {
            action: "append to",
            place: "the session".to_owned(),
            source: Arc::new(std::io::Error::other("the store has no mark of its objects")),
        })
    }
    /// Whether another process holds the session and writes for this one.
    fn is_relayed(&self) -> bool {
        false
    }
}

/// Reads a session, with or without a writer beside it.
pub trait SessionReader: Send + Sync {
    /// A page of events.
    fn page(&self, range: EventRange) -> Result<EventPage, StoreError>;
    /// The last event that is acknowledged.
    fn acknowledged(&self) -> Result<Seq, StoreError>;
    /// Waits up to `within` for events after `beyond`, and returns whether there may be any. A
    /// store that is not notified of new events returns `false` at once.
    fn grown(&self, _beyond: Seq, _within: Duration) -> Result<bool, StoreError> {
        Ok(false)
    }
    /// The state as of the last readable event.
    fn state(&self) -> Result<SessionState, StoreError>;
    /// The core of that state and the digest of all of it.
    fn core(&self) -> Result<(SessionCore, Digest), StoreError> {
        let state = self.state()?;
        let digest = state.digest();
        Ok((state.core, digest))
    }
    /// The core of that state and one lane of it, at a cost that does not depend on the length of
    /// the session. With `at`, the state right after that event, which is folded anew.
    fn lane(
        &self,
        lane: Option<&LaneId>,
        at: Option<Seq>,
    ) -> Result<(SessionCore, LaneState), StoreError>;
    /// The size of the session in the store, without its objects.
    fn bytes(&self) -> Result<u64, StoreError>;
}
