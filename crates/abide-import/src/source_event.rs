//! A record of an agent's file as the event that carries it, and back to the same bytes.

use abide_agents::{ReadRecord, RecordText};
use abide_model::json::{RawJsonFields, write_string};
use abide_model::{
    Event, EventLimits, InputError, Kind, LaneId, MessageForm, NewEvent, Payload, RecordedMessage,
    Seq, SourceRecord, Timestamp,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The most bytes of one event that are not JSON. More of them are several events.
pub(crate) const OTHER_BYTES: usize = 1 << 20;
/// A larger record is kept as bytes: with what is added to it, it would not be an event.
pub(crate) const RECORD_BYTES: usize = 24 << 20;

/// Where a piece of a file stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourcePlace<'a> {
    /// The file, by its name within the session.
    pub(crate) file: &'a str,
    /// Where the piece begins.
    pub(crate) at: u64,
}

/// What a record is carried with.
#[derive(Debug, Clone, Default)]
pub(crate) struct CarriedRecord {
    pub(crate) occurred: Option<Timestamp>,
    pub(crate) lane: Option<LaneId>,
    /// The earlier message that its message replaces.
    pub(crate) replaces: Option<Seq>,
}

/// The event that carries a record as it was understood: its message, or else the record alone.
pub(crate) fn carrier_of_record(
    place: SourcePlace<'_>,
    json: &str,
    blanks: &str,
    read: &ReadRecord,
    carried: CarriedRecord,
) -> Result<NewEvent, InputError> {
    let event = message_event(place, json, blanks, read, carried.replaces)
        .or_else(|| record_event(place, json, blanks, read));
    let event = match event {
        Some(event) => event,
        // It is nested too deep for an event.
        None => bytes_event(place, format!("{json}{blanks}").as_bytes(), None)?,
    };
    Ok(NewEvent { occurred: carried.occurred, lane: carried.lane, ..event })
}

/// The event that carries bytes that are no record. Bytes that are no text are kept in base64, where no
/// secret would be found: `redacted` is a text without secrets that takes their place.
pub(crate) fn bytes_event(
    place: SourcePlace<'_>,
    bytes: &[u8],
    redacted: Option<String>,
) -> Result<NewEvent, InputError> {
    let mut record = SourceRecord {
        file: place.file.to_owned(),
        at: place.at,
        bytes: bytes.len() as u64,
        ..SourceRecord::default()
    };
    match (redacted, std::str::from_utf8(bytes)) {
        (Some(redacted), _) => record.text = Some(redacted),
        (None, Ok(text)) => record.text = Some(text.to_owned()),
        (None, Err(_)) => record.base64 = Some(STANDARD.encode(bytes)),
    }
    Ok(NewEvent::new(Kind::SOURCE_RECORDED, Payload::of(&record)?))
}

/// How many of these bytes one event carries: as many as fit, up to the end of a line, of a word or at
/// least of a character, so that no secret is cut in two.
pub(crate) fn cut_of_other(bytes: &[u8]) -> usize {
    let Some(most) = bytes.get(..OTHER_BYTES).filter(|_| bytes.len() > OTHER_BYTES) else {
        return bytes.len();
    };
    let near = OTHER_BYTES / 2;
    let ends = |is_end: fn(u8) -> bool| {
        let at = most.iter().rposition(|byte| is_end(*byte)).map(|at| at + 1);
        at.filter(|at| *at > near)
    };
    ends(|byte| byte == b'\n')
        .or_else(|| ends(|byte| byte.is_ascii_whitespace()))
        .or_else(|| (near..=OTHER_BYTES).rev().find(|at| begins_character(bytes.get(*at))))
        .unwrap_or(OTHER_BYTES)
}

fn begins_character(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte & 0xC0 != 0x80)
}

/// Marks an event that a record tells of beside its message, so that it can be counted after a crash.
pub(crate) fn derived_event(place: SourcePlace<'_>, event: NewEvent) -> NewEvent {
    let mut mark = String::from("{\"from\":{\"file\":");
    write_string(&mut mark, place.file);
    mark.push_str(&format!(",\"at\":{}}}}}", place.at));
    NewEvent { data: event.data.with_field("abide", &mark), ..event }
}

/// The file and the place of the record that an event carries or was derived from.
pub(crate) fn place_of_event(event: &Event) -> Option<(String, u64)> {
    let data = event.data.as_ref()?;
    if event.kind == Kind::SOURCE_RECORDED {
        return place_of_source(data.as_str());
    }
    let marks = RawJsonFields::of(data.field("abide")?)?;
    place_of_source(marks.get("source").or_else(|| marks.get("from"))?.get())
}

/// The file and the place that the fields of a source name.
pub(crate) fn place_of_source(json: &str) -> Option<(String, u64)> {
    let source = RawJsonFields::of(json)?;
    let at = source.get("at")?.get().parse().ok()?;
    Some((source.decoded("file")?.into_owned(), at))
}

/// The agent's id of the record that an event carries.
pub(crate) fn record_id_of_event(event: &Event) -> Option<String> {
    let source = source_of_event(event)?;
    source.id
}

