//! OpenAI's Responses: messages, calls and results as items of one list.

use abide_model::MessageForm;
use abide_model::json::{RawJsonFields, write_string};
use abide_model::message::{
    CallPiece, CallPieceArguments, JsonText, MessagePiece, PieceContent, RecordedMessage, Speaker,
    TypeField, is_part,
};

use super::{
    AnswerSpan, JsonList, MessageWriter, SettledCall, field, image_in_words, image_url, in_words,
    raw, text_block, write_arguments,
};

const FORM: MessageForm = MessageForm::Responses;
const FUNCTION_OUTPUT: &str = CallPiece::FUNCTION_OUTPUT;
const CUSTOM_OUTPUT: &str = "custom_tool_call_output";

/// Writes Responses items.
#[derive(Debug, Default)]
pub(crate) struct ResponsesWriter {
    items: Vec<String>,
    /// Reasoning not written yet: the API rejects it without the item it led to.
    reasoning: Vec<String>,
    /// Reasoning was written, and since then only items of the model.
    reasoned: bool,
}

impl ResponsesWriter {
    /// Drains the items.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        std::mem::take(&mut self.items)
    }

    /// Drains reasoning that no item followed.
    pub(crate) fn take_reasoning(&mut self) -> Vec<String> {
        std::mem::take(&mut self.reasoning)
    }

    /// Drops pending reasoning: another answer begins.
    fn forget(&mut self) {
        self.reasoning.clear();
        self.reasoned = false;
    }

    /// Writes an item that is not the model's.
    fn push(&mut self, item: String) {
        self.forget();
        self.items.push(item);
    }

    /// Writes an item of the model that differs from what the API sent. Its reasoning is dropped:
    /// the API accepts reasoning only before the item it led to.
    fn push_rebuilt(&mut self, item: String) {
        self.reasoning.clear();
        self.items.push(item);
    }

    /// Writes an item of the model as the API sent it, after its reasoning. The API uses the item's
    /// `id` to look up that reasoning, so if the reasoning is gone, the `id` is dropped too.
    fn push_native(&mut self, item: &str) {
        if !self.reasoning.is_empty() {
            self.items.append(&mut self.reasoning);
            self.reasoned = true;
        }
        let nameless = RawJsonFields::of(item).filter(|fields| {
            let sort = fields.decoded("type");
            let sort = sort.as_deref().unwrap_or("message");
            // Other item types require an `id`.
            let free = matches!(sort, "message" | "function_call" | "custom_tool_call");
            !self.reasoned && free && fields.any("id").is_some()
        });
        self.items.push(nameless.map_or_else(|| item.to_owned(), |fields| fields.without("id")));
    }

    /// Writes the texts so far as a message of the model.
    fn flush(&mut self, parts: &mut JsonList) {
        if let Some(item) = message("assistant", parts) {
            self.push_rebuilt(item);
        }
    }

    fn images(&mut self, pieces: &[MessagePiece]) {
        let mut parts = JsonList::default();
        for piece in pieces.iter().filter(|piece| is_shown_image(piece)) {
            part(&mut parts, piece, Speaker::User);
        }
        if let Some(item) = message("user", &mut parts) {
            self.push(item);
        }
    }
}

fn is_shown_image(piece: &MessagePiece) -> bool {
    matches!(&piece.sort, PieceContent::Image(image) if image_url(image).is_some())
}

fn message(role: &str, parts: &mut JsonList) -> Option<String> {
    if parts.is_empty() {
        return None;
    }
    let parts = parts.take();
    Some(format!("{{\"type\":\"message\",\"role\":\"{role}\",\"content\":{parts}}}"))
}

/// Writes a piece as a part that is valid for this speaker. Skips blank pieces.
fn part(parts: &mut JsonList, piece: &MessagePiece, speaker: Speaker) {
    let sort = if speaker == Speaker::Assistant { "output_text" } else { "input_text" };
    let text: JsonText = match &piece.sort {
        PieceContent::Text(text) | PieceContent::Refusal(text) if text.is_blank() => return,
        PieceContent::Text(text) => {
            if let Some(raw) = piece.native(FORM).filter(|raw| is_of_type(raw.get(), sort)) {
                return parts.next().push_str(raw.get());
            }
            text.clone()
        }
        PieceContent::Refusal(text) if speaker == Speaker::Assistant => {
            return text_block(parts.next(), "refusal", "refusal", text);
        }
        PieceContent::Refusal(text) => text.clone(),
        PieceContent::Image(image) => match image_url(image).filter(|_| speaker == Speaker::User) {
            Some(url) => {
                let out = parts.next();
                if let Some(raw) = piece.native(FORM) {
                    return out.push_str(raw.get());
                }
                out.push_str("{\"type\":\"input_image\",\"detail\":\"auto\",\"image_url\":");
                write_string(out, &url);
                return out.push('}');
            }
            None => image_in_words(image).into(),
        },
        PieceContent::Other(_) if speaker == Speaker::User && native_part(piece) => {
            return parts.next().push_str(raw(piece));
        }
        PieceContent::Other(_) => in_words(piece).into(),
        PieceContent::Thinking { .. } | PieceContent::Call(_) | PieceContent::Result(_) => return,
    };
    text_block(parts.next(), sort, "text", &text);
}

