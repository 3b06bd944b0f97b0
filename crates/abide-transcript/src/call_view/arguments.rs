//! The arguments of a call, by name.

use abide_model::json::{RawJsonFields, decode_string, encoded_string, list};
use serde_json::value::RawValue;

use super::{DIRECTORIES, FILES};

/// Argument names that can hold the target of an unknown tool, best first.
const TARGETS: [&str; 10] =
    ["path", "file", "url", "uri", "pattern", "query", "title", "description", "name", "id"];
/// The most arguments that are looked at.
const ARGUMENTS: usize = 1000;

/// The arguments of a call: an object, or any text.
#[derive(Debug)]
pub(super) struct CallArguments {
    json: String,
    /// Each name with its value as JSON. Of a name that is there twice the last counts.
    fields: Vec<(String, String)>,
    /// The workspace, with a slash at its end; or empty.
    workspace: String,
}

impl CallArguments {
    /// Reads arguments that are JSON, or JSON in a string as some APIs send them. Paths in the
    /// workspace are relative to it.
    pub(super) fn of(arguments: &str, workspace: &str) -> Self {
        let inner = serde_json::from_str::<&RawValue>(arguments).ok().and_then(encoded_string);
        let json =
            inner.map_or_else(|| arguments.to_owned(), |text| decode_string(text).into_owned());
        let fields = RawJsonFields::of(&json).unwrap_or_default();
        let names = fields.names().take(ARGUMENTS);
        let fields = names
            .filter_map(|name| Some((name.to_owned(), fields.get(name)?.get().to_owned())))
            .collect();
        let root = workspace.trim_end_matches('/');
        let is_path = root.starts_with('/');
        let workspace = if is_path { format!("{root}/") } else { String::new() };
        Self { json, fields, workspace }
    }

    /// The arguments as they are.
    pub(super) fn json(&self) -> &str {
        &self.json
    }

    fn value(&self, name: &str) -> Option<&RawValue> {
        let (_, json) = self.fields.iter().rev().find(|(known, _)| known == name)?;
        serde_json::from_str(json).ok()
    }

    /// A string, a number, or a list of words as one line; `None` for anything else.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        argument_text(self.value(name)?)
    }

    /// The first of these arguments that is there and not empty.
    pub(super) fn any(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.text(name).filter(|text| !text.is_empty()))
    }

    /// The path that the call names.
    pub(super) fn path(&self) -> Option<String> {
        let path = self.any(&FILES).or_else(|| self.any(&DIRECTORIES));
        path.map(|path| self.relative(path))
    }

    /// A path, relative to the workspace if it is in there.
    pub(super) fn relative(&self, path: String) -> String {
        match path.strip_prefix(&self.workspace) {
            Some(inside) if !inside.is_empty() => inside.to_owned(),
            _ => path,
        }
    }

    /// The elements of a list.
    pub(super) fn list(&self, name: &str) -> Option<Vec<Self>> {
        let items = list(self.value(name)?)?;
        Some(items.into_iter().map(|item| Self::of(item.get(), &self.workspace)).collect())
    }

    /// The argument that an unknown tool is about.
    pub(super) fn target(&self) -> Option<String> {
        let is_text =
            |name: &str| self.value(name).is_some_and(|raw| encoded_string(raw).is_some());
        let named = TARGETS.into_iter().find(|name| is_text(name));
        if let Some(name) = named {
            return Some(name.to_owned());
        }
        match self.fields.as_slice() {
            [(only, _)] if is_text(only) => Some(only.clone()),
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
