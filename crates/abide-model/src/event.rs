//! The event: an immutable fact in its envelope.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::json::{RawJsonFields, parser_reason};
use crate::{
    EventLimits, Fact, FactError, InputError, Kind, LaneId, Payload, Seq, TaskId, Timestamp,
    TurnNumber, UnknownNames, near_names,
};

/// A recorded fact, as it stands in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its sequence number in the session.
    pub seq: Seq,
    /// When it was recorded, by abide's clock. Never decreases within a session.
    pub at: Timestamp,
    /// When it happened, by the caller's clock.
    pub occurred: Option<Timestamp>,
    /// Its kind.
    pub kind: Kind,
    /// The turn it belongs to.
    pub turn: Option<TurnNumber>,
    /// The task it belongs to.
    pub task: Option<TaskId>,
    /// The lane it belongs to; `None` for the main lane.
    pub lane: Option<LaneId>,
    /// The idempotency key.
    pub key: Option<String>,
    /// The data, verbatim. `None` if it was erased.
    pub data: Option<Payload>,
}

impl Event {
    /// When it happened: by the caller's clock, if it says so, but never after it was recorded.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        self.occurred.map_or(self.at, |occurred| occurred.min(self.at))
    }

    /// The data as the typed fact of this kind.
    pub fn fact(&self) -> Result<Fact, FactError> {
        match &self.data {
            Some(data) => Fact::decode(&self.kind, data),
            None => Ok(Fact::Erased),
        }
    }

    /// The event as one line of JSON: `seq`, `at`, `kind`, the optional fields and `data`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out =
            String::with_capacity(128 + self.data.as_ref().map_or(0, |d| d.as_str().len()));
        out.push_str(&format!("{{\"seq\":{},\"at\":\"{}\"", self.seq, self.at));
        self.write_head_fields(&mut out);
        match &self.data {
            Some(data) => {
                out.push_str(",\"data\":");
                out.push_str(data.as_str());
            }
            None => out.push_str(",\"data\":null,\"erased\":true"),
        }
        out.push('}');
        out
    }

    /// Writes the fields of the envelope from `kind` on, each preceded by a comma.
    pub fn write_head_fields(&self, out: &mut String) {
        out.push_str(",\"kind\":\"");
        out.push_str(self.kind.as_str());
        out.push('"');
        if let Some(turn) = self.turn {
            out.push_str(&format!(",\"turn\":{turn}"));
        }
        let named = [
            ("task", self.task.as_ref().map(TaskId::as_str)),
            ("lane", self.lane.as_ref().map(LaneId::as_str)),
            ("key", self.key.as_deref()),
        ];
        for (name, value) in named {
            if let Some(json) = value.and_then(|value| serde_json::to_string(value).ok()) {
                out.push_str(&format!(",\"{name}\":{json}"));
            }
        }
        if let Some(occurred) = self.occurred {
            out.push_str(&format!(",\"occurred\":\"{occurred}\""));
        }
    }
}

/// An event to be recorded. It has no seq and no time yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Its kind.
    pub kind: Kind,
    /// The data.
    pub data: Payload,
    /// When it happened, by the caller's clock.
    pub occurred: Option<Timestamp>,
    /// The turn it belongs to.
    pub turn: Option<TurnNumber>,
    /// The task it belongs to.
    pub task: Option<TaskId>,
    /// The lane it belongs to.
    pub lane: Option<LaneId>,
    /// Idempotency key. If a live event already has this key, nothing is recorded and that event
    /// stands.
    pub key: Option<String>,
}

/// The fields of the JSON form of [`NewEvent`].
const FIELDS: [&str; 7] = ["kind", "data", "key", "occurred", "turn", "task", "lane"];

/// The JSON form of [`NewEvent`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewEventJson<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(borrow, default)]
    occurred: Option<Cow<'a, str>>,
    #[serde(default)]
    turn: Option<TurnNumber>,
    #[serde(borrow, default)]
    task: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    lane: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    key: Option<Cow<'a, str>>,
}

impl NewEvent {
    /// An event with this kind and data and nothing else.
    #[must_use]
    pub const fn new(kind: Kind, data: Payload) -> Self {
        Self { kind, data, occurred: None, turn: None, task: None, lane: None, key: None }
    }

    /// Reads `{"kind":…,"data":{…},"key":…,"occurred":…,"turn":…,"task":…,"lane":…}`.
    pub fn parse(text: &str) -> Result<Self, InputError> {
        Self::parse_within(text, &EventLimits::default())
    }

    /// [`NewEvent::parse`] of bytes that may not be UTF-8.
    pub fn parse_bytes(line: &[u8], limits: &EventLimits) -> Result<Self, InputError> {
        Self::parse_within(utf8(line)?, limits)
    }

