//! Messages: a role and content blocks.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::json::write_string;
use crate::{CallId, InputError, Kind, NewEvent, Payload};

/// `message.added`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or the agent's own word.
    pub role: String,
    /// Its content.
    pub content: MessageContent,
}

/// The content of a message.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum MessageContent {
    /// Plain text.
    Text(String),
    /// A list of blocks.
    Blocks(Vec<MessageBlock>),
    /// Anything else, verbatim.
    Other(Box<RawValue>),
}

/// A block of a message. Unknown blocks are kept verbatim.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum MessageBlock {
    /// A block of a known type.
    Known(KnownBlock),
    /// Any other block, verbatim.
    Other(Box<RawValue>),
}

/// The blocks this version understands.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum KnownBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// The model's reasoning.
    Thinking {
        /// The text.
        thinking: String,
        /// The provider's signature over it.
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A call of a tool.
    ToolCall {
        /// Links the call to its result.
        call: CallId,
        /// The tool.
        name: String,
        /// Its arguments.
        arguments: Box<RawValue>,
    },
    /// The result of a tool call.
    ToolResult {
        /// The call.
        call: CallId,
        /// Whether it succeeded.
        ok: bool,
        /// The result.
        content: Box<RawValue>,
    },
}

// serde's derived code buffers tagged and untagged enums, and raw JSON does not survive that. So the
// variants are told apart by their raw JSON.

impl<'de> Deserialize<'de> for MessageContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let read = match raw.get().as_bytes().first() {
            Some(b'"') => serde_json::from_str(raw.get()).map(Self::Text),
            Some(b'[') => serde_json::from_str(raw.get()).map(Self::Blocks),
            _ => return Ok(Self::Other(raw)),
        };
        Ok(read.unwrap_or(Self::Other(raw)))
    }
}

impl<'de> Deserialize<'de> for MessageBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(serde_json::from_str(raw.get()).map_or(Self::Other(raw), Self::Known))
    }
}

impl<'de> Deserialize<'de> for KnownBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The fields of all types of blocks.
        #[derive(Deserialize)]
        struct BlockFields {
            r#type: String,
            text: Option<String>,
            thinking: Option<String>,
            signature: Option<String>,
            call: Option<CallId>,
            name: Option<String>,
            arguments: Option<Box<RawValue>>,
            ok: Option<bool>,
            content: Option<Box<RawValue>>,
        }
        fn need<T, E: Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
            field.ok_or_else(|| E::missing_field(name))
        }
        let fields = BlockFields::deserialize(deserializer)?;
        Ok(match fields.r#type.as_str() {
            "text" => Self::Text { text: need(fields.text, "text")? },
            "thinking" => Self::Thinking {
                thinking: need(fields.thinking, "thinking")?,
                signature: fields.signature,
            },
            "tool_call" => Self::ToolCall {
                call: need(fields.call, "call")?,
                name: need(fields.name, "name")?,
                arguments: need(fields.arguments, "arguments")?,
            },
            "tool_result" => Self::ToolResult {
                call: need(fields.call, "call")?,
                ok: fields.ok.unwrap_or(true),
                content: need(fields.content, "content")?,
            },
            other => {
                let known = &["text", "thinking", "tool_call", "tool_result"];
                return Err(D::Error::unknown_variant(other, known));
            }
        })
    }
}

impl Message {
    /// A message of plain text.
    #[must_use]
    pub fn text(role: &str, text: impl Into<String>) -> Self {
        Self { role: role.to_owned(), content: MessageContent::Text(text.into()) }
    }

    /// The data of an event. Plain text, which most messages are, needs nothing of serde.
    fn payload(&self) -> Result<Payload, InputError> {
        let MessageContent::Text(text) = &self.content else { return Payload::of(self) };
        let around = self.role.len() + 32;
        let mut json = String::with_capacity(around + text.len() + text.len() / 16);
        json.push_str("{\"role\":");
        write_string(&mut json, &self.role);
        json.push_str(",\"content\":");
        write_string(&mut json, text);
        json.push('}');
        Payload::of_own(json)
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

impl TryFrom<Message> for NewEvent {
    type Error = InputError;

    fn try_from(message: Message) -> Result<Self, InputError> {
        Ok(Self::new(Kind::MESSAGE_ADDED, message.payload()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_written_as_serde_writes_it() {
        for (role, text) in [("user", ""), ("ro\"le", "a\n\"b\" \\ \u{1}\u{8}é"), ("", "x")] {
            let message = Message::text(role, text);
            let expected = Payload::of(&message).unwrap();
            assert_eq!(NewEvent::try_from(message).unwrap().data, expected);
        }
    }

    #[test]
    fn every_sort_of_content_is_read_and_written_as_it_was() {
        let contents = [
            r#""text""#,
            r#"[{"type":"text","text":"a"},{"type":"thinking","thinking":"b","signature":"c"}]"#,
            r#"[{"type":"tool_call","call":"c","name":"n","arguments":{"a":1e999,"a":1}}]"#,
            r#"[{"type":"tool_result","call":"c","ok":false,"content":[ 1 ]}]"#,
            r#"[{"type":"image","data":"…"},{"type":"text"},5,"x"]"#,
            r#"{"parts":[]}"#,
            r#""\ud800""#,
            "null",
        ];
        for content in contents {
            let json = format!(r#"{{"role":"user","content":{content}}}"#);
            let message: Message = serde_json::from_str(&json).unwrap();
            assert_eq!(serde_json::to_string(&message).unwrap(), json);
        }
        let blocks = |json: &str| match serde_json::from_str(json).unwrap() {
            MessageContent::Blocks(blocks) => blocks,
            other => panic!("{other:?}"),
        };
        let call = blocks(contents[2]);
        assert!(
            matches!(&call[0], MessageBlock::Known(KnownBlock::ToolCall { name, .. }) if name == "n")
        );
        let result = blocks(r#"[{"type":"tool_result","call":"c","content":""}]"#);
        assert!(matches!(&result[0], MessageBlock::Known(KnownBlock::ToolResult { ok: true, .. })));
        let odd = blocks(contents[4]);
        assert!(odd.iter().all(|block| matches!(block, MessageBlock::Other(_))) && odd.len() == 4);
    }
}
