//! Splits a line of an agent's file into records, whatever is in it. Every byte is in exactly one
//! piece.
//!
//! A line should be one JSON object. After a crash or with two writers it may be two of them, half of
//! one, or half of one and then a whole one.

use serde_json::value::RawValue;

/// How often reading on at a later brace is tried in one line: a hostile line costs no more.
const RESTARTS: usize = 32;

/// A part of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourcePiece<'a> {
    /// A JSON object, and the blanks after it.
    Record {
        /// The object.
        json: &'a str,
        /// The blanks: a carriage return, as a rule nothing.
        blanks: &'a str,
    },
    /// Anything else.
    Other(&'a [u8]),
}

/// Splits a line, without its line feed, and gives each piece with its place in the line.
pub(crate) fn split_line<'a>(line: &'a [u8], mut give: impl FnMut(usize, SourcePiece<'a>)) {
    let Ok(text) = std::str::from_utf8(line) else {
        if !line.is_empty() {
            give(0, SourcePiece::Other(line));
        }
        return;
    };
    // Where what is not given yet begins, and where the next object may begin.
    let (mut rest, mut at, mut tries) = (0, 0, 0);
    while tries < RESTARTS
        && let Some(start) = next_brace(text, at)
    {
        let tail = text.get(start..).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_str(tail).into_iter::<&RawValue>();
        let Some(Ok(value)) = values.next() else {
            tries += 1;
            at = start + 1;
            continue;
        };
        if start > rest {
            give(rest, SourcePiece::Other(line.get(rest..start).unwrap_or_default()));
        }
        let json = value.get();
        let after = tail.get(json.len()..).unwrap_or_default();
        let blanks = after.len() - after.trim_start().len();
        let blanks = after.get(..blanks).unwrap_or_default();
        give(start, SourcePiece::Record { json, blanks });
        rest = start + json.len() + blanks.len();
        at = rest;
    }
    if rest < line.len() {
        give(rest, SourcePiece::Other(line.get(rest..).unwrap_or_default()));
    }
}

/// The next place where an object may begin.
fn next_brace(text: &str, from: usize) -> Option<usize> {
    let rest = text.as_bytes().get(from..)?;
    let blanks = rest.len() - rest.trim_ascii_start().len();
    if rest.get(blanks) == Some(&b'{') {
        return Some(from + blanks);
    }
    // Within a string a quote is escaped: code in one is not taken for an object.
    memchr::memmem::find(rest, b"{\"").map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(line: &[u8]) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        split_line(line, |at, piece| {
            found.push((
                at,
                match piece {
                    SourcePiece::Record { json, blanks } => format!("{json}|{blanks}"),
                    SourcePiece::Other(bytes) => {
                        format!("other {}", String::from_utf8_lossy(bytes))
                    }
                },
            ));
        });
        found
    }

    #[test]
    fn a_line_is_split_wherever_an_object_can_be_read() {
        type Split = [(usize, &'static str)];
        let cases: [(&[u8], &Split); 11] = [
            (b"{\"a\":1}", &[(0, "{\"a\":1}|")]),
            (b"{\"a\":1}\r", &[(0, "{\"a\":1}|\r")]),
            (b" {}  {} ", &[(0, "other  "), (1, "{}|  "), (5, "{}| ")]),
            (
                br#"{"a":"{{ {x} {{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{ {"b":2}"#,
                &[
                    (0, r#"other {"a":"{{ {x} {{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{ "#),
                    (50, r#"{"b":2}|"#),
                ],
            ),
            (b"{\"a\":1}{\"b\":2}", &[(0, "{\"a\":1}|"), (7, "{\"b\":2}|")]),
            (b"{\"a\":\"x{\"b\":2}", &[(0, "other {\"a\":\"x"), (7, "{\"b\":2}|")]),
            (b"{\"a\":1", &[(0, "other {\"a\":1")]),
            (b"[1]", &[(0, "other [1]")]),
            (b"", &[]),
            (b"\r", &[(0, "other \r")]),
            (b"\xff{}", &[(0, "other \u{fffd}{}")]),
        ];
        for (line, expected) in cases {
            let expected: Vec<_> =
                expected.iter().map(|(at, text)| (*at, (*text).to_owned())).collect();
            assert_eq!(pieces(line), expected, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn every_byte_is_in_one_piece() {
        let hostile = "{\"a\":".repeat(5_000);
        for line in [hostile.as_str(), "x{}y{\"a\":[{}]}z", "{}{}{", "\u{e9}{}\u{e9}"] {
            let mut end = 0;
            split_line(line.as_bytes(), |at, piece| {
                assert_eq!(at, end, "{line}");
                end += match piece {
                    SourcePiece::Record { json, blanks } => json.len() + blanks.len(),
                    SourcePiece::Other(bytes) => bytes.len(),
                };
            });
            assert_eq!(end, line.len());
        }
    }
}
