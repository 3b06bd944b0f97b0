//! Escapes recorded text for a terminal.
//!
//! Recorded text is untrusted: a control sequence in it could clear the screen, set the title or
//! type into the shell, and a bidirectional override could disguise one command as another. Data
//! that does not go to a terminal is not escaped.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal would act on the character or display it misleadingly.
pub(crate) const fn is_harmful(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Escapes text for a terminal, on one line.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_harmful(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Escapes text for a terminal, keeping line breaks and tabs.
#[must_use]
pub fn lines(lines: &str) -> String {
    let kept =
        lines.split('\n').map(|line| line.split('\t').map(text).collect::<Vec<_>>().join("\t"));
    kept.collect::<Vec<_>>().join("\n")
}

/// Escapes JSON for a terminal: equal JSON, with harmful characters as `\u` escapes.
///
/// Apart from white space, JSON has these characters only inside strings.
#[must_use]
pub fn json(json: &str) -> Cow<'_, str> {
    let harmful = |c: char| is_harmful(c) && !matches!(c, '\t' | '\n');
    if !json.contains(harmful) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if harmful(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_text_is_left_as_it_is() {
        for harmless in ["", "plain", "Grüße 你好 🦀", "a\\b \"c\""] {
            assert!(matches!(text(harmless), Cow::Borrowed(same) if same == harmless));
            assert!(matches!(json(harmless), Cow::Borrowed(same) if same == harmless));
        }
    }

    #[test]
    fn what_a_terminal_acts_on_is_shown_instead() {
        assert_eq!(text("a\u{1b}[2Jb\nc\u{7f}"), "a\\u{1b}[2Jb\\nc\\u{7f}");
        assert_eq!(text("\u{9b}31m\u{202e}x\u{2066}"), "\\u{9b}31m\\u{202e}x\\u{2066}");
        assert_eq!(lines("a\tb\n\u{1b}c"), "a\tb\n\\u{1b}c");
        for c in (0..0x20).chain(0x7f..0xa0).filter_map(char::from_u32) {
            assert!(!text(&format!("a{c}b")).contains(c), "{c:?}");
        }
    }

    #[test]
    fn escaped_json_means_the_same() {
        let raw = "{\"a\":\"x\u{7f}\u{9b}\u{202e}\u{e0041}y\",\t\"b\":1}";
        let escaped = json(raw);
        assert_eq!(escaped, "{\"a\":\"x\\u007f\\u009b\\u202e\\udb40\\udc41y\",\t\"b\":1}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&escaped), value(raw));
    }
}
