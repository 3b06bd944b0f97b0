//! A recorded message, independent of its form.

use abide_model::Payload;
use abide_model::message::{
    CallPiece, ImagePiece, JsonText, Marks, MessagePiece, PieceContent, RecordedMessage,
};
use serde_json::value::RawValue;

/// A parsed message.
#[derive(Debug, Clone, Default)]
pub struct ReadMessage {
    /// `system`, `developer`, `user`, `assistant`, `tool`, or the agent's own name for it.
    pub role: String,
    /// Its parts, in order.
    pub parts: Vec<MessagePart>,
    /// What abide itself notes about it.
    pub marks: Marks,
}

/// A part of a message.
#[derive(Debug, Clone)]
pub enum MessagePart {
    /// Text.
    Text(String),
    /// The model's reasoning.
    Thinking {
        /// The text; empty if the provider withholds it.
        text: String,
        /// The provider's signature.
        signature: Option<String>,
    },
    /// An image.
    Image(Image),
    /// A tool call.
    Call(RequestedCall),
    /// A tool's result.
    Result(CallResult),
    /// A refusal.
    Refusal(String),
    /// Any other part, as its raw JSON.
    Other(Box<RawValue>),
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// A URL, possibly a `data:` URL.
    Url(String),
    /// Inline data.
    Data {
        /// The media type.
        media_type: String,
        /// The bytes, in base64.
        base64: String,
    },
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedCall {
    /// Its id, shared with its result.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments: JSON as the model wrote it, possibly invalid.
    pub arguments: String,
}

/// A tool's result.
#[derive(Debug, Clone)]
pub struct CallResult {
    /// The id of the call.
    pub id: String,
    /// Whether it succeeded, if that is recorded.
    pub ok: Option<bool>,
    /// The output.
    pub parts: Vec<MessagePart>,
}

/// Parses the data of a `message.added` event, in any form; `None` if it is not a message.
///
/// An unpaired surrogate, which no string can hold, becomes U+FFFD.
#[must_use]
pub fn read(data: &Payload) -> Option<ReadMessage> {
    RecordedMessage::of(data).as_ref().map(ReadMessage::from)
}

/// Parses the data of a `tool.called` event; `None` if it has no call id.
#[must_use]
pub fn read_call(data: &Payload) -> Option<RequestedCall> {
    CallPiece::begun(data).as_ref().map(RequestedCall::from)
}

impl From<&RecordedMessage> for ReadMessage {
    fn from(message: &RecordedMessage) -> Self {
        let parts = message.pieces.iter().filter_map(part).collect();
        Self { role: message.role.clone(), parts, marks: message.marks.clone() }
    }
}

impl From<&CallPiece> for RequestedCall {
    fn from(call: &CallPiece) -> Self {
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.text().into_owned(),
        }
    }
}

fn part(piece: &MessagePiece) -> Option<MessagePart> {
    let own = |text: &JsonText| text.decoded().into_owned();
    Some(match &piece.sort {
        PieceContent::Text(text) => MessagePart::Text(own(text)),
        PieceContent::Thinking { text, signature } => {
            MessagePart::Thinking { text: own(text), signature: signature.as_deref().map(own) }
        }
        PieceContent::Image(image) => MessagePart::Image(match &**image {
            ImagePiece::Url(url) => Image::Url(own(url)),
            ImagePiece::Data { media_type, base64 } => {
                Image::Data { media_type: own(media_type), base64: own(base64) }
            }
        }),
        PieceContent::Call(call) => MessagePart::Call(RequestedCall::from(&**call)),
        PieceContent::Result(result) => MessagePart::Result(CallResult {
            id: result.id.clone(),
            ok: result.ok,
            parts: result.pieces.iter().filter_map(part).collect(),
        }),
        PieceContent::Refusal(text) => MessagePart::Refusal(own(text)),
        PieceContent::Other(_) => {
            let raw = piece.raw.as_ref()?.get().to_owned();
            MessagePart::Other(RawValue::from_string(raw).ok()?)
        }
    })
}
