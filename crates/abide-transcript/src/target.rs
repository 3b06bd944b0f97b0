//! The target of a tool call: its command, path or address.

use serde_json::Value;
use serde_json::value::RawValue;

/// Argument names that can hold the target, best first.
const NAMES: [&str; 14] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "filename",
    "file",
    "notebook_path",
    "url",
    "pattern",
    "query",
    "prompt",
    "description",
    "name",
];

/// Arguments longer than this many bytes are not searched.
const LOOK: usize = 64 << 10;

/// The target of a call with these arguments, JSON or not, on one line; empty if it has none.
pub(crate) fn call_target_of_text(arguments: &str) -> String {
    let raw = serde_json::from_str::<&RawValue>(arguments).ok();
    let target = call_target(raw);
    target.field.map_or_else(String::new, |_| target.text)
}

/// The target of a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CallTarget {
    /// Empty if there is none.
    pub(crate) text: String,
    /// The argument it came from; `None` if it stands for all of them.
    pub(crate) field: Option<String>,
}

/// The target of a call with these arguments.
pub(crate) fn call_target(arguments: Option<&RawValue>) -> CallTarget {
    let Some(arguments) = arguments.map(RawValue::get).filter(|json| json.len() <= LOOK) else {
        return CallTarget::default();
    };
    let whole = |text| CallTarget { text, field: None };
    let Ok(value) = serde_json::from_str::<Value>(arguments) else {
        return whole(arguments.to_owned());
    };
    // Some agents record the arguments as the model's JSON text.
    let value = match &value {
        Value::String(text) => serde_json::from_str(text).unwrap_or(value),
        _ => value,
    };
    let Value::Object(fields) = &value else {
        return whole(plain_target(&value));
    };
    let named = NAMES.iter().copied().find(|name| fields.contains_key(*name));
    let only = || fields.keys().next().filter(|_| fields.len() == 1).map(String::as_str);
    match named.or_else(only) {
        Some(name) => CallTarget {
            text: fields.get(name).map(plain_target).unwrap_or_default(),
            field: Some(name.to_owned()),
        },
        None if fields.is_empty() => CallTarget::default(),
        None => whole(arguments.to_owned()),
    }
}

fn plain_target(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(words) if words.iter().all(Value::is_string) => {
            words.iter().map(plain_target).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_about_its_command_its_path_or_what_it_has() {
        let of =
            |json: &str| call_target(Some(&RawValue::from_string(json.to_owned()).unwrap())).text;
        assert_eq!(of(r#"{"timeout":5,"command":["cargo","test"]}"#), "cargo test");
        assert_eq!(of(r#"{"content":"…","path":"src/x.rs"}"#), "src/x.rs");
        assert_eq!(of(r#""{\"command\":\"ls\"}""#), "ls");
        assert_eq!(of(r#"{"n":1}"#), "1");
        assert_eq!(of(r#"{"a":1,"b":2}"#), r#"{"a":1,"b":2}"#);
        assert_eq!(of("{}") + &call_target(None).text, "");
    }
}
