//! Reads the pieces of a message, in any of the four forms in which it may be recorded.
//!
//! Agents record messages verbatim. A call is a `tool_call` block (ours), a `tool_use` block
//! (Anthropic), an entry of `tool_calls` (OpenAI) or an item with a `call_id` (OpenAI's Responses,
//! as the only block of a message). Its result is a `tool_result` block that names it by `call` or
//! `tool_use_id`, a message with `tool_call_id`, or an item `…_output` with its `call_id`. In
//! OpenAI's old form, `function_call` and a message of the role `function`, the name of the
//! function identifies the call. Tools that an API runs itself (`server_tool_use`,
//! `web_search_call` …) are answered by the API and are not calls. Reading is lenient: anything
//! else is kept as it is. Of a field that stands twice, the last counts.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::content::{RawContent, RawMessage};
use super::forms::{self, FormClues, Forms, MessageForm};
use super::json_text::{JsonText, RawJson};
use super::message_piece::{
    CallPiece, CallPieceArguments, ImagePiece, MessagePiece, PieceContent, ResultPiece, UnreadPiece,
};
use crate::json::{RawJsonFields, encoded_string, list};
use crate::{OUTCOME_UNKNOWN, Payload};

/// Reads pieces out of a payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct PieceReader<'a> {
    data: &'a Payload,
}

impl<'a> PieceReader<'a> {
    /// `None` if the payload is too long.
    pub(super) fn new(data: &'a Payload) -> Option<Self> {
        (data.as_str().len() <= RawJson::LONGEST).then_some(Self { data })
    }

    /// A value of the payload.
    pub(super) fn raw(self, json: &str) -> RawJson {
        RawJson::within(self.data, json)
    }

    fn string(self, json: &str) -> JsonText {
        JsonText::Json(self.raw(json))
    }

    fn text(self, fields: &RawJsonFields<'_>, name: &str) -> Option<JsonText> {
        fields.encoded(name).map(|json| self.string(json))
    }

    fn arguments(self, raw: Option<&RawValue>) -> CallPieceArguments {
        match raw.map(|raw| (raw, encoded_string(raw))) {
            Some((_, Some(text))) => CallPieceArguments::Text(self.string(text)),
            Some((raw, None)) => CallPieceArguments::Json(self.raw(raw.get())),
            None => CallPieceArguments::None,
        }
    }

    /// A call of a function that `fields` name.
    pub(super) fn call(
        self,
        form: MessageForm,
        id: &str,
        fields: &RawJsonFields<'_>,
        arguments: Option<&RawValue>,
    ) -> CallPiece {
        CallPiece {
            id: id.to_owned(),
            name: fields.decoded("name").unwrap_or_default().into_owned(),
            arguments: self.arguments(arguments),
            form,
            answered_by: Cow::Borrowed(CallPiece::FUNCTION_OUTPUT),
        }
    }

    fn other(self, raw: &RawValue, what: UnreadPiece, forms: Forms) -> MessagePiece {
        MessagePiece { sort: PieceContent::Other(what), raw: Some(self.raw(raw.get())), forms }
    }

    /// The pieces of a message; its blocks tell about its form.
    pub(super) fn message(
        self,
        role: &str,
        RawMessage { fields, content, tool_calls }: &RawMessage<'_>,
        clues: &mut FormClues,
    ) -> Vec<MessagePiece> {
        let tool = matches!(role, "tool" | "function");
        let mut pieces = Vec::new();
        // Chat providers use either name for reasoning.
        let thought = self.text(fields, "reasoning_content");
        if let Some(text) = thought.or_else(|| self.text(fields, "reasoning")) {
            let forms = Forms::only(MessageForm::OpenAi);
            let sort = PieceContent::Thinking { text, signature: None };
            pieces.push(MessagePiece { sort, raw: None, forms });
        }
        let content = self.content(content, clues);
        match fields.decoded("tool_call_id").filter(|_| tool) {
            Some(id) => pieces.push(result(&id, content)),
            None => {
                let blank = |piece: &MessagePiece| matches!(&piece.sort, PieceContent::Text(text) if text.is_blank());
                let silent = content.iter().all(blank);
                pieces.extend(content);
                let audio = fields.get("audio").filter(|_| silent);
                pieces.extend(audio.and_then(|raw| self.audio(raw)));
            }
        }
        if let Some(refusal) = self.text(fields, "refusal") {
            pieces.push(MessagePiece::new(PieceContent::Refusal(refusal)));
        }
        pieces.extend(tool_calls.iter().filter_map(|call| self.tool_call(call)));
        if let Some(called) =
            fields.get("function_call").and_then(|raw| RawJsonFields::of(raw.get()))
        {
            let id = called.decoded("name").unwrap_or_default();
            let call = self.call(MessageForm::OpenAi, &id, &called, called.get("arguments"));
            pieces.push(MessagePiece::new(PieceContent::Call(Box::new(call))));
        }
        if tool && !pieces.iter().any(|piece| piece.result().is_some()) {
            // A result without a call id. In the legacy form its id is the function's name.
            let id = fields.decoded("name").filter(|_| role == "function").unwrap_or_default();
            pieces = vec![result(&id, pieces)];
        }
        pieces
    }

