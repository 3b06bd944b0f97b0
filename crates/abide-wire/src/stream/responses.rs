//! Answers of OpenAI's Responses: items that are added, grow by deltas and are done.
//!
//! An item that is done is given as it came. Only one that never was is put together from deltas.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{Sink, parse};
use super::arguments;
use super::block::{Block, Delta, StreamedCall};
use super::error::StreamError;
use super::event::Event;
use super::field::{Fields, Text, quoted};
use super::tally;

/// What was read of an answer.
#[derive(Debug, Default)]
pub(super) struct Responses {
    open: Vec<Open>,
    /// The places of the items that are done.
    done: Vec<u64>,
}

/// An item that was added.
#[derive(Debug)]
struct Open {
    index: u64,
    /// As it was added.
    start: String,
    /// The id of the call, when it is one that the caller is to run.
    call: Option<String>,
    parts: Vec<Part>,
}

/// What deltas gave of an item.
#[derive(Debug)]
struct Part {
    kind: Kind,
    index: u64,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Refusal,
    Summary,
    Thought,
    Arguments,
    Input,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Said<'a> {
    #[serde(borrow)]
    r#type: Text<'a>,
    output_index: Option<u64>,
    content_index: Option<u64>,
    summary_index: Option<u64>,
    #[serde(borrow)]
    delta: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    refusal: Text<'a>,
    #[serde(borrow)]
    arguments: Text<'a>,
    #[serde(borrow)]
    input: Text<'a>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    status: Text<'a>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    incomplete_details: Option<Incomplete<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Text<'a>,
}

