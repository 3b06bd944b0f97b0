//! An event in a transcript: its texts, indented, and further on its stamp.
//!
//! ```text
//! User:
//!     The parser drops the last line.
//!
//! @3 2026-11-15T01:20:00.123Z message.added {"role":"user","content":<text>}
//! ```
//!
//! The stamp is the event without its texts. Each text is replaced by a mark that says how it
//! becomes a JSON string again, byte for byte. The marks of all stamps and the runs of indented
//! lines are in the same order. `<` does not occur in JSON outside strings, so a mark is unambiguous.

use std::collections::VecDeque;
use std::fmt::Write;

use abide_model::{
    Event, EventLimits, Kind, LaneId, Payload, Seq, TaskId, Timestamp, TurnNumber,
    payload_string_end,
};

use crate::escape_dialect::EscapeDialect;
use crate::visible;

/// The prefix of each line of a text.
pub(crate) const INDENT: &str = "    ";
/// A longer string is shown as a text of its own; so is one with several lines.
const LONG: usize = 100;
/// The placeholder for erased data.
const ERASED: &str = "erased";

/// An event, ready to be written.
#[derive(Debug)]
pub(crate) struct TranscriptEntry {
    pub(crate) texts: Vec<ExtractedText>,
    /// One line, without its line feed.
    pub(crate) stamp: String,
}

/// A string that is shown on lines of its own.
#[derive(Debug)]
pub(crate) struct ExtractedText {
    /// Its JSON pointer in the data.
    pub(crate) pointer: String,
    /// Indented lines, each with its line feed.
    pub(crate) lines: String,
}

impl TranscriptEntry {
    pub(crate) fn of(event: &Event) -> Self {
        let mut stamp = format!("@{} {} {} ", event.seq, event.at, event.kind);
        if let Some(turn) = event.turn {
            // Writing to a string does not fail.
            let _ = write!(stamp, "turn={turn} ");
        }
        let named = [
            ("task", event.task.as_ref().map(TaskId::as_str)),
            ("lane", event.lane.as_ref().map(LaneId::as_str)),
            ("key", event.key.as_deref()),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                let _ = write!(stamp, "{name}=");
                EscapeDialect::Text.write(value, &mut stamp);
                stamp.push(' ');
            }
        }
        if let Some(occurred) = event.occurred {
            let _ = write!(stamp, "occurred={occurred} ");
        }
        let texts = match &event.data {
            Some(data) => take_entry_texts(&event.kind, data, &mut stamp),
            None => {
                stamp.push_str(ERASED);
                Vec::new()
            }
        };
        let mut visible = String::with_capacity(stamp.len());
        visible::write_visible(&mut visible, &stamp);
        Self { texts, stamp: visible }
    }
}

/// Writes the data to `stamp` with a mark in place of each text, and returns the texts.
fn take_entry_texts(kind: &Kind, data: &Payload, stamp: &mut String) -> Vec<ExtractedText> {
    let (rest, leaves) = data.clone().take_leaves(0);
    let rest = rest.as_str();
    let mut texts = Vec::new();
    let mut done = 0;
    for leaf in leaves {
        stamp.push_str(rest.get(done..leaf.offset).unwrap_or_default());
        done = leaf.offset + 2;
        let Some(raw) = abide_model::PayloadLeaf::to_json(leaf.encoding, &leaf.bytes) else {
            continue;
        };
        // A text is never longer than its JSON, so a short string need not be decoded.
        if raw.len() <= LONG && !raw.contains("\\n") && !is_said_in_entry(kind, &leaf.pointer) {
            stamp.push_str(&raw);
            continue;
        }
        let (dialect, text) = EscapeDialect::of(&raw);
        stamp.push_str(dialect.mark());
        texts.push(ExtractedText {
            pointer: leaf.pointer,
            lines: indented_entry_text(dialect, &text),
        });
    }
    stamp.push_str(rest.get(done..).unwrap_or_default());
    texts
}

/// Whether it is spoken text, which is shown as a text however short.
fn is_said_in_entry(kind: &Kind, pointer: &str) -> bool {
    if *kind == Kind::MESSAGE_ADDED {
        return pointer == "/content"
            || pointer.ends_with("/text")
            || pointer.ends_with("/thinking");
    }
    (*kind == Kind::SESSION_STATUS && pointer == "/summary")
        || (*kind == Kind::LOG_RECORDED && pointer == "/text")
}

fn indented_entry_text(dialect: EscapeDialect, text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8 + 8);
    let mut push = |line: &str| {
        out.push_str(INDENT);
        visible::write_visible(&mut out, line);
        out.push('\n');
    };
    if dialect == EscapeDialect::Json {
        // These lines are joined again with nothing between them.
        text.split_inclusive("\\n").for_each(&mut push);
    } else {
        text.split('\n').for_each(&mut push);
    }
    out
}

