//! Converts a message to the data of a `message.added` event, and back to the same bytes.

use abide_model::MessageForm;
use abide_model::json::{
    RawJsonFields, decode_string, encoded_string, list, parser_reason, write_string,
};
use abide_model::message::{Forms, is_part, speaks_without_content};
use serde_json::value::RawValue;

/// Why a line is not a message of the given form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Invalid JSON.
    #[error("invalid JSON: {reason}")]
    NotJson {
        /// The parser's message.
        reason: String,
    },
    /// JSON, but not an object.
    #[error("a message must be a JSON object, not {found}")]
    NotAnObject {
        /// What it is instead.
        found: &'static str,
    },
    /// The message has no role.
    #[error("the message has no `role`")]
    NoRole,
    /// Neither a message nor a Responses item.
    #[error("the item has neither a `type` nor a `role`")]
    NoType,
    /// A field that must be a string is something else.
    #[error("`{field}` must be a string, not {found}")]
    NotAString {
        /// The field.
        field: &'static str,
        /// What it is instead.
        found: &'static str,
    },
    /// The message is empty.
    #[error("the message has neither `content` nor calls")]
    NoContent,
    /// `content` is neither text nor a list of blocks.
    #[error("`content` must be a string or a list, not {found}")]
    BadContent {
        /// What it is instead.
        found: &'static str,
    },
    /// A part of a message where an item is expected.
    #[error("`{found}` is part of a message, not an item")]
    NotAnItem {
        /// The type of the part.
        found: String,
    },
    /// The event of a call does not name the call.
    #[error("the event has no `call`")]
    NoCall,
    /// The message uses the reserved field `abide`.
    #[error("the field `abide` is reserved for abide's own notes")]
    Reserved,
}

impl WireError {
    /// A short, stable code for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotJson { .. } => "not_json",
            Self::NotAnObject { .. } => "not_an_object",
            Self::NoRole => "no_role",
            Self::NoType => "no_type",
            Self::NotAString { .. } => "not_a_string",
            Self::NoContent => "no_content",
            Self::BadContent { .. } => "bad_content",
            Self::NotAnItem { .. } => "not_an_item",
            Self::NoCall => "no_call",
            Self::Reserved => "reserved",
        }
    }
}

/// Converts a message of this form to the data of a `message.added` event, which is the message
/// itself. If its fields do not identify the form, that is noted under `abide`. A Responses item
/// that is not a message becomes the only block of one.
pub fn record(form: MessageForm, line: &str) -> Result<String, WireError> {
    let raw: &RawValue = serde_json::from_str(line)
        .map_err(|error| WireError::NotJson { reason: parser_reason(&error) })?;
    let text = raw.get();
    let Some(fields) = RawJsonFields::of(text).filter(|_| text.starts_with('{')) else {
        return Err(WireError::NotAnObject { found: what(raw) });
    };
    if fields.any("abide").is_some() {
        return Err(WireError::Reserved);
    }
    let (role, sort) = (string(&fields, "role")?, string(&fields, "type")?);
    if form == MessageForm::Responses {
        return item(text, &fields, role, sort);
    }
    if role.is_none() {
        return Err(WireError::NoRole);
    }
    match fields.any("content") {
        Some(content) if content.get() == "null" && form == MessageForm::OpenAi => {}
        Some(content) => is_content(content)?,
        None if form == MessageForm::OpenAi && speaks_without_content(&fields) => {}
        None => return Err(WireError::NoContent),
    }
    if Forms::of_message(&fields).has(form) {
        return Ok(text.to_owned());
    }
    // Insert it before the last brace, so that removing it restores the original bytes.
    let body = text.strip_suffix('}').unwrap_or(text);
    Ok(format!("{body},\"abide\":{{\"form\":\"{}\"}}}}", form.name()))
}

fn item(
    text: &str,
    fields: &RawJsonFields<'_>,
    role: Option<String>,
    sort: Option<String>,
) -> Result<String, WireError> {
    if let Some(found) = sort.as_ref().filter(|sort| is_part(sort)) {
        return Err(WireError::NotAnItem { found: found.clone() });
    }
    match (&role, &sort) {
        (None, None) => return Err(WireError::NoType),
        (None, Some(sort)) if sort == "message" => return Err(WireError::NoRole),
        _ => {}
    }
    let message = sort.as_ref().is_none_or(|sort| sort == "message");
    match fields.any("content") {
        Some(content) if message => is_content(content)?,
        None if message => return Err(WireError::NoContent),
        _ => {}
    }
    if Forms::of_message(fields).has(MessageForm::Responses) {
        return Ok(text.to_owned());
    }
    let output = sort.as_ref().is_some_and(|sort| sort.ends_with("_output"));
    let role = role.as_deref().unwrap_or(if output { "tool" } else { "assistant" });
    let mut data = String::with_capacity(text.len() + 80);
    data.push_str("{\"role\":");
    write_string(&mut data, role);
    data.push_str(",\"content\":[");
    data.push_str(text);
    data.push_str("],\"abide\":{\"form\":\"responses\"}}");
    Ok(data)
}

/// An optional field that must be a string.
fn string(fields: &RawJsonFields<'_>, field: &'static str) -> Result<Option<String>, WireError> {
    let Some(raw) = fields.any(field) else { return Ok(None) };
    match encoded_string(raw) {
        Some(text) => Ok(Some(decode_string(text).into_owned())),
        None => Err(WireError::NotAString { field, found: what(raw) }),
    }
}

fn is_content(content: &RawValue) -> Result<(), WireError> {
    match encoded_string(content).is_some() || list(content).is_some() {
        true => Ok(()),
        false => Err(WireError::BadContent { found: what(content) }),
    }
}

/// The type of a JSON value, in words.
pub(crate) fn what(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        _ => "a number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_is_wrong() {
        let error = |form, line: &str| record(form, line).unwrap_err();
        let (chat, responses) = (MessageForm::OpenAi, MessageForm::Responses);
        assert_eq!(error(chat, "hello").code(), "not_json");
        assert_eq!(error(chat, r#"{"role":"user","content":"x"} x"#).code(), "not_json");
        assert_eq!(error(chat, "[]"), WireError::NotAnObject { found: "a list" });
        assert_eq!(error(chat, r#"{"content":"x"}"#), WireError::NoRole);
        let role = WireError::NotAString { field: "role", found: "a number" };
        assert_eq!(error(chat, r#"{"role":7,"content":"x"}"#), role);
        assert_eq!(role.to_string(), "`role` must be a string, not a number");
        assert_eq!(error(chat, r#"{"role":"assistant"}"#), WireError::NoContent);
        assert_eq!(error(chat, r#"{"role":"assistant","tool_calls":null}"#), WireError::NoContent);
        let content = WireError::BadContent { found: "null" };
        assert_eq!(error(MessageForm::Anthropic, r#"{"role":"user","content":null}"#), content);
        assert_eq!(error(chat, r#"{"role":"user","content":"x","abide":1}"#), WireError::Reserved);
        assert_eq!(error(responses, "{}"), WireError::NoType);
        assert_eq!(error(responses, r#"{"type":"message","content":"x"}"#), WireError::NoRole);
        assert_eq!(error(responses, r#"{"role":"user"}"#), WireError::NoContent);
        let part = WireError::NotAnItem { found: "input_text".to_owned() };
        assert_eq!(error(responses, r#"{"type":"input_text","text":"x"}"#), part);
    }
}
