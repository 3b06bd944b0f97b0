//! The sessions that agents keep in files of their own, read record by record. Pure: the caller opens
//! the files, splits them into records and remembers how far it has read.
//!
//! A record is a JSON value of a file of lines, or a row of a database written as one. Each is read
//! exactly once, in order, by the [`RecordReader`] of its file. A reader never fails: what it does not
//! know becomes a [`ReadRecord`] that says so.

pub(crate) mod record_fields;
pub(crate) mod short_hash;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use abide_model::{LaneId, MessageForm, NewEvent, Timestamp};

/// An agent's own directory, by the environment and the user's home.
pub type KeptDirectory = fn(variable: &dyn Fn(&str) -> Option<OsString>, home: &Path) -> PathBuf;
/// The workspace of a file, by its path below the agent's directory and the text of a file beside it.
pub type KeptWorkspace = fn(path: &Path, text: &str) -> Option<String>;

/// Where an agent keeps its sessions, and what reads them.
#[derive(Debug)]
pub struct KeptSessions {
    /// The agent's own directory.
    pub directory: KeptDirectory,
    /// What is below it.
    pub form: KeptForm,
    /// Reads the records of a file or of a session's rows, from the beginning or with the memory
    /// of the reader that read the records before.
    pub reader: fn(file: &KeptFile, memory: Option<&str>) -> Box<dyn RecordReader>,
    /// The arguments with which a person goes on in the session of this id.
    pub resume: fn(session: &str) -> Vec<String>,
}

/// In what form sessions are kept.
#[derive(Debug)]
pub enum KeptForm {
    /// In files of their own.
    Files {
        /// The directories below the agent's own that are searched.
        roots: &'static [&'static str],
        /// Which session a file belongs to, by its path below the agent's directory; `None` if it is
        /// no file of a session.
        classify: fn(path: &Path) -> Option<KeptFile>,
        /// A file beside them that tells the workspaces, and the workspace of a file by its path and
        /// the text of that file, for agents whose records do not name it.
        workspaces: Option<(&'static str, KeptWorkspace)>,
    },
    /// In one SQLite database.
    Rows {
        /// Its path below the agent's directory.
        database: &'static str,
        /// Lists the sessions: their ids, and a number that changes with them.
        sessions: &'static str,
        /// The tables, and for each a query that gives the rows of the session `?1` in the order of
        /// their creation, each as one JSON object in its only column.
        tables: &'static [(&'static str, &'static str)],
    },
}

/// A file of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// The agent's id of the session, if the path tells; else the records do.
    pub session: Option<String>,
    /// The lane of its records, if it is a subagent's.
    pub lane: Option<LaneId>,
    /// Its name within the session: the same wherever the agent's directory is.
    pub name: String,
    /// What it holds.
    pub content: KeptContent,
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptContent {
    /// Records, one JSON value a line.
    Lines,
    /// The same, compressed with zstd.
    CompressedLines,
    /// Something that belongs to the session and is kept as a whole: a large output, notes.
    Whole,
}

/// Reads the records of one file, in order.
pub trait RecordReader: Send {
    /// Reads the next record: a JSON value, without anything around it.
    fn read(&mut self, record: &str) -> ReadRecord;

    /// What must be remembered to read on after this record, as a JSON object: at most a few
    /// kilobytes. The same records give the same memory.
    fn memory(&self) -> String;
}

/// A record as it was understood.
#[derive(Debug, Default)]
pub struct ReadRecord {
    /// What sort it is, in the agent's words: `assistant`, `system/compact_boundary`.
    pub sort: String,
    /// This reader knows the sort.
    pub known: bool,
    /// Its own id, by which later records refer to it.
    pub id: Option<String>,
    /// When it was written, by the agent's clock.
    pub occurred: Option<Timestamp>,
    /// The lane of its events; that of the file if `None`.
    pub lane: Option<LaneId>,
    /// Before its events, the conversation goes back.
    pub back: Option<RewindPlace>,
    /// The message that it holds.
    pub message: Option<RecordMessage>,
    /// It says that this text replaces the conversation before it in the agent's context. A record
    /// with a compaction has no message.
    pub compaction: Option<String>,
    /// The ids of earlier records whose messages stay in the context behind the compaction, in order.
    pub keeps: Vec<String>,
    /// What else it tells, in order; recorded after its message.
    pub events: Vec<NewEvent>,
    /// What it tells of the session as a whole.
    pub details: SessionDetails,
}

/// Where a conversation goes back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewindPlace {
    /// To right after the record of this id.
    After(String),
    /// To right before the record of this id.
    Before(String),
    /// To the beginning.
    Beginning,
}

/// The message of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordMessage {
    /// The message.
    pub text: RecordText,
    /// The answer it is a part of: several records with one message of the model.
    pub answer: Option<String>,
    /// The id of an earlier record whose message it replaces.
    pub replaces: Option<String>,
}

/// Where the JSON of a message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordText {
    /// The value of this field of the record is a message of this form, with a role and content. It
    /// is stored as the message, and not once more in the record.
    Verbatim {
        /// The field, which the record has once.
        field: &'static str,
        /// The form.
        form: MessageForm,
    },
    /// The value of this field of the record is an item of OpenAI's Responses that is not a message:
    /// it becomes the only block of one with this role.
    Item {
        /// The field, which the record has once.
        field: &'static str,
        /// The role.
        role: &'static str,
    },
    /// The data of a `message.added` event, made from the record.
    Made(String),
}

/// What is told of a session as a whole. Later records overrule earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionDetails {
    /// The agent's id of the session.
    pub id: Option<String>,
    /// Its working directory.
    pub workspace: Option<String>,
    /// The git branch.
    pub branch: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// A title that a person or the agent gave it.
    pub title: Option<String>,
    /// The agent's version.
    pub version: Option<String>,
    /// The agent's id of the session that it was forked from.
    pub parent: Option<String>,
}

/// Reads nothing out of records: for files that are kept as a whole.
#[derive(Debug, Default)]
pub struct OpaqueReader;

impl RecordReader for OpaqueReader {
    fn read(&mut self, _: &str) -> ReadRecord {
        ReadRecord { known: true, ..ReadRecord::default() }
    }

    fn memory(&self) -> String {
        "{}".to_owned()
    }
}
