//! Facts about an agent's own session files, which a session was made from.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// `source.recorded`: a record of an agent's own file that is no message. A message has the same under
/// `abide.source`. Every record of the file is in exactly one event, with all its bytes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SourceRecord {
    /// The file, by its name within the session.
    pub file: String,
    /// Where the record begins in the file; for a database, the number of the row.
    pub at: u64,
    /// Its length in bytes, as it stood in the file.
    pub bytes: u64,
    /// What sort of record it is, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<String>,
    /// Its own id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<RawValue>>,
    /// The field of the record that is `null` here, because its value is the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The bytes, if they are not JSON, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in base64, if they are not text either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// `source.read`: how far a file of an agent was read. It never reverts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SourceProgress {
    /// The agent.
    pub agent: String,
    /// The file, by its name within the session.
    pub file: String,
    /// Its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The end of what was read of it, in bytes; for a database, the number of rows.
    pub end: u64,
    /// It is the rows of a database.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rows: bool,
    /// The BLAKE3 hash of the last bytes that were read of it, at most 4,096; of a file that is kept as a
    /// whole, of all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// What is needed to read on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Box<RawValue>>,
}
