//! Compaction of what the model sees.

use serde::{Deserialize, Serialize};

use crate::{Seq, Tokens};

/// `context.compacted`: the messages of a range give way to a summary in the context. They
/// stay in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Compaction {
    /// The first event of the range.
    pub first: Seq,
    /// The last event of the range.
    pub last: Seq,
    /// What stands in its place.
    pub summary: String,
    /// Events of the range that stay in the context, in order: what is pinned, with the outcomes
    /// of its calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<Seq>,
    /// Who made the summary.
    #[serde(default)]
    pub by: String,
    /// Messages in the context before.
    #[serde(default)]
    pub before_messages: u64,
    /// Messages in the context after.
    #[serde(default)]
    pub after_messages: u64,
    /// Tokens in the context before.
    #[serde(default)]
    pub before_tokens: u64,
    /// Tokens in the context after.
    #[serde(default)]
    pub after_tokens: u64,
    /// How these tokens are known; none where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
}

/// `context.pinned`: the next compaction keeps a message in the context, or need not any longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The event that holds the message, or the outcome of a call.
    pub message: Seq,
    /// Whether it stays.
    #[serde(default = "yes")]
    pub pinned: bool,
}

const fn yes() -> bool {
    true
}

/// `context.restored`: a compaction was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextRestored {
    /// The seq of the compaction.
    pub compaction: Seq,
}
