//! Shortens long strings in JSON as it streams in.

use std::fmt::Write as _;

use super::step::start_of_last_word;

/// The most bytes kept of a string.
const STRING: u64 = 64 << 10;

/// Shortens every long string in JSON, split anywhere, and leaves the rest unchanged, so that an
/// event with a huge output remains valid. What is kept ends with a whole word, or else a part of a
/// secret might be kept, which nobody finds.
#[derive(Debug, Default)]
pub(super) struct StringClipper {
    state: ClipState,
    /// Bytes of the current string so far.
    length: u64,
    /// How many of them were left out.
    left_out: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ClipState {
    #[default]
    Outside,
    /// In a string, between two characters.
    String,
    /// In an escape, with this many bytes to come; `None` until its first byte tells.
    Escape(Option<u8>),
}

impl StringClipper {
    /// Adds bytes and appends what is kept of them to `out`.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for byte in bytes {
            self.byte(*byte, out);
        }
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        let state = self.state;
        match (state, byte) {
            (ClipState::Outside, b'"') => {
                self.state = ClipState::String;
                (self.length, self.left_out) = (0, 0);
                return out.push(byte);
            }
            (ClipState::Outside, _) => return out.push(byte),
            (ClipState::String, b'"') => {
                if self.left_out > 0 {
                    let mut mark = String::new();
                    // Writing to a string does not fail.
                    let _ = write!(mark, "… [{} bytes left out]", self.left_out);
                    out.extend_from_slice(mark.as_bytes());
                }
                self.state = ClipState::Outside;
                return out.push(byte);
            }
            (ClipState::String, b'\\') => self.state = ClipState::Escape(None),
            (ClipState::String, _) => {}
            (ClipState::Escape(None), b'u') => self.state = ClipState::Escape(Some(4)),
            (ClipState::Escape(Some(left)), _) if left > 1 => {
                self.state = ClipState::Escape(Some(left - 1));
            }
            (ClipState::Escape(_), _) => self.state = ClipState::String,
        }
        self.length += 1;
        // Cut at the start of a character.
        let begins = state == ClipState::String && !matches!(byte, 0x80..=0xbf);
        if self.left_out > 0 || (self.length > STRING && begins) {
            if self.left_out == 0 {
                let end = end_of_words(out);
                self.left_out = (out.len() - end) as u64;
                out.truncate(end);
            }
            self.left_out += 1;
        } else {
            out.push(byte);
        }
    }
}

/// Where the whole words at the end of the JSON of a string end, none of its escapes cut in two.
fn end_of_words(json: &[u8]) -> usize {
    let end = start_of_last_word(json);
    let words = json.get(..end).unwrap_or_default();
    let word = words.strip_suffix(b"\"").unwrap_or(words);
    // A run of backslashes begins with an escape.
    let escapes = word.iter().rev().take_while(|byte| **byte == b'\\').count();
    if escapes == 0 { end } else { word.len() - escapes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_cut_in_two() {
        for (before, kept) in [
            ("one ", "one "),
            ("one\\n", "one"),
            ("a\\\"", "a"),
            ("a\\\\", "a"),
            ("https://u:", ""),
        ] {
            let lead = "word ".repeat(((64 << 10) - before.len() - 9) / 5);
            let text = format!("[\"{lead}{before}{}\",7]", "s".repeat(1000));
            let value: serde_json::Value = serde_json::from_str(&clipped(&text)).unwrap();
            let (text, left_out) = value[0].as_str().unwrap().split_once('…').unwrap();
            assert_eq!(text, format!("{lead}{kept}"));
            let before = before.len() - kept.len();
            assert_eq!(left_out, format!(" [{} bytes left out]", 1000 + before));
            assert_eq!(value[1], 7);
        }
    }

    fn clipped(text: &str) -> String {
        let mut out = Vec::new();
        StringClipper::default().push(text.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn long_strings_are_cut_and_all_else_stays() {
        let text = r#"{"a":["x\"\\",1.5e3,{}],"b":"é\u00e9"}"#;
        assert_eq!(clipped(text), text);
        let long = "x".repeat(100_000);
        let out = clipped(&format!(r#"{{"a":"{long}","b":"{long}\"","c":1}}"#));
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        let kept = 64 << 10;
        let mark = |bytes: usize| format!("… [{} bytes left out]", bytes - kept);
        assert_eq!(value["a"], format!("{}{}", &long[..kept], mark(100_000)));
        assert_eq!(value["b"], format!("{}{}", &long[..kept], mark(100_002)));
        assert_eq!(value["c"], 1);
    }

    #[test]
    fn neither_characters_nor_escapes_are_cut_in_two() {
        for unit in ["é", "😀", "\\u00e9", "\\\"", "\\\\"] {
            for lead in ["", "x", "xx", "xxx", "xxxxx"] {
                let text = format!("[\"{lead}{}\",7]", unit.repeat(70_000));
                let value: serde_json::Value = serde_json::from_str(&clipped(&text)).unwrap();
                assert_eq!(value[1], 7);
                assert!(value[0].as_str().unwrap().ends_with("left out]"), "{unit}");
            }
        }
    }
}
