//! The arguments of a call, by name.

use abide_model::json::{RawJsonFields, decode_string, encoded_string, list};
use serde_json::value::RawValue;

/// Argument names that can hold the target of an unknown tool, best first.
const TARGETS: [&str; 10] =
    ["path", "file", "url", "uri", "pattern", "query", "title", "description", "name", "id"];

/// The arguments of a call: an object, or any text.
#[derive(Debug)]
pub(super) struct CallArguments {
    json: String,
}

impl CallArguments {
    /// Reads arguments that are JSON, or JSON in a string as some APIs send them.
    pub(super) fn of(arguments: &str) -> Self {
        let inner = serde_json::from_str::<&RawValue>(arguments).ok().and_then(encoded_string);
        let json =
            inner.map_or_else(|| arguments.to_owned(), |text| decode_string(text).into_owned());
        Self { json }
    }

    /// The arguments as they are.
    pub(super) fn json(&self) -> &str {
        &self.json
    }

    fn fields(&self) -> RawJsonFields<'_> {
        RawJsonFields::of(&self.json).unwrap_or_default()
    }

    /// A string, a number, or a list of words as one line; `None` for anything else.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        argument_text(self.fields().get(name)?)
    }

    /// The first of these arguments that is there and not empty.
    pub(super) fn any(&self, names: &[&str]) -> Option<String> {
        let fields = self.fields();
        names
            .iter()
            .find_map(|name| argument_text(fields.get(name)?).filter(|text| !text.is_empty()))
    }

    /// The elements of a list.
    pub(super) fn list(&self, name: &str) -> Option<Vec<Self>> {
        let fields = self.fields();
        let items = list(fields.get(name)?)?;
        Some(items.into_iter().map(|item| Self::of(item.get())).collect())
    }

    /// The argument that an unknown tool is about.
    pub(super) fn target(&self) -> Option<String> {
        let fields = self.fields();
        let named = TARGETS.into_iter().find(|name| fields.encoded(name).is_some());
        if let Some(name) = named {
            return Some(name.to_owned());
        }
        let mut names = fields.names();
        match (names.next(), names.next()) {
            (Some(only), None) if fields.encoded(only).is_some() => Some(only.to_owned()),
            _ => None,
        }
    }
}

fn argument_text(raw: &RawValue) -> Option<String> {
    if let Some(text) = encoded_string(raw) {
        return Some(decode_string(text).into_owned());
    }
    if let Some(words) = list(raw) {
        let words: Option<Vec<_>> =
            words.into_iter().map(|word| encoded_string(word).map(decode_string)).collect();
        return words.map(|words| words.join(" "));
    }
    (!raw.get().starts_with('{') && raw.get() != "null").then(|| raw.get().to_owned())
}