    /// [`NewEvent::parse_bytes`], with the names in it that this version does not know, if any.
    pub fn parse_naming(
        line: &[u8],
        limits: &EventLimits,
    ) -> Result<(Self, Option<Box<UnknownNames>>), InputError> {
        let mut unknown = UnknownNames::default();
        let event = Self::read(utf8(line)?, limits, |kind, data| match unknown.note_kind(kind) {
            Some(described) => {
                let note = |name: &str| unknown.note_field(described, name);
                Payload::from_raw_naming(data, limits, note)
            }
            None => Payload::from_raw(data, limits),
        })?;
        let unknown = (!unknown.is_empty()).then(|| Box::new(unknown));
        Ok((event, unknown))
    }

    /// [`NewEvent::parse`] with other limits.
    pub fn parse_within(text: &str, limits: &EventLimits) -> Result<Self, InputError> {
        Self::read(text, limits, |_, data| Payload::from_raw(data, limits))
    }

    /// Reads the envelope, and the data by `payload`.
    fn read(
        text: &str,
        limits: &EventLimits,
        payload: impl FnOnce(&Kind, &RawValue) -> Result<Payload, InputError>,
    ) -> Result<Self, InputError> {
        if text.len() > limits.event_bytes {
            return Err(InputError::TooLarge { limit: limits.event_bytes });
        }
        // serde would read a list as the fields in their order.
        if !text.trim_ascii_start().starts_with('{') {
            return Err(no_object_error(text));
        }
        let wire: NewEventJson<'_> =
            serde_json::from_str(text).map_err(|error| envelope_error(text, &error))?;
        let kind = Kind::new(&wire.kind)
            .ok_or_else(|| InputError::BadKind { kind: wire.kind.chars().take(80).collect() })?;
        let name = |field, value: Option<Cow<'_, str>>| match value {
            Some(value) if value.is_empty() || value.len() > limits.name_bytes => {
                Err(InputError::BadName { field, limit: limits.name_bytes })
            }
            value => Ok(value.map(Cow::into_owned)),
        };
        let data = payload(&kind, wire.data)?;
        Ok(Self {
            kind,
            data,
            occurred: wire
                .occurred
                .map(|text| text.parse().map_err(InputError::BadTime))
                .transpose()?,
            turn: wire.turn,
            task: name("task", wire.task)?.map(TaskId),
            lane: name("lane", wire.lane)?.map(LaneId),
            key: name("key", wire.key)?,
        })
    }

    /// The event as [`NewEvent::parse`] reads it, on one line.
    #[must_use]
    pub fn to_json(&self) -> String {
        let event = self.clone().into_event(Seq::ZERO, Timestamp::default());
        let mut out = String::with_capacity(96 + self.data.as_str().len());
        event.write_head_fields(&mut out);
        // Every field starts with a comma; the first comma becomes the brace.
        out.replace_range(..1, "{");
        out.push_str(",\"data\":");
        out.push_str(self.data.as_str());
        out.push('}');
        out
    }

    /// With an idempotency key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// In a turn.
    #[must_use]
    pub const fn in_turn(mut self, turn: TurnNumber) -> Self {
        self.turn = Some(turn);
        self
    }

    /// For a task.
    #[must_use]
    pub fn for_task(mut self, task: impl Into<TaskId>) -> Self {
        self.task = Some(task.into());
        self
    }

    /// In a lane.
    #[must_use]
    pub fn in_lane(mut self, lane: impl Into<LaneId>) -> Self {
        self.lane = Some(lane.into());
        self
    }

    /// Checks the limits for an event that was not parsed.
    pub fn check(&self, limits: &EventLimits) -> Result<(), InputError> {
        if self.data.as_str().len() > limits.event_bytes {
            return Err(InputError::TooLarge { limit: limits.event_bytes });
        }
        let names = [
            ("task", self.task.as_ref().map(TaskId::as_str)),
            ("lane", self.lane.as_ref().map(LaneId::as_str)),
            ("key", self.key.as_deref()),
        ];
        for (field, value) in names {
            if value.is_some_and(|value| value.is_empty() || value.len() > limits.name_bytes) {
                return Err(InputError::BadName { field, limit: limits.name_bytes });
            }
        }
        Ok(())
    }

    /// The event with this seq and time.
    #[must_use]
    pub fn into_event(self, seq: Seq, at: Timestamp) -> Event {
        Event {
            seq,
            at,
            occurred: self.occurred,
            kind: self.kind,
            turn: self.turn,
            task: self.task,
            lane: self.lane,
            key: self.key,
            data: Some(self.data),
        }
    }
}

fn utf8(line: &[u8]) -> Result<&str, InputError> {
    std::str::from_utf8(line).map_err(|error| InputError::NotUtf8 { at: error.valid_up_to() })
}

/// Why a line is no event.
#[cold]
fn envelope_error(text: &str, error: &serde_json::Error) -> InputError {
    match RawJsonFields::of(text) {
        Some(fields) => InputError::NotAnEvent { reason: envelope_reason(&fields, error) },
        None => no_object_error(text),
    }
}

