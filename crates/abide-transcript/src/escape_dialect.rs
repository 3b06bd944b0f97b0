//! Identifies how a JSON string was escaped, so that its text can be encoded to the same bytes.
//!
//! JSON writers differ in what they escape. For the common ones the text and the dialect's name are
//! enough; any other string is kept in its encoded form.

use std::fmt::Write;

/// A style of escaping JSON strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EscapeDialect {
    /// Only what must be is escaped: serde, JavaScript, most others.
    Text,
    /// Everything outside ASCII is escaped: Python.
    Ascii,
    /// `<`, `>`, `&`, U+2028 and U+2029 are escaped too: Go.
    Html,
    /// None of these: the encoded string is kept, without its quotes.
    Json,
}

impl EscapeDialect {
    const ALL: [Self; 4] = [Self::Text, Self::Ascii, Self::Html, Self::Json];

    /// The mark that replaces the string.
    pub(crate) const fn mark(self) -> &'static str {
        match self {
            Self::Text => "<text>",
            Self::Ascii => "<ascii>",
            Self::Html => "<html>",
            Self::Json => "<json>",
        }
    }

    /// The dialect of the mark at the start.
    pub(crate) fn of_mark(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| text.starts_with(dialect.mark()))
    }

    /// The dialect of a JSON string, given with its quotes, and its text.
    pub(crate) fn of(raw: &str) -> (Self, String) {
        if let Ok(text) = serde_json::from_str::<String>(raw) {
            for dialect in [Self::Text, Self::Ascii, Self::Html] {
                let mut again = String::with_capacity(raw.len());
                dialect.write(&text, &mut again);
                if again == raw {
                    return (dialect, text);
                }
            }
        }
        let inner = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
        (Self::Json, inner.unwrap_or(raw).to_owned())
    }

    /// Encodes a text as a JSON string, with its quotes.
    pub(crate) fn write(self, text: &str, out: &mut String) {
        out.push('"');
        if self == Self::Json {
            out.push_str(text);
        } else {
            text.chars().for_each(|c| self.write_char(c, out));
        }
        out.push('"');
    }

    fn write_char(self, c: char, out: &mut String) {
        let short = match c {
            '"' | '\\' => Some(c),
            '\u{8}' => Some('b'),
            '\t' => Some('t'),
            '\n' => Some('n'),
            '\u{c}' => Some('f'),
            '\r' => Some('r'),
            _ => None,
        };
        if let Some(short) = short {
            out.push('\\');
            out.push(short);
            return;
        }
        let long = c < ' '
            || match self {
                Self::Text | Self::Json => false,
                Self::Ascii => c > '~',
                Self::Html => matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}'),
            };
        if !long {
            out.push(c);
            return;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_writers_of_json_are_known() {
        let of = |raw: &str| {
            let (dialect, text) = EscapeDialect::of(raw);
            let mut again = String::new();
            dialect.write(&text, &mut again);
            assert_eq!(again, raw);
            (dialect, text)
        };
        assert_eq!(of(r#""a\n\"é🦀\u0001""#), (EscapeDialect::Text, "a\n\"é🦀\u{1}".to_owned()));
        assert_eq!(
            of(r#""\u00e9\ud83e\udd80\u007f""#),
            (EscapeDialect::Ascii, "é🦀\u{7f}".to_owned())
        );
        assert_eq!(of(r#""\u003cb\u003eé""#), (EscapeDialect::Html, "<b>é".to_owned()));
        for odd in [r#""\u00E9""#, r#""\/""#, r#""\ud800""#, r#""\u000a""#, r#""\u00e9é""#] {
            assert_eq!(of(odd), (EscapeDialect::Json, odd.trim_matches('"').to_owned()));
        }
    }
}
