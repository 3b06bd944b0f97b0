//! The context: what the model would see of a lane now, in an order that the APIs take.
//!
//! It is read from the journal at each request. Where to read is in the state ([`Visible`]), so
//! that it costs what the context is long, not what the session is. [`ContextBuilder`] takes the
//! events of those places in; [`CompactionPlan`] says what of it can give way to a summary.

mod builder;
mod compaction;
#[cfg(test)]
mod tests;
mod tokens;
mod visible;

pub use builder::{ContextBuilder, PendingCall};
pub use compaction::{CompactionPlan, Uncompactable};
pub use tokens::Tokens;
pub use visible::Visible;

use crate::{CallId, LaneId, Marks, Payload, Seq};

/// What the model would see of a lane.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Which lane; the main one has no name.
    pub lane: Option<LaneId>,
    /// In order. The results stand right behind the message that holds their calls, or behind the
    /// last one of the answer that it is a part of, or behind the call that no message holds; no call
    /// is without its one result, and each call is there once.
    pub entries: Vec<Entry>,
}

/// One thing in a context.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A message as it was recorded. Results that it holds are not meant: they are entries of
    /// their own.
    Message {
        /// Where it is.
        seq: Seq,
        /// Its data.
        data: Payload,
    },
    /// A call that no message holds: it was executed, or observed.
    Call {
        /// Where it is recorded.
        seq: Seq,
        /// Its id.
        call: CallId,
        /// The data of its `tool.called`.
        data: Payload,
    },
    /// The result of a call before it.
    Result {
        /// Where it is recorded.
        seq: Seq,
        /// Of which call.
        call: CallId,
        /// The data of the `message.added` or `tool.finished` that has it.
        data: Payload,
        /// It is from a `tool.finished`.
        executed: bool,
    },
    /// The result of a call that nobody knows the outcome of.
    Unknown {
        /// Of which call.
        call: CallId,
        /// Where it was begun, by a `tool.called`.
        begun: Option<Seq>,
    },
    /// A summary, in the place of what a compaction covers.
    Summary {
        /// The compaction.
        seq: Seq,
        /// What it says.
        text: String,
    },
}

impl Entry {
    /// Where it is recorded. Of an outcome that is unknown: where its call was begun.
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

    /// Of a message: the answer that it is a part of.
    #[must_use]
    pub fn answer(&self) -> Option<String> {
        match self {
            Self::Message { data, .. } => Marks::of(data).answer,
            _ => None,
        }
    }
}