/// Why a line is no object. What is not JSON at all is told in the parser's words.
#[cold]
fn no_object_error(text: &str) -> InputError {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => InputError::NotAnEvent { reason: "an event is a JSON object".to_owned() },
        Err(error) => InputError::NotJson { reason: parser_reason(&error) },
    }
}

/// Which field of the envelope is missing, unknown or of the wrong type.
fn envelope_reason(fields: &RawJsonFields<'_>, error: &serde_json::Error) -> String {
    for (name, value) in fields.entries() {
        if fields.all(name).count() > 1 {
            return format!("`{name}`: given twice");
        }
        let value = value.get();
        let is_text = value.starts_with('"');
        let wanted = match name {
            "kind" if !is_text => "a string",
            "occurred" if !is_text && value != "null" => "an RFC 3339 time in a string",
            "task" | "lane" | "key" if !is_text && value != "null" => "a string",
            "turn" if value != "null" && value.parse::<u64>().is_err() => "a whole number",
            "kind" | "data" | "occurred" | "task" | "lane" | "key" | "turn" => continue,
            _ => {
                let near = near_names(name, FIELDS)
                    .first()
                    .map(|near| format!(", did you mean `{near}`?"));
                return format!("`{name}`: no such field{}", near.unwrap_or_default());
            }
        };
        let value: String = value.chars().take(40).collect();
        return format!("`{name}`: expected {wanted}, not {value}");
    }
    let missing = ["kind", "data"].into_iter().find(|name| fields.any(name).is_none());
    missing.map_or_else(|| parser_reason(error), |name| format!("`{name}`: missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_and_written_verbatim() {
        let text = r#"{"kind":"x.y","data":{"n":123456789012345678901234567890,"n":1},"key":"k","occurred":"2026-01-02T03:04:05+01:00","lane":"a\"b"}"#;
        let event = NewEvent::parse(text).unwrap().into_event(Seq(7), Timestamp::from_millis(0));
        assert_eq!(
            event.to_json(),
            r#"{"seq":7,"at":"1970-01-01T00:00:00.000Z","kind":"x.y","lane":"a\"b","key":"k","occurred":"2026-01-02T02:04:05.000Z","data":{"n":123456789012345678901234567890,"n":1}}"#
        );
    }

    #[test]
    fn a_new_event_is_written_as_it_is_read() {
        for text in [
            r#"{"kind":"x.y","data":{}}"#,
            r#"{"kind":"x.y","turn":3,"task":"a\"\b","lane":"\u0001\u2028","key":"k","occurred":"2026-01-02T03:04:05.678Z","data":{"n":1e400, "n": [ ]}}"#,
        ] {
            let event = NewEvent::parse(text).unwrap();
            let written = event.to_json();
            assert!(!written.contains('\n'));
            assert_eq!(NewEvent::parse(&written).unwrap(), event, "{written}");
        }
    }

    #[test]
    fn what_is_not_an_event_is_refused_with_its_reason() {
        let code = |text: &str| NewEvent::parse(text).unwrap_err().code();
        assert_eq!(code("{"), "not_json");
        for text in [
            "[]",
            "5",
            r#""kind""#,
            r#"["a",{},null,null,null,null,null]"#,
            "{}",
            r#"{"kind":"a"}"#,
            r#"{"kind":"a","kind":"b","data":{}}"#,
            r#"{"kind":"a","data":{},"seq":1}"#,
            r#"{"kind":"a","data":{},"turn":-1}"#,
        ] {
            assert_eq!(code(text), "not_an_event", "{text}");
        }
        assert_eq!(code(r#"{"kind":"A","data":{}}"#), "bad_kind");
        assert_eq!(code(r#"{"kind":"a","data":[]}"#), "not_an_object");
        assert_eq!(code(r#"{"kind":"a","data":{},"key":""}"#), "bad_name");
        assert_eq!(code(r#"{"kind":"a","data":{},"occurred":"yesterday"}"#), "bad_time");
        let told = |text: &str| NewEvent::parse(text).unwrap_err().to_string();
        assert_eq!(told("[]"), "invalid event: an event is a JSON object");
        assert_eq!(told("{"), "invalid JSON: EOF while parsing an object at column 1");
        assert_eq!(
            told(r#"{"kind":"a","data":{},"truns":1}"#),
            "invalid event: `truns`: no such field, did you mean `turn`?"
        );
        let bytes = b"{\"kind\":\"a\xff\",\"data\":{}}";
        assert_eq!(
            NewEvent::parse_bytes(bytes, &EventLimits::default()).unwrap_err().code(),
            "not_utf8"
        );
        let small = EventLimits { event_bytes: 10, ..EventLimits::default() };
        assert_eq!(
            NewEvent::parse_within(r#"{"kind":"a","data":{}}"#, &small).unwrap_err().code(),
            "too_large"
        );
    }
}
