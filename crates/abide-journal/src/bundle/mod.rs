//! The bundle: one session and its objects in one file, for sharing or archiving.
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
//! `docs/format.md` is normative. A bundle knows only lines and objects, so any store can export
//! and import one. Reader and writer pass everything through the same [`BundleCheck`]. Memory does
//! not grow with the session, apart from a few words per object.

mod bundle_check;
mod bundle_reader;
mod bundle_writer;
mod import_outcome;
#[cfg(test)]
mod tests;

use std::io;

use abide_model::{EventLimits, ObjectHash, Seq, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

pub use bundle_check::BundleCheck;
pub use bundle_reader::{BundleReader, BundleRecord, BundleScreen};
pub use bundle_writer::BundleWriter;
pub use import_outcome::{ExportError, ImportError, ImportOutcome, ImportedBundle};

use crate::{LineError, Sum};

/// The bundle version this program writes, and the newest it reads.
pub const BUNDLE_VERSION: u64 = 1;

/// The longest first line in bytes.
const MAX_HEADER: usize = 64 << 10;
/// The longest record in bytes other than lines and objects.
const MAX_RECORD: usize = 1 << 10;
/// The most objects: each is remembered while a bundle is written or read.
const MAX_OBJECTS: u64 = 1 << 22;
/// The longest title in the first line, in characters.
const MAX_TITLE: usize = 200;
/// A bundle may unpack to this many times its size. Text rarely reaches a tenth of that.
const MAX_RATIO: u64 = 200;
/// And to this many bytes, whatever its size.
const ANY_RATIO: u64 = 64 << 20;
/// zstd window log: bounds the memory a reader needs.
const WINDOW_LOG: u32 = 23;

const MAGIC: &[u8] = b"{\"abide\":\"bundle\"";

/// The largest object: a string in an event at its limit.
fn max_bundle_object() -> u64 {
    EventLimits::default().event_bytes as u64
}

/// The first line of a bundle: what it holds, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleHeader {
    /// The session.
    pub session: SessionId,
    /// When the session was created. Informative.
    pub created: Timestamp,
    /// The session's title. Informative.
    pub title: Option<String>,
    /// The number of events.
    pub events: u64,
    /// The number of objects.
    pub objects: u64,
    /// The bytes of all lines and objects together.
    pub bytes: u64,
    /// What the session was forked from. The bundle does not hold the parent's events.
    pub parent: Option<BundleParent>,
}

/// The event of the parent that a bundled fork continues from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundleParent {
    /// The parent session.
    pub session: SessionId,
    /// The last event they share.
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
    end: BundleEnd,
}

#[derive(Serialize, Deserialize)]
struct BundleEnd {
    events: u64,
    objects: u64,
    bytes: u64,
    hash: ObjectHash,
}

