//! Makes invisible characters visible, reversibly.
//!
//! Control characters, bidirectional controls and the like are written as `\u{1b}`. A backslash is
//! escaped only where `u{` follows it, so nearly all text stays as it is. [`read_visible`] reverses
//! [`write_visible`] for every text.

use std::borrow::Cow;
use std::fmt::Write;

use crate::escape::is_harmful;

/// Whether the character is escaped. Tabs are harmless.
const fn is_hidden(c: char) -> bool {
    is_harmful(c) && c != '\t'
}

/// Writes text with hidden characters escaped. The result has no line break.
pub(crate) fn write_visible(out: &mut String, text: &str) {
    if !text.contains(is_hidden) && !text.contains("\\u{") {
        out.push_str(text);
        return;
    }
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if is_hidden(c) || (c == '\\' && rest.as_str().starts_with("u{")) {
            // Writing to a string does not fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
}

/// Reverses [`write_visible`].
pub(crate) fn read_visible(visible: &str) -> Cow<'_, str> {
    if !visible.contains("\\u{") {
        return Cow::Borrowed(visible);
    }
    let mut text = String::with_capacity(visible.len());
    let mut rest = visible;
    while let Some(at) = rest.find("\\u{") {
        let (before, escape) = rest.split_at(at);
        text.push_str(before);
        match parse_visible_escape(escape) {
            Some((c, behind)) => {
                text.push(c);
                rest = behind;
            }
            None => {
                text.push_str("\\u{");
                rest = escape.get(3..).unwrap_or_default();
            }
        }
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// Decodes the escape at the start, and returns the rest.
fn parse_visible_escape(escape: &str) -> Option<(char, &str)> {
    let digits = escape.strip_prefix("\\u{")?;
    // Look at six digits at most, however long the rest is.
    let end = digits.bytes().take(7).position(|b| b == b'}')?;
    let (digits, behind) = (digits.get(..end)?, digits.get(end + 1..)?);
    let number = u32::from_str_radix(digits, 16).ok()?;
    Some((char::from_u32(number)?, behind))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn visible(text: &str) -> String {
        let mut out = String::new();
        write_visible(&mut out, text);
        out
    }

    #[test]
    fn only_what_is_hidden_is_written_otherwise() {
        assert_eq!(visible("C:\\new\t\"x\" Grüße 🦀"), "C:\\new\t\"x\" Grüße 🦀");
        assert_eq!(
            visible("\u{1b}[2J\r\0\u{202e}\u{2028}"),
            "\\u{1b}[2J\\u{d}\\u{0}\\u{202e}\\u{2028}"
        );
        assert_eq!(visible("\\u{1b}"), "\\u{5c}u{1b}");
    }

    #[test]
    fn what_is_no_escape_is_left() {
        for odd in
            ["\\u{", "\\u{}", "\\u{110000}", "\\u{d800}", "\\u{0000041}", "\\u{+41}x", "\\\\u{"]
        {
            let _ = read_visible(odd);
        }
        assert_eq!(read_visible("\\u{zz}\\u{41}"), "\\u{zz}A");
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in "(\\PC|[\\\\u{}0-9a-f\u{0}-\u{1f}\u{7f}-\u{9f}\u{2028}-\u{202e}\u{2066}]){0,40}") {
            let shown = visible(&text);
            prop_assert!(!shown.contains(is_hidden));
            prop_assert_eq!(read_visible(&shown), text);
        }
    }
}
