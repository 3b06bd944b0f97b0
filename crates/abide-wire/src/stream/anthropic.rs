//! Parses answers of Anthropic's Messages: blocks, identified by an index, that start, grow by
//! deltas and stop.
//!
//! A block keeps every field it started with. A delta of unknown type changes the fields it names:
//! text is appended, any other value replaces the old one.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::answer_parser::{AnswerSink, parse, parse_part};
use super::answer_usage::{self, AnthropicUsage};
use super::arguments;
use super::block::{StreamDelta, StreamedBlock, StreamedCall};
use super::error::StreamError;
use super::field::{FieldText, Number, OrderedFields, object, quoted};
use super::growing_object::GrowingObject;
use super::sse_event_reader::SseEvent;

/// The state of an answer being parsed.
#[derive(Debug, Default)]
pub(super) struct AnthropicParser {
    open: Vec<AnthropicBlock>,
    usage: AnthropicUsage,
}

/// A block that has started.
#[derive(Debug)]
struct AnthropicBlock {
    index: i64,
    kind: GrowingBlockKind,
    /// The block as it started, with the changes of deltas.
    block: GrowingObject,
    /// The input collected from deltas.
    json: String,
    id: String,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrowingBlockKind {
    Text,
    Thinking,
    Call,
    Other,
}

object! {
    struct AnthropicEvent<'a> {
        kind = "type": FieldText<'a>,
        index = "index": Number,
        delta = "delta": Option<&'a RawValue>,
        content_block = "content_block": Option<&'a RawValue>,
        message = "message": Option<&'a RawValue>,
        usage = "usage": Option<&'a RawValue>,
        error = "error": Option<&'a RawValue>,
    }
}

object! {
    struct AnthropicDelta<'a> {
        kind = "type": FieldText<'a>,
        text = "text": FieldText<'a>,
        thinking = "thinking": FieldText<'a>,
        signature = "signature": FieldText<'a>,
        partial_json = "partial_json": FieldText<'a>,
        citation = "citation": Option<&'a RawValue>,
        stop_reason = "stop_reason": FieldText<'a>,
    }
}

