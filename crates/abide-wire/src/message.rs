//! A recorded message, independent of its form.

use abide_model::Payload;
use serde_json::value::RawValue;

use crate::json::JsonText;
use crate::piece::{self, MessagePiece, PieceContent, RecordedMessage};

/// A parsed message.
#[derive(Debug, Clone, Default)]
pub struct ReadMessage {
    /// `system`, `developer`, `user`, `assistant`, `tool`, or the agent's own name for it.
    pub role: String,
    /// Its parts, in order.
    pub parts: Vec<MessagePart>,
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
    let recorded = RecordedMessage::of(data)?;
    let parts = recorded.pieces.into_iter().filter_map(part).collect();
    Some(ReadMessage { role: recorded.role.into_owned(), parts })
}

/// Parses the data of a `tool.called` event; `None` if it has no call id.
#[must_use]
pub fn read_call(data: &Payload) -> Option<RequestedCall> {
    piece::begun(data).map(RequestedCall::from)
}

impl From<piece::CallRef<'_>> for RequestedCall {
    fn from(call: piece::CallRef<'_>) -> Self {
        Self {
            arguments: call.arguments.text().into_owned(),
            id: call.id.into_owned(),
            name: call.name.into_owned(),
        }
    }
}

fn part(piece: MessagePiece<'_>) -> Option<MessagePart> {
    let own = |text: JsonText<'_>| text.into_decoded().into_owned();
    Some(match piece.sort {
        PieceContent::Text(text) => MessagePart::Text(own(text)),
        PieceContent::Thinking { text, signature } => {
            MessagePart::Thinking { text: own(text), signature: signature.map(own) }
        }
        PieceContent::Image(piece::ImageRef::Url(url)) => MessagePart::Image(Image::Url(own(url))),
        PieceContent::Image(piece::ImageRef::Data { media_type, base64 }) => {
            MessagePart::Image(Image::Data { media_type: own(media_type), base64: own(base64) })
        }
        PieceContent::Call(call) => MessagePart::Call(call.into()),
        PieceContent::Result(result) => MessagePart::Result(CallResult {
            id: result.id.into_owned(),
            ok: result.ok,
            parts: result.pieces.into_iter().filter_map(part).collect(),
        }),
        PieceContent::Refusal(text) => MessagePart::Refusal(own(text)),
        PieceContent::Other => MessagePart::Other(piece.raw?.to_owned()),
    })
}
