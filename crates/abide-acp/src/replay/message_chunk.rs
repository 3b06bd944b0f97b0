//! Messages as chunks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use abide::{
    Payload,
    message::{Image, MessagePart},
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::protocol::is_block;

/// Who a chunk is from and whether it is a thought, by the name of the update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplayChunkKind {
    User,
    Agent,
    Thought,
}

impl ReplayChunkKind {
    const fn name(self) -> &'static str {
        match self {
            Self::User => "user_message_chunk",
            Self::Agent => "agent_message_chunk",
            Self::Thought => "agent_thought_chunk",
        }
    }

    /// The speaker with this role; `None` for instructions and tools.
    pub(super) fn of_role(role: &str) -> Option<Self> {
        match role {
            "assistant" | "model" => Some(Self::Agent),
            "system" | "developer" | "tool" | "function" => None,
            _ => Some(Self::User),
        }
    }
}

/// The marks of a message recorded from this protocol.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct AcpMarks<'a> {
    #[serde(borrow)]
    message_id: Option<&'a RawValue>,
    #[serde(borrow)]
    session_update: Option<Cow<'a, str>>,
}

/// A message of nothing but verbatim protocol blocks and thoughts.
pub(super) struct PlainMessage<'a> {
    sort: ReplayChunkKind,
    marks: AcpMarks<'a>,
    blocks: Vec<(ReplayChunkKind, Cow<'a, RawValue>)>,
}

impl<'a> PlainMessage<'a> {
    /// Parses the data of a `message.added`; `None` if it holds anything else.
    pub(super) fn of(data: &'a Payload) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct MessageToReplay<'a> {
            #[serde(borrow)]
            role: Cow<'a, str>,
            #[serde(borrow)]
            content: Vec<&'a RawValue>,
            #[serde(borrow)]
            acp: Option<&'a RawValue>,
            #[serde(borrow, rename = "abide")]
            _abide: Option<&'a RawValue>,
        }
        let message: MessageToReplay<'a> = data.decode().ok()?;
        let sort = ReplayChunkKind::of_role(&message.role)?;
        let marks: AcpMarks<'a> =
            message.acp.and_then(|acp| serde_json::from_str(acp.get()).ok()).unwrap_or_default();
        let thought = marks.session_update.as_deref() == Some(ReplayChunkKind::Thought.name());
        let said = if thought { ReplayChunkKind::Thought } else { sort };
        let block = |raw: &'a RawValue| {
            if let Some(thinking) = message_thought(raw) {
                return message_text_block(&thinking)
                    .map(|block| (ReplayChunkKind::Thought, Cow::Owned(block)));
            }
            is_block(raw.get()).then_some((said, Cow::Borrowed(raw)))
        };
        let blocks: Option<Vec<_>> = message.content.into_iter().map(block).collect();
        Some(Self { sort, marks, blocks: blocks? })
    }

    /// Whether the user speaks in it.
    pub(super) fn is_of_user(&self) -> bool {
        self.sort == ReplayChunkKind::User
    }

    /// The updates that show it.
    pub(super) fn updates(&self) -> impl Iterator<Item = String> {
        let message = self.marks.message_id.filter(|id| id.get().starts_with('"'));
        self.blocks.iter().map(move |(sort, block)| message_chunk(*sort, block, message))
    }
}

fn message_thought(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct RecordedThinking<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
        #[serde(borrow)]
        thinking: Cow<'a, str>,
    }
    let read: RecordedThinking<'_> = serde_json::from_str(raw.get()).ok()?;
    (read.r#type == "thinking").then_some(read.thinking)
}

/// A chunk as an update.
pub(super) fn message_chunk(
    sort: ReplayChunkKind,
    block: &RawValue,
    message: Option<&RawValue>,
) -> String {
    let (name, block) = (sort.name(), block.get());
    match message {
        Some(id) => {
            format!(r#"{{"sessionUpdate":"{name}","messageId":{},"content":{block}}}"#, id.get())
        }
        None => format!(r#"{{"sessionUpdate":"{name}","content":{block}}}"#),
    }
}

/// A text as a block; `None` if it is blank.
pub(super) fn message_text_block(text: &str) -> Option<Box<RawValue>> {
    #[derive(Serialize)]
    struct ReplayTextBlock<'a> {
        r#type: &'a str,
        text: &'a str,
    }
    if text.is_empty() {
        return None;
    }
    to_raw_value(&ReplayTextBlock { r#type: "text", text }).ok()
}

/// A part of a message in any form as a block; `None` if the protocol has no such block.
pub(super) fn message_block(part: &MessagePart) -> Option<Box<RawValue>> {
    let object = |members: [(&str, &str); 3]| to_raw_value(&BTreeMap::from(members)).ok();
    match part {
        MessagePart::Text(text)
        | MessagePart::Refusal(text)
        | MessagePart::Thinking { text, .. } => message_text_block(text),
        MessagePart::Image(Image::Data { media_type, base64 }) => {
            object([("type", "image"), ("mimeType", media_type), ("data", base64)])
        }
        MessagePart::Image(Image::Url(url)) => {
            object([("type", "resource_link"), ("name", "image"), ("uri", url)])
        }
        MessagePart::Other(raw) => is_block(raw.get()).then(|| raw.clone()),
        MessagePart::Call(_) | MessagePart::Result(_) => None,
    }
}
