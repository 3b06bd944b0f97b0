//! JSON strings decoded, with the way back from the decoded text to the bytes of the document.

use std::borrow::Cow;
use std::cell::OnceCell;

/// A string's content, decoded.
pub(crate) struct DecodedString<'d> {
    /// The text. A surrogate without its partner is U+FFFD in it.
    pub text: Cow<'d, str>,
    raw: &'d str,
    /// The escapes, in order. Most strings have no secret, and their escapes are never asked for.
    escapes: OnceCell<Vec<EscapePlace>>,
}

/// Small, because a text may be all escapes.
struct EscapePlace {
    text_start: u32,
    raw_start: u32,
    text_length: u8,
    raw_length: u8,
}

impl EscapePlace {
    /// `None` if the text is longer than any event.
    fn new(text: (usize, usize), raw: (usize, usize)) -> Option<Self> {
        Some(Self {
            text_start: u32::try_from(text.0).ok()?,
            raw_start: u32::try_from(raw.0).ok()?,
            text_length: u8::try_from(text.1).ok()?,
            raw_length: u8::try_from(raw.1).ok()?,
        })
    }

    const fn text_end(&self) -> usize {
        self.text_start as usize + self.text_length as usize
    }

    const fn raw_end(&self) -> usize {
        self.raw_start as usize + self.raw_length as usize
    }
}

impl<'d> DecodedString<'d> {
    /// Decodes what stands between the quotes. Nothing if it has an escape that JSON has not.
    pub(crate) fn new(raw: &'d str) -> Option<Self> {
        let bytes = raw.as_bytes();
        let mut text = String::new();
        let mut done = 0;
        for found in memchr::memchr_iter(b'\\', bytes) {
            if found < done {
                // The second of two.
                continue;
            }
            if text.capacity() == 0 {
                // The places of escapes have 32 bits.
                u32::try_from(raw.len()).ok()?;
                text.reserve_exact(raw.len());
            }
            text.push_str(raw.get(done..found)?);
            let (character, length) = read_escape(bytes.get(found..)?)?;
            text.push(character);
            done = found + length;
        }
        let text = if done == 0 {
            Cow::Borrowed(raw)
        } else {
            text.push_str(raw.get(done..)?);
            Cow::Owned(text)
        };
        Some(Self { text, raw, escapes: OnceCell::new() })
    }

    /// Where in the raw content a place between two characters of the text stands.
    pub(crate) fn raw_place(&self, place: usize) -> usize {
        let escapes = self.escapes.get_or_init(|| escapes_of(self.raw).unwrap_or_default());
        let after = escapes.partition_point(|escape| (escape.text_start as usize) < place);
        match after.checked_sub(1).and_then(|last| escapes.get(last)) {
            Some(escape) => escape.raw_end() + place.saturating_sub(escape.text_end()),
            None => escapes.first().map_or(place, |first| place.min(first.raw_start as usize)),
        }
    }
}

/// The escapes of a string that was decoded.
fn escapes_of(raw: &str) -> Option<Vec<EscapePlace>> {
    let mut escapes = Vec::new();
    let (mut text_end, mut done) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', raw.as_bytes().get(done..)?) {
        let raw_start = done + found;
        let (character, length) = read_escape(raw.as_bytes().get(raw_start..)?)?;
        let in_text = (text_end + found, character.len_utf8());
        escapes.push(EscapePlace::new(in_text, (raw_start, length))?);
        text_end = in_text.0 + in_text.1;
        done = raw_start + length;
    }
    Some(escapes)
}

/// The character of the escape that begins here, and the escape's length.
fn read_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let character = match *bytes.get(1)? {
        byte @ (b'"' | b'\\' | b'/') => char::from(byte),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let unit = read_unit(bytes)?;
            if (0xd800..0xdc00).contains(&unit)
                && let Some(low) =
                    bytes.get(6..).and_then(read_unit).filter(|low| (0xdc00..0xe000).contains(low))
            {
                let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Some((char::from_u32(code)?, 12));
            }
            return Some((char::from_u32(unit).unwrap_or('\u{fffd}'), 6));
        }
        _ => return None,
    };
    Some((character, 2))
}

fn read_unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_leads_back_to_its_bytes() {
        let raw = r#"a\nb\u00e9\ud83d\ude00c\ud800d\/"#;
        let decoded = DecodedString::new(raw).unwrap();
        assert_eq!(decoded.text, "a\nbé😀c\u{fffd}d/");
        let places = [
            (0, 0),
            (1, 1),
            (2, 3),
            (3, 4),
            (5, 10),
            (9, 22),
            (10, 23),
            (13, 29),
            (14, 30),
            (15, 32),
        ];
        for (text, raw_place) in places {
            assert_eq!(decoded.raw_place(text), raw_place, "{text}");
        }
        let many = DecodedString::new(r"\\\\\n").unwrap();
        assert_eq!((many.text.as_ref(), many.raw_place(2)), ("\\\\\n", 4));
        assert!(DecodedString::new(r"\x").is_none());
        assert!(DecodedString::new(r"\\\").is_none());
        assert!(DecodedString::new(r"\u12").is_none());
        assert_eq!(DecodedString::new("plain").unwrap().raw_place(3), 3);
    }
}
