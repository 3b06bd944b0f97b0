//! Parses answers of OpenAI's Responses: items that are added, grow by deltas and are done.
//!
//! A done item is emitted as it came. Only an item that was never done is assembled from deltas.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::answer_parser::{AnswerSink, parse, parse_part};
use super::answer_usage;
use super::arguments;
use super::block::{StreamDelta, StreamedBlock, StreamedCall};
use super::error::StreamError;
use super::field::{FieldText, Number, OrderedFields, object, quoted};
use super::sse_event_reader::SseEvent;

/// The state of an answer being parsed.
#[derive(Debug, Default)]
pub(super) struct ResponsesParser {
    open: Vec<OpenResponseItem>,
    /// The items that are done.
    done: Vec<ResponseItemIdentity>,
}

/// An item that was added.
#[derive(Debug)]
struct OpenResponseItem {
    known: ResponseItemIdentity,
    /// Its JSON when it was added.
    start: String,
    /// The id of the call, if the caller must run it.
    call: Option<String>,
    parts: Vec<ResponseItemPart>,
}

/// A part of an item, collected from deltas.
#[derive(Debug)]
struct ResponseItemPart {
    kind: ResponseItemPartKind,
    index: i64,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseItemPartKind {
    Text,
    Refusal,
    Summary,
    Thought,
    Arguments,
    Input,
}

object! {
    struct ResponsesEvent<'a> {
        kind = "type": FieldText<'a>,
        item_id = "item_id": FieldText<'a>,
        output_index = "output_index": Number,
        content_index = "content_index": Number,
        summary_index = "summary_index": Number,
        delta = "delta": FieldText<'a>,
        text = "text": FieldText<'a>,
        refusal = "refusal": FieldText<'a>,
        arguments = "arguments": FieldText<'a>,
        input = "input": FieldText<'a>,
        item = "item": Option<&'a RawValue>,
        response = "response": Option<&'a RawValue>,
        error = "error": Option<&'a RawValue>,
    }
}

object! {
    struct ResponseObject<'a> {
        id = "id": FieldText<'a>,
        model = "model": FieldText<'a>,
        status = "status": FieldText<'a>,
        usage = "usage": Option<&'a RawValue>,
        incomplete_details = "incomplete_details": Option<IncompleteDetails<'a>>,
        error = "error": Option<&'a RawValue>,
        output = "output": Option<Vec<&'a RawValue>>,
    }
}

object! {
    struct IncompleteDetails<'a> {
        reason = "reason": FieldText<'a>,
    }
}

object! {
    struct ItemContent<'a> {
        content = "content": Option<Vec<ItemContentPart<'a>>>,
    }
}

object! {
    struct ItemContentPart<'a> {
        kind = "type": FieldText<'a>,
        text = "text": FieldText<'a>,
        refusal = "refusal": FieldText<'a>,
    }
}

