//! Facts about the model's context: compactions and pins.

use serde::{Deserialize, Serialize};

use crate::{Seq, TokenBasis};

/// `context.compacted`: a summary replaces the messages of a range in the context. They stay in the
/// journal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Compaction {
    /// The first event of the range.
    pub first: Seq,
    /// The last event of the range.
    pub last: Seq,
    /// The text that replaces the range.
    pub summary: String,
    /// Events of the range that stay in the context, in order: pinned messages with the outcomes of
    /// their calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<Seq>,
    /// Who wrote the summary.
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
    /// How these tokens were counted; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenBasis>,
    /// The compaction that was undone and that this one repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redoes: Option<Seq>,
}

/// `context.pinned`: compactions keep this message in the context, or no longer do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextPin {
    /// The event that holds the message or the outcome of a call.
    pub message: Seq,
    /// Pinned or unpinned.
    #[serde(default = "yes")]
    pub pinned: bool,
}

const fn yes() -> bool {
    true
}

/// `context.restored`: a compaction was undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextRestored {
    /// The seq of the compaction.
    pub compaction: Seq,
}
