//! Recorded JSON as lines of names and values, without braces and quotes.

use abide_model::json::{RawJsonFields, decode_string, encoded_string, list};
use serde_json::value::RawValue;

use crate::timeline_entry::CallField;

/// A list of values stays on one line up to this many bytes.
const SHORT: usize = 72;
/// Values nested deeper are shown as they are.
const DEPTH: usize = 8;
/// The most fields of an object that are shown. Each is looked up among all.
const FIELDS: usize = 200;

/// JSON for reading: the text of a string, names and values of an object, one a line.
pub(crate) fn tidy_text(json: &str) -> String {
    let json = json.trim();
    if let Ok(raw) = serde_json::from_str::<&RawValue>(json) {
        let mut out = String::new();
        tidy_value(&mut out, raw, 0);
        return out.trim_end_matches('\n').to_owned();
    }
    json.to_owned()
}

/// The fields of an object, or its whole value under no name. Empty values are left out.
pub(crate) fn tidy_fields(json: &str, left_out: &[&str]) -> Vec<CallField> {
    let inner = serde_json::from_str::<String>(json).ok();
    let json = inner.as_deref().unwrap_or(json).trim();
    let Some(fields) = RawJsonFields::of(json) else {
        let value = tidy_text(json);
        let nothing = value.is_empty() || value == "null";
        return if nothing { Vec::new() } else { vec![CallField { name: String::new(), value }] };
    };
    let names: Vec<String> = fields.names().map(str::to_owned).collect();
    let mut seen = std::collections::HashSet::new();
    let names = names.into_iter().filter(|name| seen.insert(name.clone()));
    let names: Vec<_> = names.filter(|name| !left_out.contains(&name.as_str())).collect();
    let more = names.len().saturating_sub(FIELDS);
    let mut found: Vec<_> = names
        .into_iter()
        .take(FIELDS)
        .filter_map(|name| {
            let value = tidy_text(fields.get(&name)?.get());
            (!value.is_empty()).then_some(CallField { name, value })
        })
        .collect();
    if more > 0 {
        found.push(CallField { name: String::new(), value: format!("… {more} more fields") });
    }
    found
}

/// Writes a value; each line but the first starts with the indentation of `depth`.
fn tidy_value(out: &mut String, raw: &RawValue, depth: usize) {
    if let Some(text) = encoded_string(raw) {
        tidy_lines(out, &decode_string(text), depth);
    } else if depth >= DEPTH {
        out.push_str(raw.get());
    } else if let Some(items) = list(raw) {
        tidy_list(out, &items, depth);
    } else if let Some(fields) = RawJsonFields::of(raw.get()) {
        let mut first = true;
        let mut seen = std::collections::HashSet::new();
        let names: Vec<_> = fields.names().filter(|name| seen.insert(*name)).collect();
        let more = names.len().saturating_sub(FIELDS);
        for name in names.into_iter().take(FIELDS) {
            let Some(value) = fields.any(name) else { continue };
            if !first {
                tidy_break(out, depth);
            }
            first = false;
            tidy_field(out, name, value, depth);
        }
        if more > 0 {
            tidy_break(out, depth);
            out.push_str(&format!("… {more} more fields"));
        }
    } else {
        out.push_str(raw.get());
    }
}

fn tidy_field(out: &mut String, name: &str, value: &RawValue, depth: usize) {
    let mut inner = String::new();
    tidy_value(&mut inner, value, depth + 1);
    out.push_str(name);
    out.push(':');
    let nested = value.get().starts_with('{') || inner.starts_with("- ");
    let nested = nested && !inner.is_empty();
    if nested || inner.contains('\n') {
        tidy_break(out, depth + 1);
    } else if !inner.is_empty() {
        out.push(' ');
    }
    out.push_str(&inner);
}

fn tidy_list(out: &mut String, items: &[&RawValue], depth: usize) {
    let plain = |item: &&RawValue| !item.get().starts_with(['{', '[']);
    if items.iter().all(plain) {
        let texts: Vec<_> = items.iter().map(|item| tidy_text(item.get())).collect();
        let line = texts.join(", ");
        if line.len() <= SHORT && !line.contains('\n') {
            out.push_str(&line);
            return;
        }
    }
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            tidy_break(out, depth);
        }
        out.push_str("- ");
        tidy_value(out, item, depth + 1);
    }
}

fn tidy_lines(out: &mut String, text: &str, depth: usize) {
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            tidy_break(out, depth);
        }
        out.push_str(line);
    }
}

fn tidy_break(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth {
        out.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_under_their_names() {
        assert_eq!(tidy_text(r#""a\nb""#), "a\nb");
        assert_eq!(tidy_text("null"), "null");
        assert_eq!(tidy_text("not json"), "not json");
        assert_eq!(
            tidy_text(r#"{"n":1e999,"list":["a","b"],"in":{"x":true,"y":{"z":"1\n2"}},"e":{}}"#),
            "n: 1e999\nlist: a, b\nin:\n  x: true\n  y:\n    z:\n      1\n      2\ne:"
        );
        assert_eq!(tidy_text(r#"[{"a":1,"b":2},{"a":3}]"#), "- a: 1\n  b: 2\n- a: 3");
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert!(tidy_text(&deep).len() < 400);
    }

    #[test]
    fn fields_are_those_that_say_something() {
        let of = |json: &str| {
            let fields = tidy_fields(json, &["path"]);
            fields.iter().map(|field| format!("{}={}", field.name, field.value)).collect::<Vec<_>>()
        };
        assert_eq!(of(r#"{"path":"a","old":"x\ny","none":"","n":1}"#), ["old=x\ny", "n=1"]);
        assert_eq!(of(r#""{\"a\":1}""#), ["a=1"]);
        assert_eq!(of("[1,2]"), ["=1, 2"]);
        assert!(of("{}").is_empty() && of("null").is_empty());
    }
}