impl Responses {
    pub(super) fn take(
        &mut self,
        event: Event<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), StreamError> {
        let said: Said<'_> = parse(event)?;
        let name = std::str::from_utf8(event.name).unwrap_or_default();
        let kind = said.r#type.some().unwrap_or(name);
        if let Some((what, step)) = growth(kind) {
            return self.grow(what, step, &said, sink);
        }
        let index = said.output_index.unwrap_or(0);
        match (kind, said.item) {
            ("response.output_item.added", Some(item)) => self.add(index, item.get(), sink),
            ("response.output_item.done", Some(item)) => self.finish_item(index, item.get(), sink),
            ("response.created" | "response.in_progress" | "response.queued", _) => {
                let response = Fields::read(said.response.map_or("{}", RawValue::get));
                sink.about.named_by(&response);
                Ok(())
            }
            ("response.completed" | "response.incomplete" | "response.done", _) => {
                sink.about.over = true;
                self.response(said.response, event, sink)?;
                if kind == "response.incomplete" && sink.about.reason.is_none() {
                    sink.about.reason = Some("incomplete".to_owned());
                }
                Ok(())
            }
            ("response.failed" | "response.cancelled", _) => {
                self.response(said.response, event, sink)?;
                // It says that it failed, even if not why.
                let reason = sink.about.reason.clone();
                let failed = || reason.unwrap_or_else(|| "failed".to_owned());
                sink.about.error.get_or_insert_with(failed);
                Ok(())
            }
            ("error", _) => {
                let error = said.error.map(RawValue::get).filter(|error| tally::is_error(error));
                let whole = std::str::from_utf8(event.data).unwrap_or("error");
                sink.about.error = Some(tally::error(error.unwrap_or(whole)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn add(&mut self, index: u64, item: &str, sink: &mut Sink<'_>) -> Result<(), StreamError> {
        self.open.retain(|open| open.index != index);
        sink.begins();
        sink.budget.block()?;
        sink.budget.keep(item.len())?;
        let call = call(&Fields::read(item));
        if let Some(StreamedCall { call, .. }) = &call {
            let calls = self.open.iter().filter(|open| open.call.is_some()).count();
            sink.budget.call(calls)?;
            (sink.tell)(Delta::CallStarted { id: &call.id, name: &call.name });
        }
        let call = call.map(|streamed| streamed.call.id);
        self.open.push(Open { index, start: item.to_owned(), call, parts: Vec::new() });
        Ok(())
    }

    fn grow(
        &mut self,
        kind: Kind,
        step: Step,
        said: &Said<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), StreamError> {
        let index = said.output_index.unwrap_or(0);
        let text = match (step, kind) {
            (Step::Delta, _) => &said.delta,
            (Step::Done, Kind::Refusal) => &said.refusal,
            (Step::Done, Kind::Arguments) => &said.arguments,
            (Step::Done, Kind::Input) => &said.input,
            (Step::Done, _) => &said.text,
        };
        let Some(text) = text.some() else { return Ok(()) };
        if self.done.contains(&index) {
            return Ok(());
        }
        if !self.open.iter().any(|open| open.index == index) {
            self.add(index, kind.item(), sink)?;
        }
        let Some(open) = self.open.iter_mut().rfind(|open| open.index == index) else {
            return Ok(());
        };
        let place = match kind {
            Kind::Summary => said.summary_index,
            _ => said.content_index,
        };
        let place = place.unwrap_or(0);
        match open.parts.iter_mut().rfind(|part| part.kind == kind && part.index == place) {
            // The whole text again, after its deltas.
            Some(_) if step == Step::Done => return Ok(()),
            Some(part) => {
                sink.budget.keep(text.len())?;
                part.text.push_str(text);
            }
            None => {
                sink.budget.block()?;
                sink.budget.keep(text.len())?;
                open.parts.push(Part { kind, index: place, text: text.to_owned() });
            }
        }
        match (kind, &open.call) {
            (Kind::Text, _) => (sink.tell)(Delta::Text(text)),
            (Kind::Refusal, _) => (sink.tell)(Delta::Refusal(text)),
            (Kind::Summary | Kind::Thought, _) => (sink.tell)(Delta::Thinking(text)),
            (_, Some(id)) => (sink.tell)(Delta::CallArguments { id, text }),
            (_, None) => {}
        }
        Ok(())
    }

    fn finish_item(
        &mut self,
        index: u64,
        item: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), StreamError> {
        if self.done.contains(&index) {
            return Ok(());
        }
        let before = self.open.len();
        let grown = self.open.iter().any(|open| open.index == index && !open.parts.is_empty());
        self.open.retain(|open| open.index != index);
        if self.open.len() == before {
            sink.budget.block()?;
        }
        sink.budget.keep(item.len())?;
        self.done.push(index);
        if !grown {
            tell_whole(item, sink);
        }
        let (block, may_be_cut) = block(item);
        sink.give(block, may_be_cut);
        Ok(())
    }

    /// What the end says of the whole. Items that no event of their own gave are in it too.
    fn response(
        &mut self,
        response: Option<&RawValue>,
        event: Event<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), StreamError> {
        let Some(response) = response else { return Ok(()) };
        let json = response.get();
        let response: Response<'_> = serde_json::from_str(json).map_err(|error| {
            // It lies in the data of the event.
            let before = json.as_ptr().addr().saturating_sub(event.data.as_ptr().addr());
            StreamError::malformed(&error, json.as_bytes(), event.at + before as u64)
        })?;
        sink.about.named(&response.id, &response.model);
        if let Some(usage) = response.usage {
            sink.about.used(usage);
        }
        let incomplete = response.incomplete_details.as_ref().and_then(|of| of.reason.some());
        if let Some(reason) = incomplete.or(response.status.some()) {
            sink.about.reason = Some(reason.to_owned());
        }
        if let Some(error) = response.error.filter(|error| tally::is_error(error.get())) {
            sink.about.error = Some(tally::error(error.get()));
        }
        if sink.about.over {
            for (index, item) in (0..).zip(response.output.unwrap_or_default()) {
                self.finish_item(index, item.get(), sink)?;
            }
        }
        Ok(())
    }

    pub(super) fn unfinished(self) -> Vec<Block> {
        let started = self.open.into_iter().filter(Open::holds_something);
        started.map(Open::into_partial).collect()
    }
}

/// Tells the text of an item that came at once, without deltas.
fn tell_whole(item: &str, sink: &mut Sink<'_>) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Whole<'a> {
        #[serde(borrow)]
        content: Option<Vec<Piece<'a>>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Piece<'a> {
        #[serde(borrow)]
        r#type: Text<'a>,
        #[serde(borrow)]
        text: Text<'a>,
        #[serde(borrow)]
        refusal: Text<'a>,
    }
    let whole: Whole<'_> = serde_json::from_str(item).unwrap_or_default();
    for piece in whole.content.unwrap_or_default() {
        match (piece.r#type.some(), piece.text.some(), piece.refusal.some()) {
            (Some("output_text"), Some(text), _) => (sink.tell)(Delta::Text(text)),
            (Some("refusal"), _, Some(text)) => (sink.tell)(Delta::Refusal(text)),
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Delta,
    Done,
}

/// What an event of this name makes grow.
fn growth(name: &str) -> Option<(Kind, Step)> {
    let (what, step) = name.strip_prefix("response.")?.rsplit_once('.')?;
    let kind = match what {
        "output_text" => Kind::Text,
        "refusal" => Kind::Refusal,
        "reasoning_summary_text" => Kind::Summary,
        "reasoning_text" => Kind::Thought,
        "function_call_arguments" => Kind::Arguments,
        "custom_tool_call_input" => Kind::Input,
        _ => return None,
    };
    match step {
        "delta" => Some((kind, Step::Delta)),
        "done" => Some((kind, Step::Done)),
        _ => None,
    }
}

impl Kind {
    /// The item that has such a part, when it was not told.
    fn item(self) -> &'static str {
        match self {
            Self::Text | Self::Refusal => r#"{"type":"message","role":"assistant"}"#,
            Self::Summary | Self::Thought => r#"{"type":"reasoning"}"#,
            Self::Arguments => r#"{"type":"function_call"}"#,
            Self::Input => r#"{"type":"custom_tool_call"}"#,
        }
    }
}

impl Open {
    /// A message or a thought that holds nothing yet says nothing when it stays so.
    fn holds_something(&self) -> bool {
        !self.parts.is_empty() || self.call.is_some()
    }

    /// The item as far as deltas gave it.
    fn into_partial(mut self) -> Block {
        self.parts.sort_by_key(|part| part.index);
        let mut item = Fields::read(&self.start);
        let list = |wanted: &[Kind]| -> Option<String> {
            let parts = self.parts.iter().filter(|part| wanted.contains(&part.kind));
            let parts: Vec<String> = parts.map(Part::to_json).collect();
            (!parts.is_empty()).then(|| format!("[{}]", parts.join(",")))
        };
        let of = |kind| self.parts.iter().find(|part| part.kind == kind);
        let grown = [
            ("content", list(&[Kind::Text, Kind::Refusal, Kind::Thought])),
            ("summary", list(&[Kind::Summary])),
            ("arguments", of(Kind::Arguments).map(|part| quoted(&part.text))),
            ("input", of(Kind::Input).map(|part| quoted(&part.text))),
        ];
        for (name, json) in grown {
            if let Some(json) = json {
                item.set(name, json);
            }
        }
        if item.get("status").is_some() {
            item.set("status", quoted("incomplete"));
        }
        block(&item.to_json()).0.cut()
    }
}

impl Part {
    fn to_json(&self) -> String {
        let text = quoted(&self.text);
        match self.kind {
            Kind::Text => format!(r#"{{"type":"output_text","text":{text},"annotations":[]}}"#),
            Kind::Refusal => format!(r#"{{"type":"refusal","refusal":{text}}}"#),
            Kind::Summary => format!(r#"{{"type":"summary_text","text":{text}}}"#),
            _ => format!(r#"{{"type":"reasoning_text","text":{text}}}"#),
        }
    }
}

/// An item as the block of an answer, and whether it is a call that may have been cut off: its
/// status does not say that it was not.
fn block(item: &str) -> (Block, bool) {
    let fields = Fields::read(item);
    let is_message = fields.text("role").is_some() && fields.get("content").is_some();
    let kind = fields.text("type").unwrap_or_default();
    let data = if is_message {
        item.to_owned()
    } else {
        let role = if kind.ends_with("_output") { "tool" } else { "assistant" };
        format!(r#"{{"role":"{role}","content":[{item}]}}"#)
    };
    let block = Block { data, call: call(&fields), partial: false };
    match (fields.text("status").as_deref(), &block.call) {
        (Some("incomplete"), Some(_)) => (block.cut(), false),
        (Some("completed"), _) | (_, None) => (block, false),
        (_, Some(streamed)) => {
            let may_be_cut = arguments::may_be_cut(streamed, &given(&fields));
            (block, may_be_cut)
        }
    }
}

/// The call of an item that the caller is to run: one that has a `call_id`. Tools that the provider
/// runs itself have none.
fn call(item: &Fields<'_>) -> Option<StreamedCall> {
    let kind = item.text("type")?;
    let what = kind.strip_suffix("_call")?;
    let id = item.text("call_id")?;
    let name = item.text("name").unwrap_or_else(|| what.to_owned());
    Some(arguments::call(&id, &name, &given(item)))
}

/// The arguments of a call. A custom tool takes text, which is a JSON string here; others take an
/// object.
fn given<'a>(item: &'a Fields<'_>) -> Cow<'a, str> {
    if let Some(text) = item.text("arguments") {
        return text.into();
    }
    let given = ["arguments", "input", "action", "operation"].iter().find_map(|key| item.get(key));
    given.unwrap_or_default().into()
}
