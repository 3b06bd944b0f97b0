//! Lines as messages of every form: what is recorded comes back, and whatever it is can be read and
//! rendered. And lines as events: messages, and calls that no message holds, make a context.

use std::collections::HashSet;
use std::sync::Arc;

use abide_model::{
    CallId, Context, ContextBuilder, ContextEntry, Event, EventLimits, Kind, NewEvent, Payload,
    RecordedMessage, RecordedResult, Seq, SessionState, Timestamp,
};
use abide_wire::{
    MessageForm, MessagePart, ReadMessage, export, export_called, export_finished, read_call,
    record, render,
};
use serde_json::Value;

const FORMS: [MessageForm; 4] =
    [MessageForm::Abide, MessageForm::Anthropic, MessageForm::OpenAi, MessageForm::Responses];

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let mut entries = Vec::new();
    for line in text.lines() {
        for form in FORMS {
            if let Ok(recorded) = record(form, line)
                && let Ok(data) = Payload::new(&recorded, &EventLimits::default())
            {
                let out = export(form, &data).unwrap_or_else(|why| panic!("{why}: {line}"));
                assert_eq!(out.len(), 1);
                // Between tokens a carriage return becomes a space.
                assert_eq!(out[0].get(), line.trim().replace('\r', " "));
                look(&data, &mut entries);
            }
        }
        // What nobody took in by a form, with marks of any sort.
        if let Ok(data) = Payload::new(line, &EventLimits::default()) {
            look(&data, &mut entries);
        }
    }
    let is_accepted = !entries.is_empty();
    send(text, &Context { entries, ..Context::default() });
    let told = told(text);
    assert_each_call_once(&told);
    send(text, &told);
    is_accepted
}

/// Renders a context for every API.
fn send(text: &str, context: &Context) {
    for form in FORMS {
        let rendered = render(form, context);
        let json = rendered.to_json();
        assert!(serde_json::from_str::<&serde_json::value::RawValue>(&json).is_ok());
        assert!(!json.contains("\"abide\":{\"form\"") || text.contains("abide"));
        // What is JSON may still be deeper, or have larger numbers, than a value can hold.
        if let Ok(request) = serde_json::from_str::<Value>(&json) {
            pair_up(form, &request);
        }
    }
}

/// The most lines that a context is made of.
const LINES: usize = 64;

/// The context of the events that the lines are, or the data of.
fn told(text: &str) -> Context {
    let mut state = SessionState::default();
    let mut events: Vec<Event> = Vec::new();
    for new in text.lines().filter_map(event).take(LINES) {
        let seq = state.core.seq.next();
        let event = new.into_event(seq, Timestamp::from_millis(1_763_169_600_000));
        state.apply(&event);
        events.push(event);
    }
    let core = &state.core;
    let mut builder = ContextBuilder::new(None, &core.main, &core.lineage, core.seq);
    for (first, last) in builder.ranges().to_vec() {
        let within = |event: &&Event| event.seq >= first && event.seq <= last;
        events.iter().filter(within).for_each(|event| builder.event(event.clone()));
    }
    let reading = builder.finish();
    let waiting = reading.pending();
    let context = reading.build();
    let unknown =
        context.entries.iter().filter(|entry| matches!(entry, ContextEntry::Unknown { .. }));
    assert!(waiting.len() <= unknown.count(), "a call waits that is not shown");
    context
}

/// The event that a line is, or that has it as its data: a message, a call or a result by its looks.
fn event(line: &str) -> Option<NewEvent> {
    if let Ok(event) = NewEvent::parse(line) {
        // A rewind is more than an event to apply.
        return Some(event).filter(|event| event.kind != Kind::SESSION_REWOUND);
    }
    let data = Payload::new(line, &EventLimits::default()).ok()?;
    let kind = match (data.field("call"), data.field("name")) {
        (Some(_), Some(_)) => Kind::TOOL_CALLED,
        (Some(_), None) => Kind::TOOL_FINISHED,
        (None, _) => Kind::MESSAGE_ADDED,
    };
    Some(NewEvent::new(kind, data))
}

