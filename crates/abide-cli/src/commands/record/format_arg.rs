//! What the input of `abide record` is.

use abide::MessageForm;

/// Format of the input
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FormatArg {
    /// Events: {"kind":…,"data":{…}}
    Events,
    /// Messages of OpenAI's Chat Completions: {"role":…,"content":…}
    Openai,
    /// Items of OpenAI's Responses: {"type":…}, or messages
    Responses,
    /// Messages of Anthropic's Messages: {"role":…,"content":…}
    Anthropic,
    /// Streamed answers of OpenAI's Chat Completions or a compatible API
    OpenaiStream,
    /// Streamed answers of OpenAI's Responses
    ResponsesStream,
    /// Streamed answers of Anthropic's Messages
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
