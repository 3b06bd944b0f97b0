//! Splits a recorded message of any form into pieces, each with its raw JSON.

use std::borrow::Cow;

use abide_model::{MessageForm, Payload};
use serde_json::value::RawValue;

use crate::forms::{self, Forms};
use crate::json::{JsonText, RawFields, list};
use crate::record::without_ours;

/// A recorded message, split into pieces.
#[derive(Debug)]
pub(crate) struct RecordedMessage<'a> {
    pub(crate) role: Cow<'a, str>,
    pub(crate) marks: MessageMarks<'a>,
    /// The forms in which it is valid as it is.
    pub(crate) forms: Forms,
    /// The Responses item that it wraps.
    pub(crate) item: Option<&'a RawValue>,
    pub(crate) fields: RawFields<'a>,
    data: &'a Payload,
    pub(crate) pieces: Vec<MessagePiece<'a>>,
}

/// abide's own marks on a message, under the key `abide`.
#[derive(Debug, Default)]
pub(crate) struct MessageMarks<'a> {
    pub(crate) form: Option<MessageForm>,
    /// The answer it is part of.
    pub(crate) answer: Option<Cow<'a, str>>,
    /// The stream was cut off inside it.
    pub(crate) partial: bool,
}

/// A part of a message.
#[derive(Debug, Clone)]
pub(crate) struct MessagePiece<'a> {
    pub(crate) sort: PieceContent<'a>,
    /// Its raw block, part or item.
    pub(crate) raw: Option<&'a RawValue>,
    /// The forms that have such a block.
    pub(crate) forms: Forms,
}

/// The content of a piece.
#[derive(Debug, Clone)]
pub(crate) enum PieceContent<'a> {
    Text(JsonText<'a>),
    Thinking { text: JsonText<'a>, signature: Option<JsonText<'a>> },
    Image(ImageRef<'a>),
    Call(CallRef<'a>),
    Result(CallResultRef<'a>),
    Refusal(JsonText<'a>),
    Other,
}

/// An image.
#[derive(Debug, Clone)]
pub(crate) enum ImageRef<'a> {
    Url(JsonText<'a>),
    Data { media_type: JsonText<'a>, base64: JsonText<'a> },
}

/// A tool call.
#[derive(Debug, Clone)]
pub(crate) struct CallRef<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) arguments: CallArguments<'a>,
    /// The type of its result's item in Responses.
    pub(crate) answered_by: Cow<'a, str>,
}

/// The arguments of a call.
#[derive(Debug, Clone)]
pub(crate) enum CallArguments<'a> {
    /// JSON.
    Json(&'a RawValue),
    /// Text that should hold JSON.
    Text(JsonText<'a>),
    /// No arguments.
    None,
}

impl<'a> CallArguments<'a> {
    fn of(raw: Option<&'a RawValue>) -> Self {
        match raw.map(|raw| (raw, JsonText::of(raw))) {
            Some((_, Some(text))) => Self::Text(text),
            Some((raw, None)) => Self::Json(raw),
            None => Self::None,
        }
    }

    /// The arguments as text.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Json(raw) => Cow::Borrowed(raw.get()),
            Self::Text(text) => text.decoded(),
            Self::None => Cow::Borrowed("{}"),
        }
    }
}

/// A tool's result.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallResultRef<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) ok: Option<bool>,
    pub(crate) pieces: Vec<MessagePiece<'a>>,
}

impl<'a> MessagePiece<'a> {
    /// A piece with no raw JSON.
    pub(crate) const fn new(sort: PieceContent<'a>) -> Self {
        Self { sort, raw: None, forms: Forms::NONE }
    }

    /// A text piece with no raw JSON.
    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::new(PieceContent::Text(JsonText::Plain(text.into())))
    }

    /// The raw block, if this form has such a block.
    pub(crate) fn native(&self, form: MessageForm) -> Option<&'a RawValue> {
        self.raw.filter(|_| self.forms.has(form))
    }
}

