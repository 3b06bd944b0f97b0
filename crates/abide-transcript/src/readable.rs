//! Formats recorded JSON for reading.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// JSON up to this many bytes stays on one line.
const SHORT: usize = 72;

/// A tool's output as text: the string itself, the texts of its blocks, or indented JSON.
pub(crate) fn readable_text(json: &RawValue) -> String {
    let raw = json.get().trim();
    if let Ok(text) = serde_json::from_str::<String>(raw) {
        return text;
    }
    #[derive(serde::Deserialize)]
    struct TextBlock {
        r#type: String,
        text: String,
    }
    if raw.starts_with('[')
        && let Ok(blocks) = serde_json::from_str::<Vec<TextBlock>>(raw)
        && !blocks.is_empty()
        && blocks.iter().all(|block| block.r#type == "text")
    {
        let texts: Vec<_> = blocks.into_iter().map(|block| block.text).collect();
        return texts.join("\n");
    }
    if raw == "null" { String::new() } else { readable_indented(raw) }
}

/// Formats arguments one per line, without the one named `told`; `None` if none is left.
pub(crate) fn readable_fields(json: &RawValue, told: Option<&str>) -> Option<String> {
    let inner = serde_json::from_str::<String>(json.get()).ok();
    let raw = inner.as_deref().unwrap_or(json.get());
    let Ok(fields) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(raw) else {
        return (told.is_none() && inner.is_none()).then(|| readable_text(json));
    };
    let mut out = String::new();
    for (name, value) in fields.iter().filter(|(name, _)| Some(name.as_str()) != told) {
        let value = readable_text(value);
        let value = value.strip_suffix('\n').unwrap_or(&value);
        let between = if value.contains('\n') { "\n" } else { " " };
        out.push_str(&format!("{name}:{between}{value}\n"));
    }
    (!out.is_empty()).then_some(out)
}

/// Adds line breaks and indentation to JSON. Tokens are copied as they are, so numbers of any size,
/// duplicate keys and unusual escapes survive.
pub(crate) fn readable_indented(raw: &str) -> String {
    if raw.len() <= SHORT {
        return raw.to_owned();
    }
    let mut out = String::with_capacity(raw.len() + raw.len() / 4);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut chars = raw.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        // Hostile nesting must not make the text quadratic.
        out.push_str(&"  ".repeat(depth.min(40)));
    };
    while let Some(c) = chars.next() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                if let Some(close) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stand_one_under_the_other() {
        let of = |json: &str, told| {
            readable_fields(&RawValue::from_string(json.to_owned()).unwrap(), told)
        };
        let edit = r#"{"path":"a.rs","old":"x\ny","new":"z","n":1e999}"#;
        assert_eq!(of(edit, Some("path")).unwrap(), "n: 1e999\nnew: z\nold:\nx\ny\n");
        assert_eq!(of(r#"{"path":"a.rs"}"#, Some("path")), None);
        assert_eq!(of("{}", None), None);
        assert_eq!(of("[1,2]", None).unwrap(), "[1,2]");
    }

    #[test]
    fn json_is_read_as_what_it_says() {
        let of = |json: &str| readable_text(&RawValue::from_string(json.to_owned()).unwrap());
        assert_eq!(of(r#""a\nb""#), "a\nb");
        assert_eq!(of(r#"[{"type":"text","text":"a"},{"type":"text","text":"b","x":1}]"#), "a\nb");
        assert_eq!(of("null"), "");
        assert_eq!(of(r#"{"exit":0}"#), r#"{"exit":0}"#);
        let long = format!(r#"{{"a":[1e999, {{}}, "x\"{{,"],"b":"{}"}}"#, "y".repeat(60));
        assert_eq!(
            of(&long),
            format!(
                "{{\n  \"a\": [\n    1e999,\n    {{}},\n    \"x\\\"{{,\"\n  ],\n  \"b\": \"{}\"\n}}",
                "y".repeat(60)
            )
        );
    }
}