impl ResponsesParser {
    pub(super) fn take(
        &mut self,
        event: SseEvent<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        let said: ResponsesEvent<'_> = parse(event)?;
        let name = std::str::from_utf8(event.name).unwrap_or_default();
        let kind = said.kind.some().unwrap_or(name);
        if let Some((what, step)) = growth(kind) {
            return self.grow(what, step, &said, sink);
        }
        let index = said.output_index.0;
        match (kind, said.item) {
            ("response.output_item.added", Some(item)) => {
                self.add(ResponseItemIdentity::of(index, item.get()), item.get(), sink)
            }
            ("response.output_item.done", Some(item)) => {
                self.finish_item(ResponseItemIdentity::of(index, item.get()), item.get(), sink)
            }
            ("response.created" | "response.in_progress" | "response.queued", _) => {
                let response = OrderedFields::read(said.response.map_or("{}", RawValue::get));
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
                // It failed, even if no reason is given.
                let reason = sink.about.reason.clone();
                let failed = || reason.unwrap_or_else(|| "failed".to_owned());
                sink.about.error.get_or_insert_with(failed);
                Ok(())
            }
            ("error", _) => {
                let error =
                    said.error.map(RawValue::get).filter(|error| answer_usage::is_error(error));
                let whole = std::str::from_utf8(event.data).unwrap_or("error");
                sink.about.error = Some(answer_usage::error(error.unwrap_or(whole)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn add(
        &mut self,
        mut known: ResponseItemIdentity,
        item: &str,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        // An item in the place of another: nothing more will come of the other.
        if let Some(place) = self.open.iter().position(|open| known.replaces(&open.known)) {
            let open = self.open.remove(place);
            if open.holds_something() {
                sink.block(open.into_partial());
            }
        }
        known.place = self.place(known.index);
        sink.begins();
        sink.budget.block()?;
        sink.budget.keep(item.len())?;
        let call = call(&OrderedFields::read(item));
        if let Some(StreamedCall { call, .. }) = &call {
            let calls = self.open.iter().filter(|open| open.call.is_some()).count();
            sink.budget.call(calls)?;
            (sink.tell)(StreamDelta::CallStarted { id: &call.id, name: &call.name });
        }
        let call = call.map(|streamed| streamed.call.id);
        self.open.push(OpenResponseItem { known, start: item.to_owned(), call, parts: Vec::new() });
        Ok(())
    }

    /// A unique place for an item: its index, unless another item has it.
    fn place(&self, index: Option<i64>) -> i64 {
        let others = || self.open.iter().map(|open| &open.known).chain(&self.done);
        let free = |index: &i64| others().all(|other| other.place != *index);
        let next = || others().map(|other| other.place.saturating_add(1)).max().unwrap_or(0);
        index.filter(free).unwrap_or_else(next)
    }

    /// The item that an event refers to: by id, by index, or else the last one.
    fn find(&self, id: Option<&str>, index: Option<i64>) -> Option<usize> {
        let by_id = id.and_then(|id| self.open.iter().position(|open| open.known.is_named(id)));
        by_id.or_else(|| match index {
            // Some providers send another id each time.
            Some(_) => self.open.iter().rposition(|open| open.known.index == index),
            None => {
                let last = self.open.len().checked_sub(1)?;
                let unnamed = self.open.get(last)?.known.id.is_none();
                (id.is_none() || unnamed).then_some(last)
            }
        })
    }

    fn grow(
        &mut self,
        kind: ResponseItemPartKind,
        step: GrowthStep,
        said: &ResponsesEvent<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        let text = match (step, kind) {
            (GrowthStep::Delta, _) => &said.delta,
            (GrowthStep::Done, ResponseItemPartKind::Refusal) => &said.refusal,
            (GrowthStep::Done, ResponseItemPartKind::Arguments) => &said.arguments,
            (GrowthStep::Done, ResponseItemPartKind::Input) => &said.input,
            (GrowthStep::Done, _) => &said.text,
        };
        let Some(text) = text.some() else { return Ok(()) };
        let (id, index) = (said.item_id.some(), said.output_index.0);
        let place = match self.find(id, index) {
            Some(place) => place,
            // A late delta.
            None if self.done.iter().any(|done| done.is_about(id, index)) => return Ok(()),
            None => {
                let known = ResponseItemIdentity::of(index, kind.item());
                let known = ResponseItemIdentity { id: id.map(str::to_owned), ..known };
                self.add(known, kind.item(), sink)?;
                self.open.len().saturating_sub(1)
            }
        };
        let Some(open) = self.open.get_mut(place) else { return Ok(()) };
        open.known.lasting |= id.is_some_and(|id| open.known.is_named(id));
        let place = match kind {
            ResponseItemPartKind::Summary => said.summary_index,
            _ => said.content_index,
        };
        let place = place.0.unwrap_or(0);
        match open.parts.iter_mut().rfind(|part| part.kind == kind && part.index == place) {
            // The whole text, repeated after its deltas.
            Some(_) if step == GrowthStep::Done => return Ok(()),
            Some(part) => {
                sink.budget.keep(text.len())?;
                part.text.push_str(text);
            }
            None => {
                sink.budget.block()?;
                sink.budget.keep(text.len())?;
                open.parts.push(ResponseItemPart { kind, index: place, text: text.to_owned() });
            }
        }
        match (kind, &open.call) {
            (ResponseItemPartKind::Text, _) => (sink.tell)(StreamDelta::Text(text)),
            (ResponseItemPartKind::Refusal, _) => (sink.tell)(StreamDelta::Refusal(text)),
            (ResponseItemPartKind::Summary | ResponseItemPartKind::Thought, _) => {
                (sink.tell)(StreamDelta::Thinking(text))
            }
            (_, Some(id)) => (sink.tell)(StreamDelta::CallArguments { id, text }),
            (_, None) => {}
        }
        Ok(())
    }

    fn finish_item(
        &mut self,
        mut known: ResponseItemIdentity,
        item: &str,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        let named = self.open.iter().position(|open| known.is_the_same(&open.known));
        let placed = || self.open.iter().rposition(|open| known.may_be(&open.known));
        let open = match named {
            Some(place) => Some(place),
            None if self.done.iter().any(|done| known.is_the_same(done)) => return Ok(()),
            None => placed(),
        };
        let mut grown = false;
        if let Some(place) = open {
            let open = self.open.remove(place);
            grown = !open.parts.is_empty();
            known.place = open.known.place;
            // Late deltas may use either id.
            known.id = known.id.or(open.known.id);
        } else {
            known.place = self.place(known.index);
            sink.budget.block()?;
        }
        sink.budget.keep(item.len())?;
        self.done.push(known);
        if !grown {
            tell_whole(item, sink);
        }
        let (block, may_be_cut) = block(item);
        sink.give(block, may_be_cut);
        Ok(())
    }

    /// Handles the whole response at the end. It may contain items that had no event of their own.
    fn response(
        &mut self,
        response: Option<&RawValue>,
        event: SseEvent<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        let Some(response) = response else { return Ok(()) };
        let response: ResponseObject<'_> = parse_part(response, event)?;
        sink.about.named(&response.id, &response.model);
        if let Some(usage) = response.usage {
            sink.about.used(usage);
        }
        let incomplete = response.incomplete_details.as_ref().and_then(|of| of.reason.some());
        if let Some(reason) = incomplete.or(response.status.some()) {
            sink.about.reason = Some(reason.to_owned());
        }
        if let Some(error) = response.error.filter(|error| answer_usage::is_error(error.get())) {
            sink.about.error = Some(answer_usage::error(error.get()));
        }
        if sink.about.over {
            self.finish_all(&response.output.unwrap_or_default(), sink)?;
        }
        Ok(())
    }

    /// Emits the items of the whole response that were not emitted yet.
    fn finish_all(
        &mut self,
        items: &[&RawValue],
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), StreamError> {
        let all: Vec<ResponseItemIdentity> = (0..)
            .zip(items)
            .map(|(index, item)| ResponseItemIdentity::of(Some(index), item.get()))
            .collect();
        // Items found in the response by id are not matched by place.
        let mut unnamed = Vec::new();
        for done in &self.done {
            if !all.iter().any(|known| known.is_the_same(done)) {
                unnamed.push((done.place, done.kind.clone()));
            }
        }
        for (known, item) in all.into_iter().zip(items) {
            let placed =
                |(place, kind): &(i64, String)| Some(*place) == known.index && *kind == known.kind;
            if !unnamed.iter().any(placed) {
                self.finish_item(known, item.get(), sink)?;
            }
        }
        Ok(())
    }

    pub(super) fn unfinished(self) -> Vec<StreamedBlock> {
        let started = self.open.into_iter().filter(OpenResponseItem::holds_something);
        started.map(OpenResponseItem::into_partial).collect()
    }
}

/// How an item is identified. Ids come first: some providers send no indexes, or changing ones.
#[derive(Debug, Default)]
struct ResponseItemIdentity {
    id: Option<String>,
    call: Option<String>,
    kind: String,
    /// Its index as sent.
    index: Option<i64>,
    /// Its unique place.
    place: i64,
    /// A later event used the same id, so the id is stable.
    lasting: bool,
}

impl ResponseItemIdentity {
    fn of(index: Option<i64>, item: &str) -> Self {
        let fields = OrderedFields::read(item);
        let name = |name| fields.text(name).filter(|text| !text.is_empty());
        let kind = name("type").unwrap_or_default();
        Self { id: name("id"), call: name("call_id"), kind, index, place: 0, lasting: false }
    }

    fn is_named(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id)
    }

    /// Whether both have the same id or call id.
    fn is_the_same(&self, other: &Self) -> bool {
        let call = || self.call.is_some() && self.call == other.call && self.kind == other.kind;
        (self.id.is_some() && self.id == other.id) || call()
    }

    /// Whether an added item replaces another.
    fn replaces(&self, other: &Self) -> bool {
        let unnamed = self.id.is_none() || other.id.is_none();
        let there = self.index.is_some() && self.index == other.index;
        self.is_the_same(other) || (there && unnamed && !self.has_another_call(other))
    }

    fn has_another_call(&self, other: &Self) -> bool {
        self.call.is_some() && other.call.is_some() && self.call != other.call
    }

    /// Whether a done item may be this open one, judged by its place.
    fn may_be(&self, open: &Self) -> bool {
        let place = match self.index {
            Some(_) => self.index == open.index,
            None => self.id.is_none() || open.id.is_none(),
        };
        let another = open.lasting && self.id.is_some() && self.id != open.id;
        place && !another && open.kind == self.kind && !self.has_another_call(open)
    }

    /// Whether a delta refers to this item.
    fn is_about(&self, id: Option<&str>, index: Option<i64>) -> bool {
        match (id, &self.id) {
            (Some(id), Some(_)) => self.is_named(id),
            _ => index.is_some() && self.index == index,
        }
    }
}

/// Reports the text of an item that came without deltas.
fn tell_whole(item: &str, sink: &mut AnswerSink<'_>) {
    let whole: ItemContent<'_> = serde_json::from_str(item).unwrap_or_default();
    for piece in whole.content.unwrap_or_default() {
        match (piece.kind.some(), piece.text.some(), piece.refusal.some()) {
            (Some("output_text"), Some(text), _) => (sink.tell)(StreamDelta::Text(text)),
            (Some("refusal"), _, Some(text)) => (sink.tell)(StreamDelta::Refusal(text)),
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrowthStep {
    Delta,
    Done,
}

/// The kind of part that an event of this name extends.
fn growth(name: &str) -> Option<(ResponseItemPartKind, GrowthStep)> {
    let (what, step) = name.strip_prefix("response.")?.rsplit_once('.')?;
    let kind = match what {
        "output_text" => ResponseItemPartKind::Text,
        "refusal" => ResponseItemPartKind::Refusal,
        "reasoning_summary_text" => ResponseItemPartKind::Summary,
        "reasoning_text" => ResponseItemPartKind::Thought,
        "function_call_arguments" => ResponseItemPartKind::Arguments,
        "custom_tool_call_input" => ResponseItemPartKind::Input,
        _ => return None,
    };
    match step {
        "delta" => Some((kind, GrowthStep::Delta)),
        "done" => Some((kind, GrowthStep::Done)),
        _ => None,
    }
}

impl ResponseItemPartKind {
    /// The item for such a part if none was announced.
    fn item(self) -> &'static str {
        match self {
            Self::Text | Self::Refusal => r#"{"type":"message","role":"assistant"}"#,
            Self::Summary | Self::Thought => r#"{"type":"reasoning"}"#,
            Self::Arguments => r#"{"type":"function_call"}"#,
            Self::Input => r#"{"type":"custom_tool_call"}"#,
        }
    }
}

impl OpenResponseItem {
    /// Whether the item has content. A message or reasoning without any is dropped.
    fn holds_something(&self) -> bool {
        !self.parts.is_empty() || self.call.is_some()
    }

    /// The item as assembled from deltas, marked partial.
    fn into_partial(mut self) -> StreamedBlock {
        self.parts.sort_by_key(|part| part.index);
        let mut item = OrderedFields::read(&self.start);
        let list = |wanted: &[ResponseItemPartKind]| -> Option<String> {
            let parts = self.parts.iter().filter(|part| wanted.contains(&part.kind));
            let parts: Vec<String> = parts.map(ResponseItemPart::to_json).collect();
            (!parts.is_empty()).then(|| format!("[{}]", parts.join(",")))
        };
        let of = |kind| self.parts.iter().find(|part| part.kind == kind);
        let grown = [
            (
                "content",
                list(&[
                    ResponseItemPartKind::Text,
                    ResponseItemPartKind::Refusal,
                    ResponseItemPartKind::Thought,
                ]),
            ),
            ("summary", list(&[ResponseItemPartKind::Summary])),
            ("arguments", of(ResponseItemPartKind::Arguments).map(|part| quoted(&part.text))),
            ("input", of(ResponseItemPartKind::Input).map(|part| quoted(&part.text))),
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

impl ResponseItemPart {
    fn to_json(&self) -> String {
        let text = quoted(&self.text);
        match self.kind {
            ResponseItemPartKind::Text => {
                format!(r#"{{"type":"output_text","text":{text},"annotations":[]}}"#)
            }
            ResponseItemPartKind::Refusal => format!(r#"{{"type":"refusal","refusal":{text}}}"#),
            ResponseItemPartKind::Summary => format!(r#"{{"type":"summary_text","text":{text}}}"#),
            _ => format!(r#"{{"type":"reasoning_text","text":{text}}}"#),
        }
    }
}

/// An item as a block, and whether it is a call that may have been cut off because its status does
/// not rule that out.
fn block(item: &str) -> (StreamedBlock, bool) {
    let fields = OrderedFields::read(item);
    let is_message = fields.text("role").is_some() && fields.get("content").is_some();
    let kind = fields.text("type").unwrap_or_default();
    let data = if is_message {
        item.to_owned()
    } else {
        let role = if kind.ends_with("_output") { "tool" } else { "assistant" };
        format!(r#"{{"role":"{role}","content":[{item}]}}"#)
    };
    let block = StreamedBlock { data, call: call(&fields), partial: false };
    match (fields.text("status").as_deref(), &block.call) {
        (Some("incomplete"), Some(_)) => (block.cut(), false),
        (Some("completed"), _) | (_, None) => (block, false),
        (_, Some(streamed)) => {
            let may_be_cut = arguments::may_be_cut(streamed, &given(&fields));
            (block, may_be_cut)
        }
    }
}

/// The call in an item, if the caller must run it: it has a `call_id`. Tools that the provider runs
/// itself have none.
fn call(item: &OrderedFields<'_>) -> Option<StreamedCall> {
    let kind = item.text("type")?;
    let what = kind.strip_suffix("_call")?;
    let id = item.text("call_id")?;
    let name = item.text("name").unwrap_or_else(|| what.to_owned());
    Some(arguments::call(&id, &name, &given(item)))
}

/// The arguments of a call. For a custom tool they are text, here as a JSON string; for others an
/// object.
fn given<'a>(item: &'a OrderedFields<'_>) -> Cow<'a, str> {
    if let Some(text) = item.text("arguments") {
        return text.into();
    }
    let given = ["arguments", "input", "action", "operation"].iter().find_map(|key| item.get(key));
    given.unwrap_or_default().into()
}