fn is_of_type(raw: &str, sort: &str) -> bool {
    let found = RawJsonFields::of(raw).and_then(|fields| fields.decoded("type"));
    found.is_some_and(|found| found == sort)
}

/// Whether this is a part that abide does not parse but that is valid in a user message.
fn native_part(piece: &MessagePiece) -> bool {
    let native = piece.native(FORM).and_then(|raw| RawJsonFields::of(raw.get()));
    let Some(fields) = native else { return false };
    match fields.decoded("type").as_deref() {
        Some("input_file") => true,
        Some("input_image") => fields.get("file_id").is_some(),
        _ => false,
    }
}

/// Whether the API accepts this message unchanged.
fn as_it_is(said: &RecordedMessage) -> bool {
    let speaker = said.speaker();
    let sort = if speaker == Speaker::Assistant { "output_text" } else { "input_text" };
    // With another type the API takes it for another item, whatever its fields.
    let is_message = said.shape.sort != TypeField::Other;
    let whole = is_message
        && said.forms.has(FORM)
        && said.item.is_none()
        && !said.marks.partial
        && !said.pieces.is_empty()
        && matches!(said.role.as_str(), "user" | "assistant" | "system" | "developer");
    whole
        && said.pieces.iter().all(|piece| match &piece.sort {
            PieceContent::Text(text) => {
                !text.is_blank() && piece.raw.as_ref().is_none_or(|raw| is_of_type(raw.get(), sort))
            }
            PieceContent::Refusal(text) => speaker == Speaker::Assistant && !text.is_blank(),
            PieceContent::Image(_) => speaker == Speaker::User && is_shown_image(piece),
            PieceContent::Other(_) => speaker == Speaker::User && native_part(piece),
            PieceContent::Thinking { .. } | PieceContent::Call(_) | PieceContent::Result(_) => {
                false
            }
        })
}

impl MessageWriter for ResponsesWriter {
    fn instructions(&mut self, said: &RecordedMessage) {
        if as_it_is(said) {
            return self.push(said.as_it_came().into_owned());
        }
        let mut parts = JsonList::default();
        for piece in said.pieces.iter().filter(|piece| !is_shown_image(piece)) {
            part(&mut parts, piece, Speaker::Instructions);
        }
        let role = if said.role == "developer" { "developer" } else { "system" };
        if let Some(item) = message(role, &mut parts) {
            self.push(item);
        }
        self.images(&said.pieces);
    }

    fn user(&mut self, pieces: &[MessagePiece], whole: Option<&RecordedMessage>) {
        if let Some(said) = whole.filter(|said| said.role == "user" && as_it_is(said)) {
            return self.push(said.as_it_came().into_owned());
        }
        let mut parts = JsonList::default();
        pieces.iter().for_each(|piece| part(&mut parts, piece, Speaker::User));
        if let Some(item) = message("user", &mut parts) {
            self.push(item);
        }
    }