impl<'a> RecordedMessage<'a> {
    /// Splits the data of a `message.added` event; `None` if it is not a message.
    pub(crate) fn of(data: &'a Payload) -> Option<Self> {
        let mut fields = RawFields::of(data.as_str())?;
        let mut role = fields.decoded("role")?;
        let marks = MessageMarks::of(&fields);
        let wrapped = marks.wraps(&fields);
        let item = wrapped.as_ref().map(|(raw, _)| *raw);
        let looks = match marks.form {
            Some(form) => Forms::only(form),
            None => forms::of_message(&fields),
        };
        let mut taking = PieceCollector { pieces: Vec::new() };
        if let Some((raw, item)) = wrapped {
            match item.any("role").and_then(JsonText::of).filter(|_| item.any("content").is_some())
            {
                // A Responses message with an unknown part.
                Some(inner) => {
                    role = inner.into_decoded();
                    taking.message(&role, &item);
                }
                None => taking.pieces.push(block(raw)),
            }
            fields = item;
        } else {
            taking.message(&role, &fields);
        }
        let mut pieces = taking.pieces;
        // The form of the whole message is that of its pieces. But a call and its result find each
        // other by an id that each form keeps elsewhere.
        let form = marks.form.or_else(|| only(looks));
        for piece in pieces.iter_mut().filter(|piece| piece.raw.is_some()) {
            piece.forms = match (form, &piece.sort) {
                (_, PieceContent::Call(_) | PieceContent::Result(_)) => piece.forms.paired_in(form),
                (Some(form), _) => Forms::only(form),
                (None, _) => piece.forms,
            };
        }
        Some(Self { role, marks, forms: looks, item, fields, data, pieces })
    }

    /// The message as it came, without abide's marks.
    pub(crate) fn as_it_came(&self) -> Cow<'a, str> {
        match self.item {
            Some(item) => Cow::Borrowed(item.get()),
            None if self.fields.any("abide").is_none() => Cow::Borrowed(self.data.as_str()),
            None => Cow::Owned(without_ours(self.data.as_str())),
        }
    }

    /// Who speaks.
    pub(crate) fn speaker(&self) -> Speaker {
        match &*self.role {
            "assistant" | "model" => Speaker::Assistant,
            "system" | "developer" => Speaker::Instructions,
            _ => Speaker::User,
        }
    }
}

/// The speaker of a message, as APIs distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Assistant,
    Instructions,
}

fn only(forms: Forms) -> Option<MessageForm> {
    let all = [MessageForm::Anthropic, MessageForm::OpenAi, MessageForm::Responses];
    all.into_iter().find(|form| Forms::only(*form) == forms)
}

impl<'a> MessageMarks<'a> {
    /// Reads the marks on a message.
    pub(crate) fn of(fields: &RawFields<'a>) -> Self {
        let Some(ours) = fields.get("abide").and_then(|raw| RawFields::of(raw.get())) else {
            return Self::default();
        };
        Self {
            form: ours.decoded("form").and_then(|name| forms::named(&name)),
            answer: ours.decoded("answer"),
            partial: ours.flag("partial").unwrap_or_default(),
        }
    }

    /// The Responses item that the message wraps: its only block, if the message is marked as
    /// Responses and the block is not a part of a Responses message.
    pub(crate) fn wraps<'b>(
        &self,
        fields: &RawFields<'b>,
    ) -> Option<(&'b RawValue, RawFields<'b>)> {
        if self.form != Some(MessageForm::Responses) || fields.any("type").is_some() {
            return None;
        }
        let [raw] = *list(fields.get("content")?)?.as_slice() else { return None };
        let item = RawFields::of(raw.get())?;
        let part = item.decoded("type").is_some_and(|sort| forms::is_part(&sort));
        (!part).then_some((raw, item))
    }
}

struct PieceCollector<'a> {
    pieces: Vec<MessagePiece<'a>>,
}

