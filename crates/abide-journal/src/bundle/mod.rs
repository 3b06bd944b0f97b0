//! The bundle: one session and its objects in one file, to share it or to keep it.
//!
//! ```text
//! {"abide":"bundle","version":1, …}          one line, plain
//! one zstd frame:
//!   {"object":"HASH","size":N}               before the first line that names it, its bytes and
//!   …                                        a line feed behind it
//!   {"seq":1, …}                             the lines of the journal, byte for byte
//!   {"end":{…}}                              counts, and the hash of everything before
//! ```
//!
//! `docs/format.md` is the norm. It speaks of lines and objects only, so that any store can make
//! one and take one in. Reader and writer run everything past the same [`BundleCheck`], in memory
//! that does not grow with the session, a few words for each object apart.

mod check;
mod outcome;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::io;

use abide_model::{Limits, ObjectHash, Seq, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

pub use check::BundleCheck;
pub use outcome::{ExportError, ImportError, ImportOutcome, Imported};
pub use reader::{BundleReader, BundleRecord};
pub use writer::BundleWriter;

use crate::{LineError, Sum};

/// The version of bundles that this program writes, and the newest it reads.
pub const BUNDLE_VERSION: u64 = 1;

/// The longest first line.
const MAX_HEADER: usize = 64 << 10;
/// The longest record of our own beside lines and objects.
const MAX_RECORD: usize = 1 << 10;
/// The most objects: each is remembered while a bundle is written or read.
const MAX_OBJECTS: u64 = 1 << 22;
/// The most characters of a title in the first line.
const MAX_TITLE: usize = 200;
/// A bundle may unpack to so many times its own bytes. Text rarely comes to a tenth of that.
const MAX_RATIO: u64 = 200;
/// And to this much, whatever its size is.
const ANY_RATIO: u64 = 64 << 20;
/// How far back the compression may reach: what a reader must hold.
const WINDOW_LOG: u32 = 23;

const MAGIC: &[u8] = b"{\"abide\":\"bundle\"";

/// The largest object: a string of an event at its limit.
fn max_object() -> u64 {
    Limits::default().event_bytes as u64
}

/// The first line of a bundle: what it is, for a person and for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleHeader {
    /// Which session.
    pub session: SessionId,
    /// When it was made. For people.
    pub created: Timestamp,
    /// What people call it. For people.
    pub title: Option<String>,
    /// How many events.
    pub events: u64,
    /// How many objects.
    pub objects: u64,
    /// How many bytes their lines and objects have together.
    pub bytes: u64,
    /// What the session was forked from. That is not in the bundle.
    pub parent: Option<BundleParent>,
}

/// The event that the session in a bundle goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundleParent {
    /// The session it is an event of.
    pub session: SessionId,
    /// Which event.
    pub seq: Seq,
    /// Its sum.
    pub sum: Sum,
}

#[derive(Serialize, Deserialize)]
struct ParentWire {
    session: String,
    seq: Seq,
    sum: String,
}

#[derive(Serialize, Deserialize)]
struct HeaderWire {
    abide: String,
    version: u64,
    session: String,
    created: Timestamp,
    title: Option<String>,
    events: u64,
    objects: u64,
    bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<ParentWire>,
}

#[derive(Serialize, Deserialize)]
struct ObjectWire {
    object: ObjectHash,
    size: u64,
}

#[derive(Serialize, Deserialize)]
struct EndWire {
    end: End,
}

#[derive(Serialize, Deserialize)]
struct End {
    events: u64,
    objects: u64,
    bytes: u64,
    hash: ObjectHash,
}

impl BundleHeader {
    /// The line, its line break included.
    fn write(&self) -> Vec<u8> {
        let short = |title: &String| match title.char_indices().nth(MAX_TITLE) {
            Some((end, _)) => format!("{}…", title.get(..end).unwrap_or_default()),
            None => title.clone(),
        };
        line_of(&HeaderWire {
            abide: "bundle".to_owned(),
            version: BUNDLE_VERSION,
            session: self.session.to_string(),
            created: self.created,
            title: self.title.as_ref().map(short),
            events: self.events,
            objects: self.objects,
            bytes: self.bytes,
            parent: self.parent.map(|parent| ParentWire {
                session: parent.session.to_string(),
                seq: parent.seq,
                sum: parent.sum.to_string(),
            }),
        })
    }

    /// What comes before the first event: the event that the session was forked at and its sum, or
    /// nothing and the genesis sum.
    #[must_use]
    pub fn before(&self) -> (Seq, Sum) {
        let genesis = || (Seq::ZERO, Sum::genesis(self.session));
        self.parent.map_or_else(genesis, |parent| (parent.seq, parent.sum))
    }

    /// The seq of the last event.
    #[must_use]
    pub fn last(&self) -> Seq {
        Seq(self.before().0.0.saturating_add(self.events))
    }