/// A call that no message holds has its one outcome, right behind it, and is there once.
fn assert_each_call_once(context: &Context) {
    let mut seen = HashSet::new();
    let mut entries = context.entries.iter().peekable();
    while let Some(entry) = entries.next() {
        let ContextEntry::Call { seq, call, .. } = entry else { continue };
        assert!(seen.insert(*seq), "{call} is shown twice");
        let outcome = match entries.next() {
            Some(ContextEntry::Result { call, .. } | ContextEntry::Unknown { call, .. }) => {
                Some(call)
            }
            _ => None,
        };
        assert_eq!(outcome, Some(call));
        assert!(!entries.peek().is_some_and(|next| next.is_outcome()), "{call} has two outcomes");
    }
}

/// The elements of a list; none of what is no list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Each call that goes out has one result, right behind it, and no result is of anything else.
fn pair_up(form: MessageForm, request: &Value) {
    let mut waiting: Vec<&Value> = Vec::new();
    let settle = |waiting: &mut Vec<&Value>, id: &Value| {
        let place = waiting.iter().position(|one| *one == id);
        waiting.remove(place.unwrap_or_else(|| panic!("a result of no call: {id}")));
    };
    match form {
        MessageForm::Abide => {}
        MessageForm::OpenAi => {
            for message in list(&request["messages"]) {
                if message["role"] == "tool" {
                    settle(&mut waiting, &message["tool_call_id"]);
                    continue;
                }
                assert!(waiting.is_empty(), "calls without results: {waiting:?}");
                waiting.extend(list(&message["tool_calls"]).iter().map(|call| &call["id"]));
            }
        }
        MessageForm::Anthropic => {
            for message in list(&request["messages"]) {
                let of = |sort| move |block: &&Value| block["type"] == sort;
                let blocks = || list(&message["content"]).iter();
                blocks()
                    .filter(of("tool_result"))
                    .for_each(|block| settle(&mut waiting, &block["tool_use_id"]));
                assert!(waiting.is_empty(), "calls without results: {waiting:?}");
                waiting.extend(blocks().filter(of("tool_use")).map(|block| &block["id"]));
            }
        }
        MessageForm::Responses => {
            for item in list(&request["input"]) {
                let sort = item["type"].as_str().unwrap_or_default();
                if sort.ends_with("_output") {
                    let id = item.get("call_id").filter(|id| id.is_string());
                    settle(&mut waiting, id.unwrap_or(&item["id"]));
                } else if sort.ends_with("_call") && item["call_id"].is_string() {
                    waiting.push(&item["call_id"]);
                } else if matches!(sort, "" | "message")
                    && item["role"].is_string()
                    && item["role"] != "assistant"
                {
                    assert!(waiting.is_empty(), "calls without results: {waiting:?}");
                }
            }
        }
    }
    assert!(waiting.is_empty(), "calls without results: {waiting:?}");
}

/// Reads and converts data, and makes entries of it: the call that no message holds, perhaps with
/// its result; the message, a result of its first call, and one that is not known of its second.
fn look(data: &Payload, entries: &mut Vec<ContextEntry>) {
    for form in FORMS {
        let _ = export(form, data);
        let _ = export_called(form, data);
        let _ = export_finished(form, data);
    }
    if let Some(call) = read_call(data) {
        let call = CallId(call.id);
        entries.push(ContextEntry::Call { seq: Seq(1), call: call.clone(), data: data.clone() });
        if call.as_str().len().is_multiple_of(2) {
            let result = RecordedResult::Executed(data.clone());
            entries.push(ContextEntry::Result { seq: Seq(2), call, result });
        }
    }
    let Some(message) = RecordedMessage::of(data).map(Arc::new) else { return };
    let said = ReadMessage::from(&*message);
    entries.push(ContextEntry::Message { seq: Seq(1), message: message.clone() });
    let mut calls = said.parts.iter().filter_map(|part| match part {
        MessagePart::Call(call) => Some(CallId(call.id.clone())),
        _ => None,
    });
    if let Some(call) = calls.next() {
        let result = match call.as_str().len() % 2 {
            0 => RecordedResult::Executed(data.clone()),
            _ => RecordedResult::Message(message),
        };
        entries.push(ContextEntry::Result { seq: Seq(2), call, result });
    }
    entries.extend(calls.next().map(|call| ContextEntry::Unknown { call, begun: None }));
}