impl<'a> PieceCollector<'a> {
    fn message(&mut self, role: &str, fields: &RawFields<'a>) {
        let tool = matches!(role, "tool" | "function");
        // Chat providers use either name for reasoning.
        let thought = fields.text("reasoning_content").or_else(|| fields.text("reasoning"));
        if let Some(thought) = thought {
            let sort = PieceContent::Thinking { text: thought, signature: None };
            self.pieces.push(MessagePiece {
                sort,
                raw: None,
                forms: Forms::only(MessageForm::OpenAi),
            });
        }
        let content = fields.get("content").map(content).unwrap_or_default();
        match fields.decoded("tool_call_id").filter(|_| tool) {
            Some(id) => self.result(id, content),
            None => {
                let blank = |piece: &MessagePiece<'_>| matches!(&piece.sort, PieceContent::Text(text) if text.is_blank());
                let silent = content.iter().all(blank);
                self.pieces.extend(content);
                self.pieces.extend(fields.get("audio").filter(|_| silent).and_then(audio));
            }
        }
        if let Some(refusal) = fields.text("refusal") {
            self.pieces.push(MessagePiece::new(PieceContent::Refusal(refusal)));
        }
        for call in fields.get("tool_calls").and_then(list).unwrap_or_default() {
            self.pieces.extend(tool_call(call));
        }
        if let Some(call) = fields.get("function_call").and_then(|raw| RawFields::of(raw.get())) {
            let name = call.decoded("name").unwrap_or_default();
            let call = CallRef {
                id: name.clone(),
                name,
                arguments: CallArguments::of(call.get("arguments")),
                answered_by: Cow::Borrowed(FUNCTION_OUTPUT),
            };
            self.pieces.push(MessagePiece::new(PieceContent::Call(call)));
        }
        let has_result =
            self.pieces.iter().any(|piece| matches!(piece.sort, PieceContent::Result(_)));
        if tool && !has_result {
            // A result without a call id. In the legacy form its id is the function's name.
            let id = fields.decoded("name").filter(|_| role == "function").unwrap_or_default();
            let pieces = std::mem::take(&mut self.pieces);
            self.result(id, pieces);
        }
    }

    fn result(&mut self, id: Cow<'a, str>, pieces: Vec<MessagePiece<'a>>) {
        self.pieces.push(MessagePiece::new(PieceContent::Result(CallResultRef {
            id,
            ok: None,
            pieces,
        })));
    }
}

/// Audio in place of content: its transcript, if there is one.
fn audio(raw: &RawValue) -> Option<MessagePiece<'_>> {
    let words = RawFields::of(raw.get())?.text("transcript").filter(|words| !words.is_blank());
    let forms = Forms::only(MessageForm::OpenAi);
    Some(words.map_or(MessagePiece { sort: PieceContent::Other, raw: Some(raw), forms }, |words| {
        MessagePiece::new(PieceContent::Text(words))
    }))
}

/// The type of the Responses item for a function's result.
pub(crate) const FUNCTION_OUTPUT: &str = "function_call_output";

/// The pieces of a `content` field: text, blocks, or anything else.
pub(crate) fn content(raw: &RawValue) -> Vec<MessagePiece<'_>> {
    if let Some(text) = JsonText::of(raw) {
        return vec![MessagePiece::new(PieceContent::Text(text))];
    }
    match list(raw) {
        Some(blocks) => blocks.into_iter().map(block).collect(),
        None if raw.get() == "null" => Vec::new(),
        None => {
            vec![MessagePiece { sort: PieceContent::Other, raw: Some(raw), forms: Forms::NONE }]
        }
    }
}

/// Parses a block of any form.
fn block(raw: &RawValue) -> MessagePiece<'_> {
    let fields = RawFields::of(raw.get());
    let typed = fields.and_then(|fields| Some((fields.decoded("type")?, fields)));
    let Some((sort, fields)) = typed else {
        return MessagePiece { sort: PieceContent::Other, raw: Some(raw), forms: Forms::NONE };
    };
    let read = read_block(&sort, &fields).unwrap_or(PieceContent::Other);
    let forms = match read {
        PieceContent::Call(_) | PieceContent::Result(_) => forms::of_paired(&sort, &fields),
        _ => forms::of_block(&sort, &fields).unwrap_or(Forms::NONE),
    };
    MessagePiece { sort: read, raw: Some(raw), forms }
}

