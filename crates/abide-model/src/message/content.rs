//! The fields of a message, before its blocks are read.

use serde_json::value::RawValue;

use crate::json::{RawJsonFields, encoded_string, list};

/// The fields of a message.
#[derive(Debug)]
pub(super) struct RawMessage<'a> {
    pub(super) fields: RawJsonFields<'a>,
    pub(super) content: RawContent<'a>,
    /// The entries of its `tool_calls`.
    pub(super) tool_calls: Vec<&'a RawValue>,
}

impl<'a> RawMessage<'a> {
    pub(super) fn of(fields: RawJsonFields<'a>) -> Self {
        let tool_calls = fields.get("tool_calls").and_then(list).unwrap_or_default();
        Self { content: RawContent::of(&fields), tool_calls, fields }
    }
}

/// The content of a message or a result.
#[derive(Debug)]
pub(super) enum RawContent<'a> {
    /// Missing or `null`.
    None,
    /// A string, encoded.
    Text(&'a str),
    /// A list of blocks.
    Blocks(Vec<&'a RawValue>),
    /// Anything else.
    Other(&'a RawValue),
}

impl<'a> RawContent<'a> {
    /// The content of a message.
    pub(super) fn of(fields: &RawJsonFields<'a>) -> Self {
        fields.get("content").map_or(Self::None, Self::read)
    }

    /// Reads a content that is not `null`.
    pub(super) fn read(raw: &'a RawValue) -> Self {
        if let Some(text) = encoded_string(raw) {
            return Self::Text(text);
        }
        list(raw).map_or(Self::Other(raw), Self::Blocks)
    }
}
