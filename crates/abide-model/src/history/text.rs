//! The searchable text of an event.

use std::borrow::Cow;

use crate::{Event, Kind};

/// Maximum size of an event's searchable words in bytes. The rest is only in the journal.
pub const TEXT_BYTES: usize = 1 << 20;

/// Fields whose strings mean something to machines only.
const BOOKKEEPING: [&str; 12] = [
    "type",
    "role",
    "call",
    "id",
    "signature",
    "tool_call_id",
    "tool_use_id",
    "call_id",
    "media_type",
    "mime_type",
    "encrypted_content",
    "cache_control",
];
/// Fields of the session itself that are searchable.
const OF_A_SESSION: [&str; 3] = ["title", "summary", "reason"];
/// The field with abide's own marks. It may hold the record that a message was read from.
const MARKS: &str = "abide";
/// A longer string without a space is an image or a key, not text.
const BLOB: usize = 512;

/// The strings of an event that a person may search for, one per line; `None` if there are none.
/// Includes kinds outside the vocabulary.
#[must_use]
pub fn searchable_text(event: &Event) -> Option<String> {
    let machinery = [
        Kind::WRITER_OPENED,
        Kind::WRITER_CLOSED,
        Kind::SESSION_REWOUND,
        Kind::USAGE_RECORDED,
        Kind::LIMIT_OBSERVED,
        Kind::MODEL_CONFIGURED,
        Kind::GIT_OBSERVED,
        Kind::RESOURCES_SAMPLED,
        Kind::DEPENDENCIES_RESOLVED,
        Kind::CHECKPOINT_CREATED,
        Kind::CONTEXT_RESTORED,
        Kind::PAYLOAD_ERASED,
        Kind::TURN_STARTED,
        Kind::TURN_FINISHED,
        Kind::SOURCE_RECORDED,
        Kind::SOURCE_READ,
    ];
    if machinery.contains(&event.kind) {
        return None;
    }
    let of_session = event.kind.as_str().starts_with("session.");
    let mut text = String::new();
    event.data.as_ref()?.each_string_outside(MARKS, |key, raw| {
        let wanted =
            if of_session { OF_A_SESSION.contains(&key) } else { !BOOKKEEPING.contains(&key) };
        if !wanted || text.len() >= TEXT_BYTES {
            return;
        }
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        if inner.len() > BLOB && !inner.bytes().any(|byte| byte == b' ' || byte == b'\\') {
            return;
        }
        let string = if inner.contains('\\') {
            // A lone surrogate is not text, but the rest of the string is.
            serde_json::from_str::<Cow<'_, str>>(raw).unwrap_or(Cow::Borrowed(inner))
        } else {
            Cow::Borrowed(inner)
        };
        if !string.is_empty() {
            if !text.is_empty() {
                text.push('\n');
            }
            let mut end = TEXT_BYTES.saturating_sub(text.len()).min(string.len());
            while !string.is_char_boundary(end) {
                end -= 1;
            }
            text.push_str(string.get(..end).unwrap_or_default());
        }
    });
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use crate::{NewEvent, Seq, Timestamp};

    use super::*;

    fn text(json: &str) -> Option<String> {
        searchable_text(
            &NewEvent::parse(json).unwrap().into_event(Seq(1), Timestamp::from_millis(0)),
        )
    }

    #[test]
    fn messages_calls_results_and_titles_are_text_and_machinery_is_not() {
        let cases = [
            (
                r#"{"kind":"message.added","data":{"role":"user","content":"fix \"it\"\nnow"}}"#,
                Some("fix \"it\"\nnow"),
            ),
            (
                r#"{"kind":"message.added","data":{"role":"assistant","content":[{"type":"text","text":"first"},{"type":"tool_call","call":"c1","name":"bash","arguments":{"command":"ls -l"}}]}}"#,
                Some("first\nbash\nls -l"),
            ),
            (
                r#"{"kind":"tool.finished","data":{"call":"c1","ok":true,"result":{"stdout":"two files"}}}"#,
                Some("two files"),
            ),
            (
                r#"{"kind":"task.created","data":{"task":"P1","title":"Write the parser"}}"#,
                Some("P1\nWrite the parser"),
            ),
            (r#"{"kind":"x.mine","data":{"deep":[[{"er":"text"}]]}}"#, Some("text")),
            (
                r#"{"kind":"message.added","data":{"role":"user","abide":{"source":{"record":{"a":["told",{"b":"twice"}]}}},"content":"told once","x":{"abide":"kept"}}}"#,
                Some("told once\nkept"),
            ),
            (r#"{"kind":"turn.finished","data":{"status":"done"}}"#, None),
            (r#"{"kind":"x.empty","data":{"n":1,"s":""}}"#, None),
            (
                r#"{"kind":"session.status","data":{"status":"completed","summary":"all done"}}"#,
                Some("all done"),
            ),
            (r#"{"kind":"x.odd","data":{"s":"half \ud800 pair"}}"#, Some(r"half \ud800 pair")),
        ];
        for (json, expected) in cases {
            assert_eq!(text(json).as_deref(), expected, "{json}");
        }
        let image = format!(r#"{{"kind":"x.image","data":{{"bytes":"{}"}}}}"#, "QUJD".repeat(500));
        assert_eq!(text(&image), None);
    }
}
