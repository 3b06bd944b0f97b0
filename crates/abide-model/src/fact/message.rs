//! Messages: a role and content blocks.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::CallId;

/// `message.added`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or what the agent calls it.
    pub role: String,
    /// What was said.
    pub content: Content,
}

/// Plain text, or blocks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Text alone.
    Text(String),
    /// Blocks in order.
    Blocks(Vec<Block>),
    /// Anything else, as it is.
    Other(Box<RawValue>),
}

/// A part of a message. What is not known here is kept as it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Block {
    /// A block of a known type.
    Known(KnownBlock),
    /// Any other.
    Other(Box<RawValue>),
}

/// The blocks this version understands.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum KnownBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// The model thinking aloud.
    Thinking {
        /// The thought.
        thinking: String,
        /// The provider's signature over it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// The model asks for a tool.
    ToolCall {
        /// Joins it with its result.
        call: CallId,
        /// Which tool.
        name: String,
        /// With what.
        arguments: Box<RawValue>,
    },
    /// What a tool gave.
    ToolResult {
        /// Which call.
        call: CallId,
        /// Whether it went well.
        #[serde(default = "yes")]
        ok: bool,
        /// What it gave.
        content: Box<RawValue>,
    },
}

const fn yes() -> bool {
    true
}

impl Message {
    /// A message of plain text.
    #[must_use]
    pub fn text(role: &str, text: impl Into<String>) -> Self {
        Self { role: role.to_owned(), content: Content::Text(text.into()) }
    }

    /// What the user says.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::text("user", text)
    }

    /// What the model says.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::text("assistant", text)
    }
}
