//! Compaction of what the model sees.

use serde::{Deserialize, Serialize};

use crate::Seq;

/// `context.compacted`: the messages of a range give way to a summary in the context. They
/// stay in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// The first event of the range.
    pub first: Seq,
    /// The last event of the range.
    pub last: Seq,
    /// What stands in its place.
    pub summary: String,
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
}

/// `context.restored`: a compaction was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextRestored {
    /// The seq of the compaction.
    pub compaction: Seq,
}
