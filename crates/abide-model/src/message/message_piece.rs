//! The pieces of a recorded message, each with its raw JSON.

use std::borrow::Cow;

use super::forms::{Forms, MessageForm};
use super::json_text::{JsonText, RawJson};
use super::piece_reader::PieceReader;
use crate::Payload;
use crate::json::RawJsonFields;

/// A part of a message.
#[derive(Debug, Clone)]
pub struct MessagePiece {
    /// Its content.
    pub sort: PieceContent,
    /// Its raw block, part or item.
    pub raw: Option<RawJson>,
    /// The forms that have such a block.
    pub forms: Forms,
}

/// The content of a piece.
#[derive(Debug, Clone)]
pub enum PieceContent {
    /// Text.
    Text(JsonText),
    /// The model's reasoning.
    Thinking {
        /// The text; empty if the provider withholds it.
        text: JsonText,
        /// The provider's signature.
        signature: Option<Box<JsonText>>,
    },
    /// An image.
    Image(Box<ImagePiece>),
    /// A tool call.
    Call(Box<CallPiece>),
    /// A tool's result.
    Result(Box<ResultPiece>),
    /// A refusal.
    Refusal(JsonText),
    /// A block that is not read any further.
    Other(UnreadPiece),
}

/// What a block is that is not read any further.
#[derive(Debug, Clone)]
pub enum UnreadPiece {
    /// Any block.
    Block,
    /// The use of a tool that the API ran itself, by its id.
    Served(JsonText),
    /// The audio of a chat message.
    Audio,
}

/// An image.
#[derive(Debug, Clone)]
pub enum ImagePiece {
    /// A URL, possibly a `data:` URL.
    Url(JsonText),
    /// Inline data.
    Data {
        /// The media type.
        media_type: JsonText,
        /// The bytes, in base64.
        base64: JsonText,
    },
}

/// A tool call.
#[derive(Debug, Clone)]
pub struct CallPiece {
    /// Its id, shared with its result.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub arguments: CallPieceArguments,
    /// The form that has such a call.
    pub form: MessageForm,
    /// The type of its result's item in Responses.
    pub answered_by: Cow<'static, str>,
}

/// The arguments of a call.
#[derive(Debug, Clone)]
pub enum CallPieceArguments {
    /// JSON.
    Json(RawJson),
    /// Text that should hold JSON.
    Text(JsonText),
    /// No arguments.
    None,
}

/// A tool's result.
#[derive(Debug, Clone)]
pub struct ResultPiece {
    /// The id of the call; empty if not given.
    pub id: String,
    /// Whether it succeeded, if that is recorded.
    pub ok: Option<bool>,
    /// The output.
    pub pieces: Vec<MessagePiece>,
}

impl MessagePiece {
    /// A piece with no raw JSON.
    #[must_use]
    pub const fn new(sort: PieceContent) -> Self {
        Self { sort, raw: None, forms: Forms::NONE }
    }

    /// A text piece with no raw JSON.
    #[must_use]
    pub fn text(text: impl Into<JsonText>) -> Self {
        Self::new(PieceContent::Text(text.into()))
    }

    /// The raw block, if this form has such a block.
    #[must_use]
    pub fn native(&self, form: MessageForm) -> Option<&RawJson> {
        self.raw.as_ref().filter(|_| self.forms.has(form))
    }

    /// Its call, if it is one.
    #[must_use]
    pub fn call(&self) -> Option<&CallPiece> {
        match &self.sort {
            PieceContent::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Its result, if it is one.
    #[must_use]
    pub fn result(&self) -> Option<&ResultPiece> {
        match &self.sort {
            PieceContent::Result(result) => Some(result),
            _ => None,
        }
    }
}

impl CallPiece {
    /// The type of the Responses item for a function's result.
    pub const FUNCTION_OUTPUT: &'static str = "function_call_output";

    /// Reads the data of a `tool.called` event; `None` if it has no call id.
    #[must_use]
    pub fn begun(data: &Payload) -> Option<Self> {
        let reader = PieceReader::new(data)?;
        let fields = RawJsonFields::of(data.as_str())?;
        let id = fields.decoded("call")?;
        Some(reader.call(MessageForm::Abide, &id, &fields, fields.get("arguments")))
    }
}

impl CallPieceArguments {
    /// The arguments as text.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Json(raw) => Cow::Borrowed(raw.get()),
            Self::Text(text) => text.decoded(),
            Self::None => Cow::Borrowed("{}"),
        }
    }
}

impl ResultPiece {
    /// Reads the data of a `tool.finished` event; `None` if it has no call id.
    #[must_use]
    pub fn finished(data: &Payload) -> Option<Self> {
        let reader = PieceReader::new(data)?;
        let fields = RawJsonFields::of(data.as_str())?;
        let pieces = fields.get("result").map(|raw| reader.given(raw)).unwrap_or_default();
        let ok = Some(fields.flag("ok").unwrap_or(true));
        Some(Self { id: fields.decoded("call")?.into_owned(), ok, pieces })
    }
}
