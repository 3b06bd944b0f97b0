//! Fields of records, read within limits, and the events that they become. Names no agent.

use std::collections::VecDeque;

use abide_model::{
    FileOp, FileTouch, NewEvent, Timestamp, ToolCall, ToolResult, Usage, UsageRecord,
};
use abide_wire::json::RawJsonFields;

/// The most bytes of an id or of the name of a sort.
pub(crate) const ID: usize = 160;
/// The most bytes of a path.
pub(crate) const PATH: usize = 4096;

/// A string field that is not empty and has at most so many bytes.
pub(crate) fn text_within(fields: &RawJsonFields<'_>, name: &str, most: usize) -> Option<String> {
    let text = fields.decoded(name)?;
    (!text.is_empty() && text.len() <= most).then(|| text.into_owned())
}

/// An id.
pub(crate) fn id_field(fields: &RawJsonFields<'_>, name: &str) -> Option<String> {
    text_within(fields, name, ID)
}

/// A field that is an object.
pub(crate) fn object_field<'a>(
    fields: &RawJsonFields<'a>,
    name: &str,
) -> Option<RawJsonFields<'a>> {
    RawJsonFields::of(fields.get(name)?.get())
}

/// A point in time in RFC 3339.
pub(crate) fn time_field(fields: &RawJsonFields<'_>, name: &str) -> Option<Timestamp> {
    let text = fields.decoded(name).filter(|text| text.len() <= 64)?;
    Timestamp::from_ascii(text.as_bytes()).or_else(|| text.parse().ok())
}

/// A file was read or changed.
pub(crate) fn touched_event(path: String, op: FileOp, to: Option<String>) -> Option<NewEvent> {
    FileTouch { path, op, to, before: None, after: None }.try_into().ok()
}

/// A call was made, of which a message holds the arguments, and has ended.
pub(crate) fn ended_call_events(name: &str, result: ToolResult) -> Vec<NewEvent> {
    let called = ToolCall { observed: true, ..ToolCall::new(result.call.clone(), name) };
    [NewEvent::try_from(called), NewEvent::try_from(result)].into_iter().flatten().collect()
}

/// Tokens were used; `None` where none were.
pub(crate) fn usage_event(id: String, model: Option<String>, usage: Usage) -> Option<NewEvent> {
    if usage == Usage::default() {
        return None;
    }
    UsageRecord { id: Some(id), model, usage }.try_into().ok()
}

/// Adds an entry to a memory that keeps the last so many. Tells whether one was dropped.
pub(crate) fn push_within<T>(memory: &mut VecDeque<T>, entry: T, most: usize) -> bool {
    memory.push_back(entry);
    let full = memory.len() > most;
    if full {
        memory.pop_front();
    }
    full
}