    fn answer(
        &mut self,
        pieces: &[MessagePiece],
        calls: &[SettledCall<'_>],
        spans: &[AnswerSpan<'_>],
    ) {
        // All parts of a marked answer are here.
        let marked = spans.iter().any(|span| span.recorded.marks.answer.is_some());
        if marked {
            self.forget();
        }
        let mut parts = JsonList::default();
        let mut settled = calls.iter();
        let mut outputs = Vec::with_capacity(calls.len());
        let mut rest = pieces;
        for span in spans {
            let (own, others) = rest.split_at_checked(span.pieces).unwrap_or((rest, &[]));
            rest = others;
            let said = &span.recorded;
            if said.role == "assistant" && as_it_is(said) {
                self.flush(&mut parts);
                // A message without a type did not come from the API.
                if said.shape.sort == TypeField::None {
                    self.reasoning.clear();
                }
                self.push_native(&said.as_it_came());
                continue;
            }
            for piece in own {
                self.said(piece, &mut parts, &mut settled, &mut outputs);
            }
        }
        for piece in rest {
            self.said(piece, &mut parts, &mut settled, &mut outputs);
        }
        self.flush(&mut parts);
        for (call, sort) in calls.iter().zip(outputs) {
            self.output(call, sort);
        }
        self.images(pieces);
        if marked {
            self.forget();
        }
    }

    fn result(&mut self, call: &SettledCall<'_>) {
        self.output(call, FUNCTION_OUTPUT);
    }
}

impl ResponsesWriter {
    /// Writes a piece of an answer. Texts are collected into one message.
    fn said<'c>(
        &mut self,
        piece: &MessagePiece,
        parts: &mut JsonList,
        settled: &mut std::slice::Iter<'c, SettledCall<'_>>,
        outputs: &mut Vec<&'c str>,
    ) {
        match &piece.sort {
            PieceContent::Call(call) => {
                let Some(settled) = settled.next() else { return };
                self.flush(parts);
                match piece.native(FORM).filter(|_| stays(call, settled)) {
                    Some(raw) => {
                        outputs.push(settled.answered_by);
                        self.push_native(raw.get());
                    }
                    None => {
                        outputs.push(FUNCTION_OUTPUT);
                        self.push_rebuilt(function_call(call, settled));
                    }
                }
            }
            PieceContent::Thinking { .. } => {
                if let Some(raw) = piece.native(FORM) {
                    self.flush(parts);
                    self.reasoning.push(raw.get().to_owned());
                }
            }
            _ if is_shown_image(piece) => {}
            PieceContent::Other(_) => match native_item(piece) {
                Some(item) => {
                    self.flush(parts);
                    self.push_native(item);
                }
                None => part(parts, piece, Speaker::Assistant),
            },
            _ => part(parts, piece, Speaker::Assistant),
        }
    }

    /// Writes the result of a call as an item of type `sort`.
    fn output(&mut self, call: &SettledCall<'_>, sort: &str) {
        let Some(piece) = &call.result else { return };
        let Some(outcome) = piece.result() else { return };
        let plain = sort == FUNCTION_OUTPUT || sort == CUSTOM_OUTPUT;
        let fits = |piece: &MessagePiece| match &piece.sort {
            PieceContent::Text(text) => {
                !text.is_blank()
                    && piece.raw.as_ref().is_none_or(|raw| is_of_type(raw.get(), "input_text"))
            }
            PieceContent::Image(_) => is_shown_image(piece),
            _ => false,
        };
        let native = piece.native(FORM).filter(|raw| {
            call.same && is_of_type(raw.get(), sort) && (!plain || outcome.pieces.iter().all(fits))
        });
        if let Some(raw) = native.filter(|_| !plain || !outcome.pieces.is_empty()) {
            return self.push(raw.get().to_owned());
        }
        let mut out = format!("{{\"type\":\"{sort}\"");
        field(&mut out, "call_id", &call.id);
        out.push_str(",\"output\":");
        let texts: Vec<_> = outcome.pieces.iter().filter(|piece| !is_blank(piece)).collect();
        match texts.as_slice() {
            [] => out.push_str("\"\""),
            [MessagePiece { sort: PieceContent::Text(text), .. }] => text.write(&mut out),
            pieces => {
                let mut parts = JsonList::default();
                pieces.iter().for_each(|piece| part(&mut parts, piece, Speaker::User));
                out.push_str(&parts.take());
            }
        }
        out.push('}');
        self.push(out);
    }
}

fn is_blank(piece: &MessagePiece) -> bool {
    matches!(&piece.sort, PieceContent::Text(text) if text.is_blank())
}

/// An item from the API that abide does not parse.
fn native_item(piece: &MessagePiece) -> Option<&str> {
    let raw = piece.native(FORM)?.get();
    let fields = RawJsonFields::of(raw)?;
    let sort = fields.decoded("type").filter(|sort| !sort.is_empty())?;
    let part = is_part(&sort) || matches!(&*sort, "message" | "text");
    // The API rejects an item with a `call_id` but no output.
    let called = sort.ends_with("_call") && fields.any("call_id").is_some();
    let paired = called
        || sort.ends_with("_output")
        || matches!(&*sort, "function_call" | "custom_tool_call");
    (!part && !paired).then_some(raw)
}

/// Whether the call can be written as its original item: it must be as the API sent it and, if it
/// is not a function call, have a result of the matching type.
fn stays(call: &CallPiece, settled: &SettledCall<'_>) -> bool {
    let text = matches!(call.arguments, CallPieceArguments::Text(_));
    let result = settled.result.as_ref();
    settled.same
        && match settled.answered_by {
            FUNCTION_OUTPUT | CUSTOM_OUTPUT => text,
            sort => result.is_none_or(|result| {
                result.native(FORM).is_some_and(|raw| is_of_type(raw.get(), sort))
            }),
        }
}

fn function_call(call: &CallPiece, settled: &SettledCall<'_>) -> String {
    let mut out = "{\"type\":\"function_call\"".to_owned();
    field(&mut out, "call_id", &settled.id);
    field(&mut out, "name", &settled.name);
    out.push_str(",\"arguments\":");
    write_arguments(&mut out, &call.arguments);
    out.push('}');
    out
}