fn read_block<'a>(sort: &str, fields: &RawFields<'a>) -> Option<PieceContent<'a>> {
    let call = |id: &str, arguments: &str, output: &'static str| {
        Some(PieceContent::Call(CallRef {
            id: fields.decoded(id)?,
            name: fields.decoded("name").unwrap_or_default(),
            arguments: CallArguments::of(fields.get(arguments)),
            answered_by: Cow::Borrowed(output),
        }))
    };
    match sort {
        "text" | "input_text" | "output_text" => fields.text("text").map(PieceContent::Text),
        "refusal" => fields.text("refusal").map(PieceContent::Refusal),
        "thinking" => Some(PieceContent::Thinking {
            text: fields.text("thinking")?,
            signature: fields.text("signature"),
        }),
        "redacted_thinking" => Some(PieceContent::Thinking {
            text: JsonText::Plain(Cow::Borrowed("")),
            signature: Some(fields.text("data")?),
        }),
        "reasoning" => Some(reasoning(fields)),
        "image" | "image_url" | "input_image" => image(fields).map(PieceContent::Image),
        "tool_call" if fields.any("call").is_some() => call("call", "arguments", FUNCTION_OUTPUT),
        "tool_call" => call("id", "arguments", FUNCTION_OUTPUT),
        "tool_use" => call("id", "input", FUNCTION_OUTPUT),
        "tool_result" => {
            let names = ["call", "tool_use_id", "tool_call_id"];
            let id = names.iter().find_map(|name| fields.decoded(name))?;
            let failed = fields.flag("is_error");
            let ok = fields.flag("ok").or(failed.map(|failed| !failed));
            let pieces = fields.get("content").map(content).unwrap_or_default();
            Some(PieceContent::Result(CallResultRef { id, ok, pieces }))
        }
        "function_call" => call("call_id", "arguments", FUNCTION_OUTPUT),
        "custom_tool_call" => call("call_id", "input", "custom_tool_call_output"),
        _ if sort.ends_with("_call") => Some(PieceContent::Call(CallRef {
            id: fields.decoded("call_id")?,
            name: fields.decoded("name").unwrap_or_else(|| sort.to_owned().into()),
            arguments: CallArguments::of(
                ["action", "operation", "arguments", "input"]
                    .iter()
                    .find_map(|name| fields.get(name)),
            ),
            answered_by: format!("{sort}_output").into(),
        })),
        _ if sort.ends_with("_output") => {
            let pieces = fields.get("output").map(content).unwrap_or_default();
            let shell = || fields.decoded("id").filter(|_| sort == "local_shell_call_output");
            let id = fields.decoded("call_id").or_else(shell)?;
            Some(PieceContent::Result(CallResultRef { id, ok: None, pieces }))
        }
        _ => None,
    }
}

/// The visible text of a reasoning item.
fn reasoning<'a>(fields: &RawFields<'a>) -> PieceContent<'a> {
    let mut texts = Vec::new();
    for name in ["summary", "content"] {
        for part in fields.get(name).and_then(list).unwrap_or_default() {
            texts.extend(RawFields::of(part.get()).and_then(|part| part.text("text")));
        }
    }
    let text = match (texts.pop(), texts.is_empty()) {
        (Some(only), true) => only,
        (None, _) => JsonText::Plain(Cow::Borrowed("")),
        (Some(last), false) => {
            texts.push(last);
            let texts: Vec<_> = texts.iter().map(JsonText::decoded).collect();
            texts.join("\n\n").into()
        }
    };
    PieceContent::Thinking { text, signature: fields.text("encrypted_content") }
}

