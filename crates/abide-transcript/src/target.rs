//! What a call was about, in a few words: the command, the path, the address.

use serde_json::Value;
use serde_json::value::RawValue;

/// The names under which tools take what they are about, best first.
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

/// Arguments longer than this are not read for it.
const LOOK: usize = 64 << 10;

/// The target of a call with these arguments; empty where there is none.
pub(crate) fn target(arguments: Option<&RawValue>) -> String {
    let Some(arguments) = arguments.map(RawValue::get) else {
        return String::new();
    };
    if arguments.len() > LOOK {
        return String::new();
    }
    let Ok(value) = serde_json::from_str::<Value>(arguments) else {
        return arguments.to_owned();
    };
    // Some agents record the arguments as the JSON text that the model gave.
    let value = match &value {
        Value::String(text) => serde_json::from_str(text).unwrap_or(value),
        _ => value,
    };
    match &value {
        Value::Object(fields) => {
            let named = NAMES.iter().find_map(|name| fields.get(*name));
            match named.or_else(|| fields.values().next().filter(|_| fields.len() == 1)) {
                Some(value) => plain(value),
                None if fields.is_empty() => String::new(),
                None => arguments.to_owned(),
            }
        }
        other => plain(other),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(words) if words.iter().all(Value::is_string) => {
            words.iter().map(plain).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_about_its_command_its_path_or_what_it_has() {
        let of = |json: &str| target(Some(&RawValue::from_string(json.to_owned()).unwrap()));
        assert_eq!(of(r#"{"timeout":5,"command":["cargo","test"]}"#), "cargo test");
        assert_eq!(of(r#"{"content":"…","path":"src/x.rs"}"#), "src/x.rs");
        assert_eq!(of(r#""{\"command\":\"ls\"}""#), "ls");
        assert_eq!(of(r#"{"n":1}"#), "1");
        assert_eq!(of(r#"{"a":1,"b":2}"#), r#"{"a":1,"b":2}"#);
        assert_eq!(of("{}") + &target(None), "");
    }
}
