//! Makes the data of `message.added` events from an agent's output.

use std::borrow::Cow;

use abide_wire::json::{mend_surrogates, write_string};
use serde_json::value::RawValue;

use super::step::head_of_words;

/// The most bytes of the text of one message.
pub(crate) const MOST: usize = 8 << 20;

/// A message of the assistant; `None` where it says nothing.
pub(crate) fn assistant_message(text: &str) -> Option<Box<RawValue>> {
    role_message("assistant", text)
}

/// A part of a message of the assistant. The parts with the same `answer` are one message: their
/// texts follow each other as they are.
pub(crate) fn assistant_part(text: &str, answer: &str) -> Option<Box<RawValue>> {
    let mut data = assistant_message(text)?.get().to_owned();
    data.truncate(data.len().saturating_sub(1));
    data.push_str(",\"abide\":{\"answer\":");
    write_string(&mut data, answer);
    data.push_str("}}");
    RawValue::from_string(data).ok()
}

/// A message of one who speaks; `None` where nothing is said.
pub(crate) fn role_message(role: &str, text: &str) -> Option<Box<RawValue>> {
    if text.trim().is_empty() {
        return None;
    }
    let mut data = String::with_capacity(text.len() + 40);
    data.push_str("{\"role\":");
    write_string(&mut data, role);
    data.push_str(",\"content\":");
    write_string(&mut data, &cut_message(text));
    data.push('}');
    RawValue::from_string(data).ok()
}

/// A message of the assistant that it thinks and does not say.
pub(crate) fn thought_message(text: &str) -> Option<Box<RawValue>> {
    if text.trim().is_empty() {
        return None;
    }
    let mut data = String::with_capacity(text.len() + 80);
    data.push_str(r#"{"role":"assistant","content":[{"type":"thinking","thinking":"#);
    write_string(&mut data, &cut_message(text));
    data.push_str("}]}");
    RawValue::from_string(data).ok()
}

/// Shortens a text to [`MOST`] bytes, with a mark where it was cut.
fn cut_message(text: &str) -> Cow<'_, str> {
    let kept = head_of_words(text, MOST);
    if kept.len() == text.len() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{kept}… [{} bytes left out]", text.len() - kept.len()))
}

/// JSON of our own: a copy that no strict parser refuses.
pub(crate) fn copied_message(raw: &RawValue) -> Option<Box<RawValue>> {
    RawValue::from_string(mend_surrogates(raw.get().to_owned())).ok()
}

/// A JSON object of the fields that are present; `None` if none is.
pub(crate) fn object_message(fields: &[(&str, Option<&RawValue>)]) -> Option<Box<RawValue>> {
    let mut out = "{".to_owned();
    for (name, value) in fields {
        let Some(value) = value else { continue };
        if out.len() > 1 {
            out.push(',');
        }
        write_string(&mut out, name);
        out.push(':');
        out.push_str(value.get());
    }
    out.push('}');
    if out.len() == 2 {
        return None;
    }
    RawValue::from_string(mend_surrogates(out)).ok()
}
