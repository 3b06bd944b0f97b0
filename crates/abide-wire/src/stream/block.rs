//! What a stream brings: pieces as they come, blocks when they are complete, and the end.

use abide_model::Usage;

use crate::Call;

/// Something that a stream brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta<'a> {
    /// More text.
    Text(&'a str),
    /// More of what the model thinks aloud.
    Thinking(&'a str),
    /// More of a refusal.
    Refusal(&'a str),
    /// The model begins to ask for a tool.
    CallStarted {
        /// Of the call.
        id: &'a str,
        /// Which tool.
        name: &'a str,
    },
    /// More of the arguments of a call.
    CallArguments {
        /// Of the call.
        id: &'a str,
        /// What they go on with.
        text: &'a str,
    },
    /// A block is complete: it can be recorded now.
    Block(Block),
}

/// A part of an answer, as a message of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The data of a `message.added`, in the native form of the API; without the key `abide`.
    pub data: String,
    /// The call, when the block is one that the caller is to run. One that is partial is not.
    pub call: Option<StreamedCall>,
    /// The stream broke off before the block was complete, or the provider stopped the model in
    /// the middle of a call.
    pub partial: bool,
}

impl Block {
    /// The block as one that was cut off.
    pub(super) fn cut(self) -> Self {
        Self { call: None, partial: true, ..self }
    }
}

/// A call as it was streamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedCall {
    /// The call. Arguments that the model left empty are `{}`.
    pub call: Call,
    /// Why the arguments are not what they should be; they are kept as they came.
    pub broken: Option<String>,
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ended {
    /// What was not given yet: blocks that were not complete (`partial`), and those that a last
    /// event completed which had no empty line behind it.
    pub partial: Vec<Block>,
    /// The provider said that the answer was over, and nothing failed.
    pub complete: bool,
    /// What it used. Cached tokens are counted among those in, thought ones among those out.
    pub usage: Option<Usage>,
    /// Which model answered.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// Why the model stopped, in the provider's word.
    pub reason: Option<String>,
    /// What the provider said had failed.
    pub error: Option<String>,
}
