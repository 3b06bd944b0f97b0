//! The context: what the model would see of a lane now, in an order that the APIs take.

use crate::{CallId, LaneId, Payload, Seq};

/// What the model would see of a lane.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Which lane; the main one has no name.
    pub lane: Option<LaneId>,
    /// In order. Each result stands right behind the message that holds its call, and no call is
    /// without its one result.
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
    /// The result of a call in the message before it.
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
    },
    /// A summary, in the place of what a compaction covers.
    Summary {
        /// The compaction.
        seq: Seq,
        /// What it says.
        text: String,
    },
}