impl AnthropicParser {
    pub(super) fn take(
        &mut self,
        event: SseEvent<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        let said: AnthropicEvent<'_> = parse(event)?;
        let name = std::str::from_utf8(event.name).unwrap_or_default();
        let index = said.index.0.unwrap_or(0);
        match said.kind.some().unwrap_or(name) {
            "content_block_delta" => {
                if let Some(delta) = said.delta {
                    self.grow(index, delta, event, sink)?;
                }
            }
            "content_block_start" => {
                let block = said.content_block.map_or("{}", RawValue::get);
                self.start(index, block, sink)?;
            }
            "content_block_stop" => self.stop(index, sink),
            "message_start" => self.message(said.message, sink)?,
            "message_delta" => {
                let change = said.delta.map(|delta| parse_part::<AnthropicDelta<'_>>(delta, event));
                let change = change.transpose()?.unwrap_or_default();
                if let Some(reason) = change.stop_reason.some() {
                    sink.about.reason = Some(reason.to_owned());
                }
                if let Some(usage) = said.usage {
                    self.used(usage.get(), sink);
                }
            }
            "message_stop" => {
                sink.about.over = true;
                let cut = sink.is_cut();
                for open in self.open.drain(..) {
                    // A call without a stop event is not complete.
                    let cut = cut && open.kind == GrowingBlockKind::Call;
                    let (block, may_be_cut) = open.into_block();
                    sink.give(if cut { block.cut() } else { block }, may_be_cut);
                }
            }
            "error" => {
                let error = said.error.map(|error| answer_usage::error(error.get()));
                sink.about.error = Some(error.unwrap_or_else(|| "error".to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Handles the start of the message. Content it already has becomes blocks.
    fn message(
        &mut self,
        message: Option<&RawValue>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        let message = OrderedFields::read(message.map_or("{}", RawValue::get));
        sink.about.named_by(&message);
        if let Some(usage) = message.get("usage") {
            self.used(usage, sink);
        }
        let content = message.get("content").unwrap_or("[]");
        let blocks: Vec<&RawValue> = serde_json::from_str(content).unwrap_or_default();
        for (index, block) in (0..).zip(blocks) {
            self.start(index, block.get(), sink)?;
            self.stop(index, sink);
        }
        Ok(())
    }

    fn used(&mut self, usage: &str, sink: &mut AnswerSink<'_>) {
        if usage.starts_with('{') {
            self.usage.update(usage);
            sink.about.usage = Some(self.usage.to_usage());
        }
    }

    fn start(
        &mut self,
        index: i64,
        block: &str,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        // A block with the index of another ends the other.
        self.stop(index, sink);
        sink.begins();
        sink.budget.block()?;
        sink.budget.keep(block.len())?;
        let open = AnthropicBlock::new(index, block);
        match open.kind {
            GrowingBlockKind::Call => {
                let calls =
                    self.open.iter().filter(|open| open.kind == GrowingBlockKind::Call).count();
                sink.budget.call(calls)?;
                (sink.tell)(StreamDelta::CallStarted { id: &open.id, name: &open.name });
            }
            GrowingBlockKind::Text => {
                tell_some(&open, "text", |text| StreamDelta::Text(text), sink)
            }
            GrowingBlockKind::Thinking => {
                tell_some(&open, "thinking", |text| StreamDelta::Thinking(text), sink)
            }
            GrowingBlockKind::Other => {}
        }
        self.open.push(open);
        Ok(())
    }

    fn stop(&mut self, index: i64, sink: &mut AnswerSink<'_>) {
        if let Some(place) = self.open.iter().position(|open| open.index == index) {
            let (block, may_be_cut) = self.open.remove(place).into_block();
            sink.give(block, may_be_cut);
        }
    }

    fn grow(
        &mut self,
        index: i64,
        raw: &RawValue,
        event: SseEvent<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        let delta: AnthropicDelta<'_> = parse_part(raw, event)?;
        let kind = delta.kind.or_empty();
        let Some(open) = self.open.iter_mut().find(|open| open.index == index) else {
            let block = match kind {
                "text_delta" => r#"{"type":"text"}"#,
                "thinking_delta" => r#"{"type":"thinking"}"#,
                _ => return Ok(()),
            };
            self.start(index, block, sink)?;
            return self.grow(index, raw, event, sink);
        };
        let grown = match kind {
            "text_delta" => Some(("text", &delta.text)),
            "thinking_delta" => Some(("thinking", &delta.thinking)),
            "signature_delta" => Some(("signature", &delta.signature)),
            _ => None,
        };
        if let Some((field, text)) = grown {
            let Some(text) = text.some() else { return Ok(()) };
            sink.budget.keep(text.len())?;
            open.block.append(field, text);
            match kind {
                "text_delta" => (sink.tell)(StreamDelta::Text(text)),
                "thinking_delta" => (sink.tell)(StreamDelta::Thinking(text)),
                _ => {}
            }
            return Ok(());
        }
        match kind {
            "input_json_delta" => {
                let Some(text) = delta.partial_json.some() else { return Ok(()) };
                sink.budget.keep(text.len())?;
                open.json.push_str(text);
                if open.kind == GrowingBlockKind::Call {
                    (sink.tell)(StreamDelta::CallArguments { id: &open.id, text });
                }
                Ok(())
            }
            "citations_delta" => {
                let Some(citation) = delta.citation else { return Ok(()) };
                sink.budget.keep(citation.get().len())?;
                open.block.add("citations", citation.get());
                Ok(())
            }
            _ => open.grow_unknown(raw.get(), sink),
        }
    }

    pub(super) fn unfinished(self) -> Vec<StreamedBlock> {
        let started = self.open.into_iter().filter(AnthropicBlock::holds_something);
        started.map(|open| open.into_block().0.cut()).collect()
    }
}

/// Reports the text a block starts with.
fn tell_some(
    open: &AnthropicBlock,
    field: &str,
    delta: impl for<'a> Fn(&'a str) -> StreamDelta<'a>,
    sink: &mut AnswerSink<'_>,
) {
    let text = open.block.text(field).unwrap_or_default();
    if !text.is_empty() {
        (sink.tell)(delta(&text));
    }
}

impl AnthropicBlock {
    fn new(index: i64, block: &str) -> Self {
        let fields = OrderedFields::read(block);
        let kind = match fields.text("type").as_deref() {
            Some("text") => GrowingBlockKind::Text,
            Some("thinking") => GrowingBlockKind::Thinking,
            // Tools that the provider runs itself are not for the caller to run.
            Some("tool_use") => GrowingBlockKind::Call,
            _ => GrowingBlockKind::Other,
        };
        let text = |name| fields.text(name).unwrap_or_default();
        let (id, name) = (text("id"), text("name"));
        Self { index, kind, block: GrowingObject::new(&fields), json: String::new(), id, name }
    }

    /// Applies a delta of unknown type.
    fn grow_unknown(&mut self, delta: &str, sink: &mut AnswerSink<'_>) -> Result<(), StreamError> {
        for (name, value) in OrderedFields::read(delta).iter().filter(|(name, _)| *name != "type") {
            sink.budget.keep(name.len() + value.len())?;
            match serde_json::from_str::<String>(value) {
                Ok(text) => self.block.append(name, &text),
                Err(_) => self.block.set(name, value.to_owned()),
            }
        }
        Ok(())
    }

    /// Whether the block has content. A text or reasoning block without any is dropped.
    fn holds_something(&self) -> bool {
        let field = match self.kind {
            GrowingBlockKind::Text => "text",
            GrowingBlockKind::Thinking => "thinking",
            GrowingBlockKind::Call | GrowingBlockKind::Other => return true,
        };
        self.block.has_grown() || self.block.text(field).is_some_and(|text| !text.is_empty())
    }

    /// The block, and whether it is a call that may have been cut off.
    fn into_block(self) -> (StreamedBlock, bool) {
        let mut block = self.block;
        let (mut call, mut may_be_cut) = (None, false);
        if self.kind == GrowingBlockKind::Call || !self.json.is_empty() {
            let started = block.json("input").unwrap_or(Cow::Borrowed("{}"));
            let json = if self.json.trim().is_empty() { &*started } else { &self.json };
            let streamed = input(&self.id, &self.name, json);
            // A call starts with an empty input, which is then streamed.
            let nothing = self.json.trim().is_empty() && started == "{}";
            may_be_cut =
                self.kind == GrowingBlockKind::Call && (nothing || streamed.broken.is_some());
            let input: Cow<'_, str> = match streamed.broken {
                None => streamed.call.arguments.as_str().into(),
                Some(_) => format!(r#"{{"raw":{}}}"#, quoted(&streamed.call.arguments)).into(),
            };
            let input = input.into_owned();
            block.set("input", input);
            call = (self.kind == GrowingBlockKind::Call).then_some(streamed);
        }
        let data = format!(r#"{{"role":"assistant","content":[{}]}}"#, block.to_json());
        (StreamedBlock { data, call, partial: false }, may_be_cut)
    }
}

/// Makes a call of an input, which must be an object.
fn input(id: &str, name: &str, json: &str) -> StreamedCall {
    let mut streamed = arguments::call(id, name, json);
    if streamed.broken.is_none() && !streamed.call.arguments.trim_start().starts_with('{') {
        streamed.broken = Some("the input is not an object".to_owned());
    }
    streamed
}
