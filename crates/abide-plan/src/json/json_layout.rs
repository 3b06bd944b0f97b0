//! Reformats JSON without changing its content: every string and number keeps its spelling.

use abide_model::payload_string_end;

/// The tokens of well-formed JSON without white space.
fn json_tokens(json: &str) -> impl Iterator<Item = &str> {
    let bytes = json.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        let start = at;
        at = match bytes.get(at)? {
            b'"' => payload_string_end(bytes, at),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => at + 1,
            _ => {
                let rest = bytes.get(at..)?;
                let ends = |byte: &u8| byte.is_ascii_whitespace() || b",:]}[{\"".contains(byte);
                rest.iter().position(ends).map_or(bytes.len(), |length| at + length.max(1))
            }
        };
        json.get(start..at)
    })
}

/// The JSON without white space between tokens.
pub(crate) fn compact_json(json: &str) -> String {
    json_tokens(json).collect()
}

/// The nesting depth of lists and objects.
pub(crate) fn json_depth(json: &str) -> usize {
    let (mut now, mut most) = (0usize, 0);
    for token in json_tokens(json) {
        match token {
            "{" | "[" => now += 1,
            "}" | "]" => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// One field or element per line, indented by two spaces per level.
pub(crate) fn pretty_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut level = 0usize;
    let mut opened = false;
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", level));
    };
    for token in json_tokens(json) {
        let closes = matches!(token, "}" | "]");
        if closes {
            level = level.saturating_sub(1);
        }
        // An empty list or object stays on its line.
        if opened != closes {
            line(&mut out, level);
        }
        opened = matches!(token, "{" | "[");
        if opened {
            level += 1;
        }
        out.push_str(token);
        match token {
            "," => line(&mut out, level),
            ":" => out.push(' '),
            _ => {}
        }
    }
    out
}
