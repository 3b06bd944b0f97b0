//! What a stream yields: deltas, complete blocks, and the end.

use abide_model::Usage;

use crate::RequestedCall;

/// A piece of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamDelta<'a> {
    /// More text.
    Text(&'a str),
    /// More of the model's reasoning.
    Thinking(&'a str),
    /// More of a refusal.
    Refusal(&'a str),
    /// A tool call begins.
    CallStarted {
        /// The id of the call.
        id: &'a str,
        /// The tool's name.
        name: &'a str,
    },
    /// More of the arguments of a call.
    CallArguments {
        /// The id of the call.
        id: &'a str,
        /// The next part of the arguments.
        text: &'a str,
    },
    /// A block is complete and can be recorded.
    Block(StreamedBlock),
}

/// A block of an answer, as a message of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedBlock {
    /// The data of a `message.added` event in the API's own form, without the key `abide`.
    pub data: String,
    /// The call that the caller must run, if the block is one. Never set on a partial block.
    pub call: Option<StreamedCall>,
    /// The stream ended before the block was complete, or the provider stopped the model in the
    /// middle of a call.
    pub partial: bool,
}

impl StreamedBlock {
    /// Marks the block as cut off.
    pub(super) fn cut(self) -> Self {
        Self { call: None, partial: true, ..self }
    }
}

/// A streamed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedCall {
    /// The call. Empty arguments become `{}`.
    pub call: RequestedCall,
    /// Why the arguments are invalid, if they are. They are kept as they came.
    pub broken: Option<String>,
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamEnd {
    /// The blocks not yet emitted: incomplete ones (`partial`), and those completed by a last event
    /// without an empty line after it.
    pub partial: Vec<StreamedBlock>,
    /// The provider ended the answer, and nothing failed.
    pub complete: bool,
    /// Tokens used. Input includes cached tokens, output includes reasoning tokens.
    pub usage: Option<Usage>,
    /// The model that answered.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// Why the model stopped, in the provider's words.
    pub reason: Option<String>,
    /// The error that the provider reported.
    pub error: Option<String>,
}