/// Parses a stamp, and takes its texts from the runs of lines before it; `None` if they do not form
/// an event.
pub(crate) fn read_entry_stamp(stamp: &str, texts: &mut VecDeque<Vec<&str>>) -> Option<Event> {
    let stamp = visible::read_visible(stamp);
    let (seq, rest) = stamp.strip_prefix('@')?.split_once(' ')?;
    let (at, rest) = rest.split_once(' ')?;
    let (kind, mut rest) = rest.split_once(' ')?;
    let mut event = Event {
        seq: Seq(seq.parse().ok()?),
        at: Timestamp::from_ascii(at.as_bytes())?,
        occurred: None,
        kind: Kind::new(kind)?,
        turn: None,
        task: None,
        lane: None,
        key: None,
        data: None,
    };
    if let Some((turn, behind)) = entry_field(rest, "turn=") {
        event.turn = Some(TurnNumber(turn.parse().ok()?));
        rest = behind;
    }
    if let Some((task, behind)) = entry_string_field(rest, "task=") {
        event.task = Some(TaskId(task));
        rest = behind;
    }
    if let Some((lane, behind)) = entry_string_field(rest, "lane=") {
        event.lane = Some(LaneId(lane));
        rest = behind;
    }
    if let Some((key, behind)) = entry_string_field(rest, "key=") {
        event.key = Some(key);
        rest = behind;
    }
    if let Some((occurred, behind)) = entry_field(rest, "occurred=") {
        event.occurred = Some(Timestamp::from_ascii(occurred.as_bytes())?);
        rest = behind;
    }
    if rest == ERASED {
        return Some(event);
    }
    let data = put_entry_texts(rest, texts)?;
    let payload = Payload::new(&data, &EventLimits::default()).ok()?;
    event.data = Some(payload).filter(|payload| payload.as_str() == data);
    event.data.is_some().then_some(event)
}

/// Splits off a field that contains no spaces.
fn entry_field<'a>(rest: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    rest.strip_prefix(name)?.split_once(' ')
}

/// Splits off a field whose value is a JSON string.
fn entry_string_field<'a>(rest: &'a str, name: &str) -> Option<(String, &'a str)> {
    let json = rest.strip_prefix(name)?;
    let end = payload_string_end(json.as_bytes(), 0);
    let value = serde_json::from_str(json.get(..end)?).ok()?;
    Some((value, json.get(end..)?.strip_prefix(' ')?))
}

/// Restores the data, with a text in place of each mark.
fn put_entry_texts(marked: &str, texts: &mut VecDeque<Vec<&str>>) -> Option<String> {
    let bytes = marked.as_bytes();
    let mut data = String::with_capacity(marked.len());
    let (mut done, mut at) = (0, 0);
    while let Some(found) = memchr::memchr2(b'"', b'<', bytes.get(at..)?) {
        at += found;
        if bytes.get(at) == Some(&b'"') {
            at = payload_string_end(bytes, at);
            continue;
        }
        data.push_str(marked.get(done..at)?);
        let dialect = EscapeDialect::of_mark(marked.get(at..)?)?;
        at += dialect.mark().len();
        done = at;
        let run = texts.pop_front()?;
        let lines = run.iter().map(|line| visible::read_visible(line));
        let between = if dialect == EscapeDialect::Json { "" } else { "\n" };
        let text = lines.collect::<Vec<_>>().join(between);
        dialect.write(&text, &mut data);
    }
    data.push_str(marked.get(done..)?);
    Some(data)
}

#[cfg(test)]
mod tests {
    use abide_model::NewEvent;

    use super::*;

    fn event(json: &str) -> Event {
        NewEvent::parse(json).unwrap().into_event(Seq(3), Timestamp::from_millis(0))
    }

    fn back(entry: &TranscriptEntry) -> Option<Event> {
        let mut texts: VecDeque<Vec<&str>> = entry
            .texts
            .iter()
            .map(|text| text.lines.lines().map(|line| line.strip_prefix(INDENT).unwrap()).collect())
            .collect();
        read_entry_stamp(&entry.stamp, &mut texts).filter(|_| texts.is_empty())
    }

    #[test]
    fn a_message_is_its_text_and_a_stamp() {
        let event = event(
            r#"{"kind":"message.added","task":"T 1","key":"\u001b","data":{"role":"user","content":"=== RESULT ===\n@5 \\u{1b}\n"}}"#,
        );
        let entry = TranscriptEntry::of(&event);
        assert_eq!(entry.texts[0].lines, "    === RESULT ===\n    @5 \\u{5c}u{1b}\n    \n");
        assert_eq!(
            entry.stamp,
            r#"@3 1970-01-01T00:00:00.000Z message.added task="T 1" key="\u001b" {"role":"user","content":<text>}"#
        );
        assert_eq!(back(&entry), Some(event));
    }

    #[test]
    fn what_no_text_can_say_comes_back_too() {
        for data in [
            r#"{"a":"\ud800 and so on\nand so on","a":1e999,"":"","b":"<text>"}"#,
            r#"{"a":"\u000ab\/","b":[],"c":"\\n\\\n","d" : "x" }"#,
        ] {
            let event = event(&format!(r#"{{"kind":"x.y","lane":"=","data":{data}}}"#));
            let entry = TranscriptEntry::of(&event);
            assert_eq!(back(&entry), Some(event), "{entry:?}");
        }
        let erased = Event { data: None, ..event(r#"{"kind":"a","data":{}}"#) };
        assert_eq!(back(&TranscriptEntry::of(&erased)), Some(erased));
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        let read = |stamp| read_entry_stamp(stamp, &mut VecDeque::new());
        assert!(read("@3 1970-01-01T00:00:00.000Z a {}").is_some());
        for bad in [
            "@3 1970-01-01T00:00:00.000Z a {",
            "@3 1970-01-01T00:00:00.000Z a []",
            "@3 1970-01-01T00:00:00.000Z A {}",
            "@x 1970-01-01T00:00:00.000Z a {}",
            "@3 1970-01-01 a {}",
            "@3 1970-01-01T00:00:00.000Z a turn= {}",
            "@3 1970-01-01T00:00:00.000Z a key=\" {}",
            "@3 1970-01-01T00:00:00.000Z a {\"b\":<text>}",
            "@3 1970-01-01T00:00:00.000Z a {\"b\":<what>}",
            "@",
        ] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }
}
