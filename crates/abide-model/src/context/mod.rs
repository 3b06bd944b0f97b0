//! The context: what the model would see of a lane now, in an order that the APIs accept.
//!
//! It is read from the journal for each request. The state says which events to read ([`VisibleRanges`]),
//! so the cost depends on the length of the context, not of the session. [`ContextBuilder`] takes
//! those events in; [`CompactionPlan`] says which part a summary can replace.

mod compaction;
mod context_builder;
#[cfg(test)]
mod revision_tests;
#[cfg(test)]
mod tests;
mod threshold;
mod tokens;
mod visible;

pub use compaction::{CompactionPlan, NothingToCompact};
pub use context_builder::{ContextBuilder, ContextReading, PendingCall};
pub use threshold::{AutoCompaction, Threshold, parse_token_count};
pub use tokens::TokenBasis;
pub use visible::VisibleRanges;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::message::RecordedMessage;
use crate::{CallId, LaneId, Payload, Seq};

/// What the model would see of a lane.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The lane; `None` for the main lane.
    pub lane: Option<LaneId>,
    /// The entries in order. The results follow the message that holds their calls, the last
    /// message of the answer that message is part of, or the call that no message holds. Every call
    /// occurs once and has exactly one result.
    pub entries: Vec<ContextEntry>,
    /// Where messages stand that have newer versions: the first version, by the seq of any.
    pub places: BTreeMap<Seq, Seq>,
}

impl Context {
    /// The event in whose place a message stands: the first version, if it was replaced; else its
    /// own.
    #[must_use]
    pub fn place_of(&self, seq: Seq) -> Seq {
        self.places.get(&seq).copied().unwrap_or(seq)
    }

    /// All versions of a message, in order; only itself if it has one.
    pub fn versions_of(&self, seq: Seq) -> Vec<Seq> {
        let place = self.place_of(seq);
        let same = self.places.iter().filter(|(_, first)| **first == place);
        let versions: Vec<Seq> = same.map(|(version, _)| *version).collect();
        if versions.is_empty() { vec![seq] } else { versions }
    }
}

/// An entry of a context.
#[derive(Debug, Clone)]
pub enum ContextEntry {
    /// A message as recorded. Results in it are not part of this entry; they are entries of their
    /// own.
    Message {
        /// Its event.
        seq: Seq,
        /// The message, parsed.
        message: Arc<RecordedMessage>,
    },
    /// A call that no message holds: it was executed or observed.
    Call {
        /// Its event.
        seq: Seq,
        /// Its id.
        call: CallId,
        /// The data of its `tool.called`.
        data: Payload,
    },
    /// The result of a preceding call.
    Result {
        /// Its event.
        seq: Seq,
        /// The call.
        call: CallId,
        /// Where it is recorded.
        result: RecordedResult,
    },
    /// A placeholder for the result of a call whose outcome is unknown.
    Unknown {
        /// The call.
        call: CallId,
        /// The `tool.called` that started it.
        begun: Option<Seq>,
    },
    /// A summary in place of the range a compaction covers.
    Summary {
        /// The compaction.
        seq: Seq,
        /// The summary.
        text: String,
    },
}

/// Where the result of a call is recorded.
#[derive(Debug, Clone)]
pub enum RecordedResult {
    /// In a message, perhaps with others.
    Message(Arc<RecordedMessage>),
    /// In the `tool.finished` with this data.
    Executed(Payload),
}

impl ContextEntry {
    /// Its event. For an unknown outcome: the event that started the call.
    #[must_use]
    pub const fn seq(&self) -> Option<Seq> {
        match self {
            Self::Message { seq, .. }
            | Self::Call { seq, .. }
            | Self::Result { seq, .. }
            | Self::Summary { seq, .. } => Some(*seq),
            Self::Unknown { begun, .. } => *begun,
        }
    }

    /// Is it the outcome of a call?
    #[must_use]
    pub const fn is_outcome(&self) -> bool {
        matches!(self, Self::Result { .. } | Self::Unknown { .. })
    }

    /// The answer that a message is part of.
    #[must_use]
    pub fn answer(&self) -> Option<&str> {
        match self {
            Self::Message { message, .. } => message.marks.answer.as_deref(),
            _ => None,
        }
    }
}