    fn read(line: &[u8]) -> Result<Self, BundleError> {
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let bad = |error: serde_json::Error| BundleError::NotABundle { reason: error.to_string() };
        let Version { version } = serde_json::from_slice(line).map_err(bad)?;
        if version > BUNDLE_VERSION {
            return Err(BundleError::NewerVersion { found: version, known: BUNDLE_VERSION });
        }
        let wire: HeaderWire = serde_json::from_slice(line).map_err(bad)?;
        let session: SessionId = wire
            .session
            .parse()
            .map_err(|_| BundleError::NotABundle { reason: "its session has no id".to_owned() })?;
        let no_parent =
            || BundleError::NotABundle { reason: "its parent is not readable".to_owned() };
        let parent = match wire.parent {
            None => None,
            Some(parent) => Some(BundleParent {
                session: parent.session.parse().map_err(|_| no_parent())?,
                seq: Some(parent.seq).filter(|seq| *seq > Seq::ZERO).ok_or_else(no_parent)?,
                sum: Sum::from_ascii(parent.sum.as_bytes()).ok_or_else(no_parent)?,
            }),
        };
        Ok(Self {
            session,
            created: wire.created,
            title: wire.title,
            events: wire.events,
            objects: wire.objects,
            bytes: wire.bytes,
            parent,
        })
    }
}

/// A record of our own as a line, its line break included.
fn line_of<T: Serialize>(record: &T) -> Vec<u8> {
    // Plain structs always serialise.
    let mut line = serde_json::to_vec(record).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Why a bundle could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It has no bytes.
    #[error("it is empty, not a bundle")]
    Empty,
    /// Its first line is not that of a bundle.
    #[error("it is not a bundle: {reason}")]
    NotABundle {
        /// How that shows.
        reason: String,
    },
    /// A newer program wrote it.
    #[error("it is a bundle of version {found}; this program knows {known}")]
    NewerVersion {
        /// Its version.
        found: u64,
        /// The newest this program knows.
        known: u64,
    },
    /// It is not all there.
    #[error("it is cut short: it ends at byte {offset}, before its end record")]
    Truncated {
        /// How many bytes of it there are.
        offset: u64,
    },
    /// Its compression is damaged.
    #[error("it is damaged near byte {offset}: {reason}")]
    Damaged {
        /// Where in the file, about.
        offset: u64,
        /// What the decoder says.
        reason: String,
    },
    /// What is in it is not what a bundle holds.
    #[error("it does not hold together at unpacked byte {offset}")]
    Fault {
        /// Where the record starts in the unpacked bytes, the first line included.
        offset: u64,
        /// In what way.
        #[source]
        fault: BundleFault,
    },
    /// It is small and unpacks to very much.
    #[error("it unpacks to more than {ratio} times its own size")]
    Ratio {
        /// The most that it may unpack to.
        ratio: u64,
    },
    /// The input could not be read.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// The output could not be written.
    #[error("it cannot be written")]
    Write(#[source] io::Error),
}

/// In what way the records of a bundle do not hold together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleFault {
    /// The id is not one that abide gives.
    #[error("{session} is not the id of a session")]
    SessionId {
        /// The id.
        session: SessionId,
    },
    /// Bytes that are no record.
    #[error("bytes that are neither a line, nor an object, nor the end")]
    Record,
    /// Something is longer than it may be.
    #[error("{what} has more than {limit} bytes")]
    TooLong {
        /// What.
        what: &'static str,
        /// The most it may have.
        limit: u64,
    },
    /// There is more of something than the first line says, or less.
    #[error("{found} {what} where the first line says {told}")]
    Count {
        /// Of what.
        what: &'static str,
        /// As announced.
        told: u64,
        /// As found.
        found: u64,
    },
    /// Bytes of the form of a line that are none.
    #[error("a line of the journal that is none: {0}")]
    Line(LineError),
    /// A line at the wrong place.
    #[error("event {found} stands where event {expected} belongs")]
    Seq {
        /// Which event belongs there.
        expected: Seq,
        /// Which stands there.
        found: Seq,
    },
    /// A line that does not follow from the one before it.
    #[error("event {seq} does not follow from the one before it, or is of another session")]
    Unchained {
        /// Which.
        seq: Seq,
    },
    /// The first event is not the one that a session begins with.
    #[error(
        "the first event is not `session.created` of session {session}, or names another parent"
    )]
    NotTheBeginning {
        /// The session of the bundle.
        session: SessionId,
    },
    /// A line with a good sum that is no event.
    #[error("event {seq} has a good sum and is no event: {reason}")]
    Form {
        /// Which.
        seq: Seq,
        /// In what way.
        reason: &'static str,
    },
    /// An event names an object that did not come before it.
    #[error("event {seq} names object {hash}, which is missing")]
    MissingObject {
        /// Which event.
        seq: Seq,
        /// Which object.
        hash: ObjectHash,
    },
    /// The bytes of an object are not those of its name.
    #[error("the bytes of object {hash} are not its own")]
    ObjectBytes {
        /// Its name.
        hash: ObjectHash,
    },
    /// An object that stands a second time, or that the next event does not name.
    #[error("object {hash} is there for no event, or a second time")]
    StrayObject {
        /// Which.
        hash: ObjectHash,
    },
    /// The hash in the end record is another.
    #[error("the hash of the whole is another than the end record says")]
    Hash,
    /// Bytes behind the end.
    #[error("there are bytes behind the end")]
    BehindTheEnd,
}