/// The record that an event carries; `None` if it carries none.
pub(crate) fn source_of_event(event: &Event) -> Option<SourceRecord> {
    let data = event.data.as_ref()?;
    if event.kind == Kind::SOURCE_RECORDED {
        return data.decode().ok();
    }
    if event.kind != Kind::MESSAGE_ADDED {
        return None;
    }
    let marks = RawJsonFields::of(data.field("abide")?)?;
    serde_json::from_str(marks.get("source")?.get()).ok()
}

/// The bytes of the record that an event carries, as they stood in the file.
pub(crate) fn bytes_of_source(event: &Event, source: &SourceRecord) -> Option<Vec<u8>> {
    if let Some(base64) = &source.base64 {
        return STANDARD.decode(base64).ok();
    }
    let blanks = source.text.as_deref().unwrap_or_default();
    let Some(record) = &source.record else { return Some(blanks.as_bytes().to_vec()) };
    let record = record.get();
    let whole = match &source.message {
        None => record.to_owned(),
        Some(field) => {
            let message = RecordedMessage::of(event.data.as_ref()?)?;
            replace_field(record, field, &message.as_it_came())?
        }
    };
    Some(format!("{whole}{blanks}").into_bytes())
}

/// An object with another value for a field that it has once; all other bytes stay.
fn replace_field(object: &str, field: &str, value: &str) -> Option<String> {
    let fields = RawJsonFields::of(object)?;
    if fields.all(field).count() != 1 {
        return None;
    }
    let old = fields.any(field)?.get();
    let start = (old.as_ptr() as usize).checked_sub(object.as_ptr() as usize)?;
    let (before, after) = (object.get(..start)?, object.get(start + old.len()..)?);
    Some(format!("{before}{value}{after}"))
}

fn limits() -> EventLimits {
    EventLimits::default()
}

/// The message of a record, with the rest of the record in its mark.
fn message_event(
    place: SourcePlace<'_>,
    json: &str,
    blanks: &str,
    read: &ReadRecord,
    replaces: Option<Seq>,
) -> Option<NewEvent> {
    let message = read.message.as_ref()?;
    let (body, form, field) = match &message.text {
        RecordText::Verbatim { field, form } => {
            let fields = RawJsonFields::of(json)?;
            let value = fields.get(field)?.get();
            let inner = RawJsonFields::of(value)?;
            let speaks = inner.decoded("role").is_some() && inner.any("content").is_some();
            if !speaks || inner.any("abide").is_some() {
                return None;
            }
            (value.strip_suffix('}')?.to_owned(), Some(*form), Some(*field))
        }
        RecordText::Item { field, role } => {
            let fields = RawJsonFields::of(json)?;
            let item = fields.get(field)?.get();
            RawJsonFields::of(item)?;
            let mut body = String::with_capacity(item.len() + 64);
            body.push_str("{\"role\":");
            write_string(&mut body, role);
            body.push_str(",\"content\":[");
            body.push_str(item);
            body.push(']');
            (body, Some(MessageForm::Responses), Some(*field))
        }
        RecordText::Made(data) => {
            let fields = RawJsonFields::of(data)?;
            if fields.names().next().is_none() || fields.any("abide").is_some() {
                return None;
            }
            (data.trim_end().strip_suffix('}')?.to_owned(), None, None)
        }
    };
    let mut data = body;
    data.push_str(",\"abide\":{");
    if let Some(form) = form {
        data.push_str(&format!("\"form\":\"{}\",", form.name()));
    }
    if let Some(answer) = &message.answer {
        data.push_str("\"answer\":");
        write_string(&mut data, answer);
        data.push(',');
    }
    if let Some(replaces) = replaces {
        data.push_str(&format!("\"replaces\":{},", replaces.0));
    }
    let record = match field {
        Some(field) => replace_field(json, field, "null")?,
        None => json.to_owned(),
    };
    data.push_str("\"source\":");
    write_source(&mut data, place, &record, blanks, json.len(), read, field);
    data.push_str("}}");
    let event = NewEvent::new(Kind::MESSAGE_ADDED, Payload::new(&data, &limits()).ok()?);
    Some(event)
}

fn record_event(
    place: SourcePlace<'_>,
    json: &str,
    blanks: &str,
    read: &ReadRecord,
) -> Option<NewEvent> {
    let mut data = String::with_capacity(json.len() + 128);
    write_source(&mut data, place, json, blanks, json.len(), read, None);
    Some(NewEvent::new(Kind::SOURCE_RECORDED, Payload::new(&data, &limits()).ok()?))
}

/// Writes a [`SourceRecord`] without taking the record apart.
fn write_source(
    out: &mut String,
    place: SourcePlace<'_>,
    record: &str,
    blanks: &str,
    length: usize,
    read: &ReadRecord,
    message: Option<&str>,
) {
    out.push_str("{\"file\":");
    write_string(out, place.file);
    out.push_str(&format!(",\"at\":{},\"bytes\":{}", place.at, length + blanks.len()));
    let texts = [
        ("sort", Some(read.sort.as_str()).filter(|sort| !sort.is_empty())),
        ("id", read.id.as_deref()),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            out.push_str(&format!(",\"{name}\":"));
            write_string(out, value);
        }
    }
    out.push_str(",\"record\":");
    out.push_str(record);
    if let Some(message) = message {
        out.push_str(",\"message\":");
        write_string(out, message);
    }
    if !blanks.is_empty() {
        out.push_str(",\"text\":");
        write_string(out, blanks);
    }
    out.push('}');
}