impl BundleHeader {
    /// The header as a line, including its line break.
    fn write(&self) -> Vec<u8> {
        let short = |title: &String| match title.char_indices().nth(MAX_TITLE) {
            Some((end, _)) => format!("{}…", title.get(..end).unwrap_or_default()),
            None => title.clone(),
        };
        bundle_line(&HeaderWire {
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

    /// What comes before the first event: the event the session was forked at and its sum, or no
    /// event and the genesis sum.
    #[must_use]
    pub fn before(&self) -> (Seq, Sum) {
        let genesis = || (Seq::ZERO, Sum::genesis(self.session));
        self.parent.map_or_else(genesis, |parent| (parent.seq, parent.sum))
    }

    /// The last event.
    #[must_use]
    pub fn last(&self) -> Seq {
        Seq(self.before().0.0.saturating_add(self.events))
    }

    fn read(line: &[u8]) -> Result<Self, BundleError> {
        #[derive(Deserialize)]
        struct BundleVersionField {
            version: u64,
        }
        let bad = |error: serde_json::Error| BundleError::NotABundle { reason: error.to_string() };
        let BundleVersionField { version } = serde_json::from_slice(line).map_err(bad)?;
        if version > BUNDLE_VERSION {
            return Err(BundleError::NewerVersion { found: version, known: BUNDLE_VERSION });
        }
        let wire: HeaderWire = serde_json::from_slice(line).map_err(bad)?;
        let session: SessionId = wire
            .session
            .parse()
            .map_err(|_| BundleError::NotABundle { reason: "invalid session id".to_owned() })?;
        let no_parent = || BundleError::NotABundle { reason: "invalid parent".to_owned() };
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

/// A record as a line, including its line break.
fn bundle_line<T: Serialize>(record: &T) -> Vec<u8> {
    // Plain structs always serialise.
    let mut line = serde_json::to_vec(record).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Why a bundle could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// It is empty.
    #[error("it is empty, not a bundle")]
    Empty,
    /// The first line is not a bundle header.
    #[error("it is not a bundle: {reason}")]
    NotABundle {
        /// What is wrong with it.
        reason: String,
    },
    /// A newer program wrote it.
    #[error("bundle version {found} is newer than {known}, the newest this program reads")]
    NewerVersion {
        /// Its version.
        found: u64,
        /// The newest version this program reads.
        known: u64,
    },
    /// It is incomplete.
    #[error("it is truncated at byte {offset}, before its end record")]
    Truncated {
        /// Its length in bytes.
        offset: u64,
    },
    /// The compressed data is damaged.
    #[error("it is damaged near byte {offset}: {reason}")]
    Damaged {
        /// The approximate offset in the file.
        offset: u64,
        /// The decoder's message.
        reason: String,
    },
    /// The contents are inconsistent.
    #[error("it is inconsistent at unpacked byte {offset}")]
    Fault {
        /// Where the record starts in the unpacked bytes, counting the first line.
        offset: u64,
        /// What is wrong.
        #[source]
        fault: BundleFault,
    },
    /// It is small but unpacks to too much.
    #[error("it unpacks to more than {ratio} times its own size")]
    Ratio {
        /// The allowed ratio.
        ratio: u64,
    },
    /// Whoever looked at its records refused one.
    #[error("what it holds was refused")]
    Screened,
    /// The input could not be read.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// The output could not be written.
    #[error("it cannot be written")]
    Write(#[source] io::Error),
}

/// How the records of a bundle are inconsistent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundleFault {
    /// The id is not a valid session id.
    #[error("{session} is not the id of a session")]
    SessionId {
        /// The id.
        session: SessionId,
    },
    /// The bytes are not a record.
    #[error("not a line, an object or the end record")]
    Record,
    /// Something is too long.
    #[error("{what} has more than {limit} bytes")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// The limit in bytes.
        limit: u64,
    },
    /// A count differs from the one in the first line.
    #[error("{found} {what}, but the first line says {told}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The announced count.
        told: u64,
        /// The actual count.
        found: u64,
    },
    /// A journal line is invalid.
    #[error("invalid line: {0}")]
    Line(LineError),
    /// A line is out of order.
    #[error("event {found} where event {expected} was expected")]
    Seq {
        /// The expected event.
        expected: Seq,
        /// The event found there.
        found: Seq,
    },
    /// A line does not follow from the previous one.
    #[error("event {seq} does not follow from the one before it, or is of another session")]
    Unchained {
        /// The event.
        seq: Seq,
    },
    /// The first event is not a valid start of the session.
    #[error(
        "the first event is not `session.created` of session {session}, or names another parent"
    )]
    NotTheBeginning {
        /// The session of the bundle.
        session: SessionId,
    },
    /// A line with a valid sum is not a valid event.
    #[error("event {seq} has a valid sum but is malformed: {reason}")]
    Form {
        /// The event.
        seq: Seq,
        /// What is malformed.
        reason: &'static str,
    },
    /// An event names an object that does not precede it.
    #[error("event {seq} names object {hash}, which is missing")]
    MissingObject {
        /// The event.
        seq: Seq,
        /// The object.
        hash: ObjectHash,
    },
    /// The bytes of an object do not match its hash.
    #[error("the bytes of object {hash} do not match its hash")]
    ObjectBytes {
        /// The object.
        hash: ObjectHash,
    },
    /// An object is repeated, or the next event does not name it.
    #[error("object {hash} is unused or repeated")]
    StrayObject {
        /// The object.
        hash: ObjectHash,
    },
    /// The hash in the end record does not match.
    #[error("the hash does not match the end record")]
    Hash,
    /// There is data after the end record.
    #[error("there is data after the end record")]
    BehindTheEnd,
}