fn image<'a>(fields: &RawFields<'a>) -> Option<ImageRef<'a>> {
    if let Some(url) = fields.get("image_url") {
        let url = JsonText::of(url).or_else(|| RawFields::of(url.get())?.text("url"));
        return url.map(ImageRef::Url);
    }
    if let Some(base64) = fields.text("data") {
        let media_type = fields.text("mimeType").or_else(|| fields.text("media_type"))?;
        return Some(ImageRef::Data { media_type, base64 });
    }
    let source = RawFields::of(fields.get("source")?.get())?;
    match &*source.decoded("type")? {
        "base64" => Some(ImageRef::Data {
            media_type: source.text("media_type")?,
            base64: source.text("data")?,
        }),
        "url" => source.text("url").map(ImageRef::Url),
        _ => None,
    }
}

/// Parses an entry of `tool_calls`.
fn tool_call(raw: &RawValue) -> Option<MessagePiece<'_>> {
    let fields = RawFields::of(raw.get())?;
    let (what, arguments) = match (fields.get("function"), fields.get("custom")) {
        (None, Some(custom)) => (Some(custom), "input"),
        (function, _) => (function, "arguments"),
    };
    let what = what.and_then(|raw| RawFields::of(raw.get())).unwrap_or_default();
    let call = CallRef {
        id: fields.decoded("id")?,
        name: what.decoded("name").unwrap_or_default(),
        arguments: CallArguments::of(what.get(arguments)),
        answered_by: Cow::Borrowed(FUNCTION_OUTPUT),
    };
    let forms = Forms::only(MessageForm::OpenAi);
    Some(MessagePiece { sort: PieceContent::Call(call), raw: Some(raw), forms })
}

/// Replaces calls that were cut off, and so never made, by a text that says so.
pub(crate) fn calls_in_words(pieces: &mut [MessagePiece<'_>]) {
    for piece in pieces {
        if let PieceContent::Call(call) = &piece.sort {
            let arguments = call.arguments.text();
            let text =
                format!("[cut off before it was made: a call of {} with {arguments}]", call.name);
            *piece = MessagePiece::text(text);
        }
    }
}

/// Parses a call from the data of a `tool.called` event.
pub(crate) fn begun(data: &Payload) -> Option<CallRef<'_>> {
    let fields = RawFields::of(data.as_str())?;
    Some(CallRef {
        id: fields.decoded("call")?,
        name: fields.decoded("name").unwrap_or_default(),
        arguments: CallArguments::of(fields.get("arguments")),
        answered_by: Cow::Borrowed(FUNCTION_OUTPUT),
    })
}

/// Parses a result from the data of a `tool.finished` event.
pub(crate) fn finished(data: &Payload) -> Option<CallResultRef<'_>> {
    let fields = RawFields::of(data.as_str())?;
    let id = fields.decoded("call")?;
    let ok = Some(fields.flag("ok").unwrap_or(true));
    Some(CallResultRef { id, ok, pieces: fields.get("result").map(given).unwrap_or_default() })
}

/// The pieces of an executed result: text, blocks, or JSON shown as it is.
fn given(raw: &RawValue) -> Vec<MessagePiece<'_>> {
    let blocks = |raw| {
        let pieces = content(raw);
        pieces.iter().all(|piece| !matches!(piece.sort, PieceContent::Other)).then_some(pieces)
    };
    if raw.get().starts_with(['"', '['])
        && let Some(pieces) = blocks(raw)
    {
        return pieces;
    }
    if let Some(fields) = RawFields::of(raw.get()) {
        let note =
            fields.text("note").filter(|note| note.decoded() == abide_model::OUTCOME_UNKNOWN);
        if let Some(note) = note {
            return vec![MessagePiece::new(PieceContent::Text(note))];
        }
        // The result of an MCP server.
        if let Some(pieces) =
            fields.get("content").and_then(list).and(fields.get("content")).and_then(blocks)
        {
            return pieces;
        }
    }
    vec![MessagePiece::text(raw.get())]
}
