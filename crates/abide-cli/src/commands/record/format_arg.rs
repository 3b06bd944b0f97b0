//! What the input of `abide record` is.

use abide::MessageForm;

/// What a line is, or what the input is a stream of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FormatArg {
    /// An event: {"kind":…,"data":{…}}
    Events,
    /// A message of OpenAI's Chat Completions: {"role":…,"content":…}
    Openai,
    /// An item of OpenAI's Responses: {"type":…}, or a message
    Responses,
    /// A message of Anthropic's Messages: {"role":…,"content":…}
    Anthropic,
    /// A streamed answer of OpenAI's Chat Completions, or of whoever speaks it
    OpenaiStream,
    /// A streamed answer of OpenAI's Responses
    ResponsesStream,
    /// A streamed answer of Anthropic's Messages
    AnthropicStream,
}

impl FormatArg {
    pub(super) const fn form(self) -> Option<MessageForm> {
        match self {
            Self::Events => None,
            Self::Openai | Self::OpenaiStream => Some(MessageForm::OpenAi),
            Self::Responses | Self::ResponsesStream => Some(MessageForm::Responses),
            Self::Anthropic | Self::AnthropicStream => Some(MessageForm::Anthropic),
        }
    }

    /// The form of the streamed answers, if the input is a stream of them.
    pub(super) const fn streamed(self) -> Option<MessageForm> {
        match self {
            Self::OpenaiStream | Self::ResponsesStream | Self::AnthropicStream => self.form(),
            Self::Events | Self::Openai | Self::Responses | Self::Anthropic => None,
        }
    }
}
