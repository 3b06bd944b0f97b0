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

/// The block of a file whose bytes are in base64.
pub(crate) fn inline_file_block(mime: &str, data: &str) -> String {
    let mut block = file_block_head(mime, "base64");
    block.push_str("\"media_type\":");
    write_string(&mut block, mime);
    block.push_str(",\"data\":");
    write_string(&mut block, data);
    block.push_str("}}");
    block
}

/// The block of a file of which the address is known.
pub(crate) fn linked_file_block(mime: &str, url: &str) -> String {
    let mut block = file_block_head(mime, "url");
    block.push_str("\"url\":");
    write_string(&mut block, url);
    block.push_str("}}");
    block
}

fn file_block_head(mime: &str, source: &str) -> String {
    let sort = if mime.starts_with("image/") { "image" } else { "document" };
    format!("{{\"type\":\"{sort}\",\"source\":{{\"type\":\"{source}\",")
}

/// The block of a text.
pub(crate) fn text_block(text: &str) -> String {
    let mut block = "{\"type\":\"text\",\"text\":".to_owned();
    write_string(&mut block, text);
    block.push('}');
    block
}

/// The block of a thought.
pub(crate) fn thought_block(text: &str) -> String {
    let mut block = "{\"type\":\"thinking\",\"thinking\":".to_owned();
    write_string(&mut block, text);
    block.push('}');
    block
}

/// The block of a call of a tool.
pub(crate) fn call_block(call: &str, name: &str, arguments: Option<&RawValue>) -> String {
    let mut block = "{\"type\":\"tool_call\",\"call\":".to_owned();
    write_string(&mut block, call);
    block.push_str(",\"name\":");
    write_string(&mut block, name);
    block.push_str(",\"arguments\":");
    block.push_str(arguments.map_or("{}", RawValue::get));
    block.push('}');
    block
}

/// A message of these blocks, each JSON; `None` without any. A text alone is its content.
pub(crate) fn blocks_message(role: &str, blocks: &[String]) -> Option<String> {
    let first = blocks.first()?;
    let text = Some(first).filter(|_| blocks.len() == 1);
    let text = text.and_then(|block| block.strip_prefix("{\"type\":\"text\",\"text\":"));
    let mut data = "{\"role\":".to_owned();
    write_string(&mut data, role);
    data.push_str(",\"content\":");
    match text.and_then(|text| text.strip_suffix('}')) {
        Some(text) => data.push_str(text),
        None => {
            data.push('[');
            data.push_str(&blocks.join(","));
            data.push(']');
        }
    }
    data.push('}');
    Some(mend_surrogates(data))
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