    /// Audio in place of content: its transcript, if there is one.
    fn audio(self, raw: &RawValue) -> Option<MessagePiece> {
        let words = self.text(&RawJsonFields::of(raw.get())?, "transcript");
        Some(match words.filter(|words| !words.is_blank()) {
            Some(words) => MessagePiece::text(words),
            None => self.other(raw, UnreadPiece::Audio, Forms::only(MessageForm::OpenAi)),
        })
    }

    /// The pieces of a content: text, blocks, or anything else.
    fn content(self, content: &RawContent<'_>, clues: &mut FormClues) -> Vec<MessagePiece> {
        clues.content(content);
        match content {
            RawContent::None => Vec::new(),
            RawContent::Text(text) => vec![MessagePiece::text(self.string(text))],
            RawContent::Blocks(blocks) => blocks
                .iter()
                .map(|raw| self.block(raw, RawJsonFields::of(raw.get()), clues))
                .collect(),
            RawContent::Other(raw) => vec![self.other(raw, UnreadPiece::Block, Forms::NONE)],
        }
    }

    /// The pieces of a result's output.
    fn output(self, raw: &RawValue) -> Vec<MessagePiece> {
        self.content(&RawContent::read(raw), &mut FormClues::default())
    }

    /// Reads a block of any form, given its fields if it is an object.
    pub(super) fn block(
        self,
        raw: &RawValue,
        fields: Option<RawJsonFields<'_>>,
        clues: &mut FormClues,
    ) -> MessagePiece {
        let typed = fields.and_then(|fields| Some((fields.decoded("type")?, fields)));
        let Some((sort, fields)) = typed else {
            clues.take(None);
            return self.other(raw, UnreadPiece::Block, Forms::NONE);
        };
        let looks = forms::of_block(&sort, &fields);
        clues.take(looks);
        let content = self.read_block(&sort, &fields);
        let forms = match &content {
            Some(PieceContent::Call(call)) => Forms::only(call.form),
            Some(PieceContent::Result(_)) => forms::of_result(&sort, &fields),
            _ => looks.unwrap_or(Forms::NONE),
        };
        let sort = content.unwrap_or_else(|| PieceContent::Other(self.unread(&sort, &fields)));
        MessagePiece { sort, raw: Some(self.raw(raw.get())), forms }
    }

    /// What a block is that could not be read.
    fn unread(self, sort: &str, fields: &RawJsonFields<'_>) -> UnreadPiece {
        let item = sort.ends_with("_call") && sort != "tool_call";
        let served = sort.ends_with("_tool_use") || (item && fields.get("call_id").is_none());
        let id = self.text(fields, "id").filter(|_| served);
        id.map_or(UnreadPiece::Block, UnreadPiece::Served)
    }

    fn read_block(self, sort: &str, fields: &RawJsonFields<'_>) -> Option<PieceContent> {
        let text = |name: &str| self.text(fields, name);
        let call = |form, id: &str, arguments: &str| {
            Some(self.call(form, &fields.decoded(id)?, fields, fields.get(arguments)))
        };
        let called = |call: CallPiece| PieceContent::Call(Box::new(call));
        match sort {
            "text" | "input_text" | "output_text" => text("text").map(PieceContent::Text),
            "refusal" => text("refusal").map(PieceContent::Refusal),
            "thinking" => Some(PieceContent::Thinking {
                text: text("thinking")?,
                signature: text("signature").map(Box::new),
            }),
            "redacted_thinking" => Some(PieceContent::Thinking {
                text: JsonText::from(""),
                signature: Some(Box::new(text("data")?)),
            }),
            "reasoning" => Some(self.reasoning(fields)),
            "image" | "image_url" | "input_image" => {
                self.image(fields).map(|image| PieceContent::Image(Box::new(image)))
            }
            "tool_call" if fields.any("call").is_some() => {
                call(MessageForm::Abide, "call", "arguments").map(called)
            }
            "tool_call" => call(MessageForm::Abide, "id", "arguments").map(called),
            "tool_use" => call(MessageForm::Anthropic, "id", "input").map(called),
            "tool_result" => {
                let names = ["call", "tool_use_id", "tool_call_id"];
                let id = names.iter().find_map(|name| fields.decoded(name))?.into_owned();
                let failed = fields.flag("is_error");
                let ok = fields.flag("ok").or(failed.map(|failed| !failed));
                let pieces = fields.get("content").map(|raw| self.output(raw)).unwrap_or_default();
                Some(PieceContent::Result(Box::new(ResultPiece { id, ok, pieces })))
            }
            "function_call" => call(MessageForm::Responses, "call_id", "arguments").map(called),
            _ if sort.ends_with("_call") => {
                let custom = sort == "custom_tool_call";
                let names: &[&str] = if custom {
                    &["input"]
                } else {
                    &["action", "operation", "arguments", "input"]
                };
                let arguments = names.iter().find_map(|name| fields.get(name));
                let id = fields.decoded("call_id")?;
                let mut call = self.call(MessageForm::Responses, &id, fields, arguments);
                if fields.decoded("name").is_none() && !custom {
                    sort.clone_into(&mut call.name);
                }
                call.answered_by = format!("{sort}_output").into();
                Some(called(call))
            }
            _ if sort.ends_with("_output") => {
                let pieces = fields.get("output").map(|raw| self.output(raw)).unwrap_or_default();
                let shell = || fields.decoded("id").filter(|_| sort == "local_shell_call_output");
                let id = fields.decoded("call_id").or_else(shell)?.into_owned();
                Some(PieceContent::Result(Box::new(ResultPiece { id, ok: None, pieces })))
            }
            _ => None,
        }
    }

