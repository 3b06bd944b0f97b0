//! Answers of Anthropic's Messages: blocks that start, grow by deltas and stop, known by an index.
//!
//! A block keeps every field it started with. Deltas of a type that is not known grow the fields
//! that they name: text is appended, anything else is put in place.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{Sink, parse};
use super::arguments;
use super::block::{Block, Delta, StreamedCall};
use super::error::StreamError;
use super::event::Event;
use super::field::{Fields, Text, quoted};
use super::tally::{self, AnthropicUsage};

/// What was read of an answer.
#[derive(Debug, Default)]
pub(super) struct Anthropic {
    open: Vec<Open>,
    usage: AnthropicUsage,
}

/// A block that has started.
#[derive(Debug)]
struct Open {
    index: u64,
    kind: Kind,
    /// As it started.
    start: String,
    /// The fields that deltas changed.
    grown: Vec<(String, Grown)>,
    /// The input, as far as deltas gave it.
    json: String,
    id: String,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Call,
    Other,
}

#[derive(Debug)]
enum Grown {
    Text(String),
    Items(Vec<String>),
    Value(String),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Said<'a> {
    #[serde(borrow)]
    r#type: Text<'a>,
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Change<'a>>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Change<'a> {
    #[serde(borrow)]
    r#type: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    thinking: Text<'a>,
    #[serde(borrow)]
    signature: Text<'a>,
    #[serde(borrow)]
    partial_json: Text<'a>,
    #[serde(borrow)]
    citation: Option<&'a RawValue>,
    #[serde(borrow)]
    stop_reason: Text<'a>,
}

impl Anthropic {
    pub(super) fn take(
        &mut self,
        event: Event<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), StreamError> {
        let said: Said<'_> = parse(event)?;
        let name = std::str::from_utf8(event.name).unwrap_or_default();
        match said.r#type.some().unwrap_or(name) {
            "content_block_delta" => {
                if let Some(delta) = &said.delta {
                    self.grow(said.index.unwrap_or(0), delta, event, sink)?;
                }
            }
            "content_block_start" => {
                let block = said.content_block.map_or("{}", RawValue::get);
                self.start(said.index.unwrap_or(0), block, sink)?;
            }
            "content_block_stop" => self.stop(said.index.unwrap_or(0), sink),
            "message_start" => self.message(said.message, sink)?,
            "message_delta" => {
                if let Some(reason) = said.delta.as_ref().and_then(|of| of.stop_reason.some()) {
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
                    // A call that was never stopped is not over.
                    let cut = cut && open.kind == Kind::Call;
                    let (block, may_be_cut) = open.into_block();
                    sink.give(if cut { block.cut() } else { block }, may_be_cut);
                }
            }
            "error" => {
                let error = said.error.map(|error| tally::error(error.get()));
                sink.about.error = Some(error.unwrap_or_else(|| "error".to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    /// The message begins. What it holds already are blocks of their own.
    fn message(
        &mut self,
        message: Option<&RawValue>,
        sink: &mut Sink<'_>,
    ) -> Result<(), StreamError> {
        let message = Fields::read(message.map_or("{}", RawValue::get));
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

    fn used(&mut self, usage: &str, sink: &mut Sink<'_>) {
        if let Ok(usage) = serde_json::from_str(usage) {
            self.usage.update(&usage);
            sink.about.usage = Some(self.usage.to_usage());
        }
    }

    fn start(&mut self, index: u64, block: &str, sink: &mut Sink<'_>) -> Result<(), StreamError> {
        // A block at the place of another means that the other is over.
        self.stop(index, sink);
        sink.begins();
        sink.budget.block()?;
        sink.budget.keep(block.len())?;
        let open = Open::new(index, block);
        match open.kind {
            Kind::Call => {
                let calls = self.open.iter().filter(|open| open.kind == Kind::Call).count();
                sink.budget.call(calls)?;
                (sink.tell)(Delta::CallStarted { id: &open.id, name: &open.name });
            }
            Kind::Text => tell_some(&open, "text", |text| Delta::Text(text), sink),
            Kind::Thinking => tell_some(&open, "thinking", |text| Delta::Thinking(text), sink),
            Kind::Other => {}
        }
        self.open.push(open);
        Ok(())
    }

    fn stop(&mut self, index: u64, sink: &mut Sink<'_>) {
        if let Some(place) = self.open.iter().position(|open| open.index == index) {
            let (block, may_be_cut) = self.open.remove(place).into_block();
            sink.give(block, may_be_cut);
        }
    }

    fn grow(
        &mut self,
        index: u64,
        delta: &Change<'_>,
        event: Event<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), StreamError> {
        let kind = delta.r#type.or_empty();
        let Some(open) = self.open.iter_mut().find(|open| open.index == index) else {
            let block = match kind {
                "text_delta" => r#"{"type":"text"}"#,
                "thinking_delta" => r#"{"type":"thinking"}"#,
                _ => return Ok(()),
            };
            self.start(index, block, sink)?;
            return self.grow(index, delta, event, sink);
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
            open.append(field, text);
            match kind {
                "text_delta" => (sink.tell)(Delta::Text(text)),
                "thinking_delta" => (sink.tell)(Delta::Thinking(text)),
                _ => {}
            }
            return Ok(());
        }
        match kind {
            "input_json_delta" => {
                let Some(text) = delta.partial_json.some() else { return Ok(()) };
                sink.budget.keep(text.len())?;
                open.json.push_str(text);
                if open.kind == Kind::Call {
                    (sink.tell)(Delta::CallArguments { id: &open.id, text });
                }
                Ok(())
            }
            "citations_delta" => {
                let Some(citation) = delta.citation else { return Ok(()) };
                sink.budget.keep(citation.get().len())?;
                open.cite(citation.get());
                Ok(())
            }
            _ => open.grow_unknown(event, sink),
        }
    }

    pub(super) fn unfinished(self) -> Vec<Block> {
        let started = self.open.into_iter().filter(Open::holds_something);
        started.map(|open| open.into_block().0.cut()).collect()
    }
}

/// Tells what a block starts with.
fn tell_some(
    open: &Open,
    field: &str,
    delta: impl for<'a> Fn(&'a str) -> Delta<'a>,
    sink: &mut Sink<'_>,
) {
    let text = Fields::read(&open.start).text(field).unwrap_or_default();
    if !text.is_empty() {
        (sink.tell)(delta(&text));
    }
}

impl Open {
    fn new(index: u64, block: &str) -> Self {
        let fields = Fields::read(block);
        let kind = match fields.text("type").as_deref() {
            Some("text") => Kind::Text,
            Some("thinking") => Kind::Thinking,
            // Tools that the provider runs itself are not the caller's to run.
            Some("tool_use") => Kind::Call,
            _ => Kind::Other,
        };
        let text = |name| fields.text(name).unwrap_or_default();
        let (id, name) = (text("id"), text("name"));
        let (grown, json) = (Vec::new(), String::new());
        Self { index, kind, start: block.to_owned(), grown, json, id, name }
    }

    /// The text of a field, to be gone on with.
    fn append(&mut self, field: &str, text: &str) {
        let found = self.grown.iter_mut().find(|(name, _)| name == field);
        if let Some((_, grown)) = found {
            match grown {
                Grown::Text(all) => all.push_str(text),
                other => *other = Grown::Text(text.to_owned()),
            }
        } else {
            let mut all = Fields::read(&self.start).text(field).unwrap_or_default();
            all.push_str(text);
            self.grown.push((field.to_owned(), Grown::Text(all)));
        }
    }

    fn cite(&mut self, citation: &str) {
        for (name, grown) in &mut self.grown {
            if let ("citations", Grown::Items(items)) = (name.as_str(), grown) {
                items.push(citation.to_owned());
                return;
            }
        }
        let start = Fields::read(&self.start);
        let before: Option<Vec<&RawValue>> =
            start.get("citations").and_then(|items| serde_json::from_str(items).ok());
        let before = before.into_iter().flatten().map(|item| item.get().to_owned());
        let items = before.chain([citation.to_owned()]).collect();
        self.grown.push(("citations".to_owned(), Grown::Items(items)));
    }

    /// A delta of a type that is not known.
    fn grow_unknown(&mut self, event: Event<'_>, sink: &mut Sink<'_>) -> Result<(), StreamError> {
        #[derive(Deserialize)]
        struct Raw<'a> {
            #[serde(borrow)]
            delta: Fields<'a>,
        }
        let raw: Raw<'_> = parse(event)?;
        for (name, value) in raw.delta.iter().filter(|(name, _)| *name != "type") {
            sink.budget.keep(name.len() + value.len())?;
            if let Ok(text) = serde_json::from_str::<String>(value) {
                self.append(name, &text);
                continue;
            }
            let value = Grown::Value(value.to_owned());
            match self.grown.iter_mut().find(|(grown, _)| grown == name) {
                Some((_, grown)) => *grown = value,
                None => self.grown.push((name.to_owned(), value)),
            }
        }
        Ok(())
    }

    /// A block that has started and holds nothing yet says nothing when it stays so.
    fn holds_something(&self) -> bool {
        let field = match self.kind {
            Kind::Text => "text",
            Kind::Thinking => "thinking",
            Kind::Call | Kind::Other => return true,
        };
        let started = || Fields::read(&self.start).text(field);
        !self.grown.is_empty() || started().is_some_and(|text| !text.is_empty())
    }

    /// The block, and whether it is a call that may have been cut off.
    fn into_block(self) -> (Block, bool) {
        let mut block = Fields::read(&self.start);
        for (name, grown) in &self.grown {
            block.set(
                name,
                match grown {
                    Grown::Text(text) => quoted(text),
                    Grown::Items(items) => format!("[{}]", items.join(",")),
                    Grown::Value(value) => value.clone(),
                },
            );
        }
        let (mut call, mut may_be_cut) = (None, false);
        if self.kind == Kind::Call || !self.json.is_empty() {
            let started = block.get("input").unwrap_or("{}");
            let json = if self.json.trim().is_empty() { started } else { &self.json };
            let streamed = input(&self.id, &self.name, json);
            // What a call starts with is nothing: its input is streamed.
            let nothing = self.json.trim().is_empty() && started == "{}";
            may_be_cut = self.kind == Kind::Call && (nothing || streamed.broken.is_some());
            let input: Cow<'_, str> = match streamed.broken {
                None => streamed.call.arguments.as_str().into(),
                Some(_) => format!(r#"{{"raw":{}}}"#, quoted(&streamed.call.arguments)).into(),
            };
            let input = input.into_owned();
            block.set("input", input);
            call = (self.kind == Kind::Call).then_some(streamed);
        }
        let data = format!(r#"{{"role":"assistant","content":[{}]}}"#, block.to_json());
        (Block { data, call, partial: false }, may_be_cut)
    }
}

/// The call of an input, which must be an object.
fn input(id: &str, name: &str, json: &str) -> StreamedCall {
    let mut streamed = arguments::call(id, name, json);
    if streamed.broken.is_none() && !streamed.call.arguments.trim_start().starts_with('{') {
        streamed.broken = Some("the input is not an object".to_owned());
    }
    streamed
}
