//! Writers of the message forms, and what they share.

pub(crate) mod abide;
pub(crate) mod anthropic;
pub(crate) mod openai;
pub(crate) mod responses;

use std::borrow::Cow;

use abide_model::json::{RawJsonFields, write_string};
use abide_model::message::{
    CallPieceArguments, ImagePiece, JsonText, MessagePiece, PieceContent, RecordedMessage,
};
use abide_model::{EventLimits, Payload};

/// Writes a conversation, given in order, as messages of one form.
pub(crate) trait MessageWriter {
    /// Writes instructions (system or developer messages).
    fn instructions(&mut self, said: &RecordedMessage);

    /// Writes a user message. `whole` is the recorded message if the pieces are all of it.
    fn user(&mut self, pieces: &[MessagePiece], whole: Option<&RecordedMessage>);

    /// Writes an answer of the model. `calls` are its calls in order. `spans` are the messages that
    /// the pieces come from, in order, if known.
    fn answer(
        &mut self,
        pieces: &[MessagePiece],
        calls: &[SettledCall<'_>],
        spans: &[AnswerSpan<'_>],
    );

    /// Writes the result of a call that is in another message.
    fn result(&mut self, call: &SettledCall<'_>);
}

/// A recorded message that is part of an answer.
#[derive(Debug)]
pub(crate) struct AnswerSpan<'a> {
    pub(crate) recorded: Cow<'a, RecordedMessage>,
    /// How many of the answer's pieces come from it.
    pub(crate) pieces: usize,
}

/// A call with the id and name it is written with.
#[derive(Debug)]
pub(crate) struct SettledCall<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    /// These are the id and name it came with.
    pub(crate) same: bool,
    /// The type of its result's item in Responses.
    pub(crate) answered_by: &'a str,
    /// Its result, if it follows the call.
    pub(crate) result: Option<MessagePiece>,
}

/// A JSON array being written.
#[derive(Debug, Default)]
pub(crate) struct JsonList {
    text: String,
    pub(crate) count: usize,
}

impl JsonList {
    /// Starts the next element and returns the buffer to write it to.
    pub(crate) fn next(&mut self) -> &mut String {
        self.text.push(if self.count == 0 { '[' } else { ',' });
        self.count += 1;
        &mut self.text
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the array and starts a new one.
    pub(crate) fn take(&mut self) -> String {
        self.count = 0;
        let mut text = std::mem::take(&mut self.text);
        text.push_str(if text.is_empty() { "[]" } else { "]" });
        text
    }
}

/// Writes a comma and a string field.
pub(crate) fn field(out: &mut String, name: &str, text: &str) {
    out.push_str(",\"");
    out.push_str(name);
    out.push_str("\":");
    write_string(out, text);
}

/// Writes a block with one text: `{"type":…,"text":…}`.
pub(crate) fn text_block(out: &mut String, sort: &str, name: &str, text: &JsonText) {
    out.push_str("{\"type\":\"");
    out.push_str(sort);
    out.push_str("\",\"");
    out.push_str(name);
    out.push_str("\":");
    text.write(out);
    out.push('}');
}

/// Writes arguments as an object. Anything else becomes the text of its field `raw`.
pub(crate) fn write_object(out: &mut String, arguments: &CallPieceArguments) {
    match arguments {
        CallPieceArguments::None => out.push_str("{}"),
        CallPieceArguments::Json(raw) if raw.get().starts_with('{') => out.push_str(raw.get()),
        arguments => {
            let text = arguments.text();
            let trimmed = text.trim();
            if trimmed.is_empty() {
                out.push_str("{}");
            } else if trimmed.starts_with('{')
                && let Ok(object) = Payload::new(trimmed, &EventLimits::default())
            {
                out.push_str(object.as_str());
            } else {
                out.push_str("{\"raw\":");
                write_string(out, &text);
                out.push('}');
            }
        }
    }
}

/// Writes arguments as a string of JSON.
pub(crate) fn write_arguments(out: &mut String, arguments: &CallPieceArguments) {
    match arguments {
        CallPieceArguments::Text(text) => text.write(out),
        arguments => write_string(out, &arguments.text()),
    }
}

/// Unknown blocks of fewer characters are shown in full.
const SHOWN: usize = 2000;

/// Describes a block that the form cannot express.
pub(crate) fn in_words(piece: &MessagePiece) -> String {
    let raw = raw(piece);
    if raw.len() < SHOWN || raw.chars().nth(SHOWN - 1).is_none() {
        return raw.to_owned();
    }
    let sort = RawJsonFields::of(raw).and_then(|fields| fields.decoded("type"));
    let sort: String = sort.as_deref().unwrap_or("unknown").chars().take(64).collect();
    format!("[a block of the type {sort}, of {} bytes, is not shown]", raw.len())
}

/// The raw block of a piece; empty if it has none.
pub(crate) fn raw(piece: &MessagePiece) -> &str {
    piece.raw.as_ref().map_or("", |raw| raw.get())
}

/// Replaces calls that were cut off, and so never made, by a text that says so.
pub(crate) fn calls_in_words(pieces: &mut [MessagePiece]) {
    for piece in pieces {
        if let PieceContent::Call(call) = &piece.sort {
            let arguments = call.arguments.text();
            let text =
                format!("[cut off before it was made: a call of {} with {arguments}]", call.name);
            *piece = MessagePiece::text(text);
        }
    }
}

/// Describes an image that the form cannot express.
pub(crate) fn image_in_words(image: &ImagePiece) -> String {
    match image {
        ImagePiece::Url(url) => {
            let url = url.decoded();
            let start: String = url.chars().take(100).collect();
            let more = if start.len() < url.len() { "…" } else { "" };
            format!("[an image is not shown: {start}{more}]")
        }
        ImagePiece::Data { media_type, .. } => {
            let sort: String = media_type.decoded().chars().take(64).collect();
            format!("[an image of the type {sort} is not shown]")
        }
    }
}

/// The media type and base64 data of a `data:` URL.
pub(crate) fn data_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}

/// Whether this is an `http` or `https` URL, which an API can fetch.
pub(crate) fn is_web(url: &str) -> bool {
    let web = |scheme: &str| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty());
    web("https://") || web("http://")
}

/// The URL of an image for OpenAI; `None` if OpenAI would not accept it.
pub(crate) fn image_url(image: &ImagePiece) -> Option<String> {
    let url = match image {
        ImagePiece::Url(url) => url.decoded().into_owned(),
        ImagePiece::Data { media_type, base64 } => {
            format!("data:{};base64,{}", media_type.decoded(), base64.decoded())
        }
    };
    let fits = is_web(&url) || data_url(&url).is_some_and(|(sort, _)| sort.starts_with("image/"));
    fits.then_some(url)
}