    /// The visible text of a reasoning item.
    fn reasoning(self, fields: &RawJsonFields<'_>) -> PieceContent {
        let mut texts = Vec::new();
        for name in ["summary", "content"] {
            for part in fields.get(name).and_then(list).unwrap_or_default() {
                texts.extend(
                    RawJsonFields::of(part.get()).and_then(|part| self.text(&part, "text")),
                );
            }
        }
        let text = match texts.len() {
            0 | 1 => texts.pop().unwrap_or_else(|| JsonText::from("")),
            _ => {
                let texts: Vec<_> = texts.iter().map(JsonText::decoded).collect();
                texts.join("\n\n").into()
            }
        };
        let signature = self.text(fields, "encrypted_content").map(Box::new);
        PieceContent::Thinking { text, signature }
    }

    fn image(self, fields: &RawJsonFields<'_>) -> Option<ImagePiece> {
        if let Some(url) = fields.get("image_url") {
            let inner = || RawJsonFields::of(url.get())?.encoded("url");
            let url = encoded_string(url).or_else(inner)?;
            return Some(ImagePiece::Url(self.string(url)));
        }
        if let Some(base64) = self.text(fields, "data") {
            let sort = self.text(fields, "mimeType").or_else(|| self.text(fields, "media_type"));
            return Some(ImagePiece::Data { media_type: sort?, base64 });
        }
        let source = RawJsonFields::of(fields.get("source")?.get())?;
        match &*source.decoded("type")? {
            "base64" => Some(ImagePiece::Data {
                media_type: self.text(&source, "media_type")?,
                base64: self.text(&source, "data")?,
            }),
            "url" => self.text(&source, "url").map(ImagePiece::Url),
            _ => None,
        }
    }

    /// Reads an entry of `tool_calls`.
    fn tool_call(self, raw: &RawValue) -> Option<MessagePiece> {
        let fields = RawJsonFields::of(raw.get())?;
        let (what, arguments) = match (fields.get("function"), fields.get("custom")) {
            (None, Some(custom)) => (Some(custom), "input"),
            (function, _) => (function, "arguments"),
        };
        let what = what.and_then(|raw| RawJsonFields::of(raw.get())).unwrap_or_default();
        let id = fields.decoded("id")?;
        let call = self.call(MessageForm::OpenAi, &id, &what, what.get(arguments));
        let forms = Forms::only(MessageForm::OpenAi);
        let sort = PieceContent::Call(Box::new(call));
        Some(MessagePiece { sort, raw: Some(self.raw(raw.get())), forms })
    }

    /// The pieces of an executed result: text, blocks, or JSON shown as it is.
    pub(super) fn given(self, raw: &RawValue) -> Vec<MessagePiece> {
        let blocks = |raw: &RawValue| {
            let pieces = self.output(raw);
            let read = |piece: &MessagePiece| !matches!(piece.sort, PieceContent::Other(_));
            pieces.iter().all(read).then_some(pieces)
        };
        if raw.get().starts_with(['"', '['])
            && let Some(pieces) = blocks(raw)
        {
            return pieces;
        }
        if let Some(fields) = RawJsonFields::of(raw.get()) {
            let note = self.text(&fields, "note");
            if let Some(note) = note.filter(|note| note.decoded() == OUTCOME_UNKNOWN) {
                return vec![MessagePiece::text(note)];
            }
            // The result of an MCP server.
            let content = fields.get("content").filter(|raw| raw.get().starts_with('['));
            if let Some(pieces) = content.and_then(blocks) {
                return pieces;
            }
        }
        vec![MessagePiece::text(raw.get().to_owned())]
    }
}

fn result(id: &str, pieces: Vec<MessagePiece>) -> MessagePiece {
    let result = ResultPiece { id: id.to_owned(), ok: None, pieces };
    MessagePiece::new(PieceContent::Result(Box::new(result)))
}
