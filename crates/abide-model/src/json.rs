//! Partial JSON parsing: fields, lists and strings, each in its original encoding.
//!
//! A string that moves from one message to another stays encoded. That avoids needless decoding and
//! preserves escapes that no Rust string can hold.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The fields of an object, in order, duplicates included.
#[derive(Debug, Clone, Default)]
pub struct RawJsonFields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawJsonFields<'a> {
    /// Parses an object; `None` if it is not one.
    #[must_use]
    #[inline]
    pub fn of(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// A field's value, unless it is `null`. The last duplicate counts.
    #[must_use]
    #[inline]
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.any(name).filter(|raw| raw.get() != "null")
    }

    /// A field's value, even if it is `null`.
    #[must_use]
    pub fn any(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, raw)| *raw)
    }

    /// Every value of a field, in order.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &'a RawValue> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, raw)| *raw)
    }

    /// The fields with their values, in order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, raw)| (&**key, *raw))
    }

    /// The value of a string field, still encoded.
    #[must_use]
    #[inline]
    pub fn encoded(&self, name: &str) -> Option<&'a str> {
        encoded_string(self.any(name)?)
    }

    /// The decoded value of a string field.
    #[must_use]
    #[inline]
    pub fn decoded(&self, name: &str) -> Option<Cow<'a, str>> {
        self.encoded(name).map(decode_string)
    }

    /// The value of a boolean field.
    #[must_use]
    #[inline]
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)?.get() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The object as JSON without one field.
    #[must_use]
    pub fn without(&self, name: &str) -> String {
        self.rewritten(|key, raw| (key != name).then_some(Cow::Borrowed(raw)))
    }

    /// The object as JSON with each value replaced by what `value` returns; `None` drops the field.
    #[must_use]
    pub fn rewritten<'s>(
        &'s self,
        mut value: impl FnMut(&'s str, &'a str) -> Option<Cow<'s, str>>,
    ) -> String {
        let mut out = "{".to_owned();
        for (key, raw) in &self.0 {
            let Some(value) = value(key, raw.get()) else { continue };
            if out.len() > 1 {
                out.push(',');
            }
            write_string(&mut out, key);
            out.push(':');
            out.push_str(&value);
        }
        out.push('}');
        out
    }

    /// The field names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| &**key)
    }
}

/// A decoded JSON string. An unpaired surrogate becomes U+FFFD.
struct LossyJsonText<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for LossyJsonText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LossyTextVisitor;
        impl<'de> Visitor<'de> for LossyTextVisitor {
            type Value = LossyJsonText<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a string")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(LossyJsonText(String::from_utf8_lossy(bytes)))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(LossyJsonText(Cow::Owned(String::from_utf8_lossy(bytes).into_owned())))
            }
        }
        deserializer.deserialize_bytes(LossyTextVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawJsonFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawFieldsVisitor;
        impl<'de> Visitor<'de> for RawFieldsVisitor {
            type Value = RawJsonFields<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(4);
                while let Some((LossyJsonText(name), value)) =
                    map.next_entry::<LossyJsonText<'de>, _>()?
                {
                    fields.push((name, value));
                }
                Ok(RawJsonFields(fields))
            }
        }
        deserializer.deserialize_map(RawFieldsVisitor)
    }
}

/// The elements of an array; `None` if it is not one.
#[must_use]
#[inline]
pub fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    if !raw.get().starts_with('[') {
        return None;
    }
    serde_json::from_str(raw.get()).ok()
}

/// What a parser says about JSON, with the place in it. A text of one line has no number of the line: a
/// caller that reads lines knows it better.
#[must_use]
pub fn parser_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line 1 column {}", error.column());
    match text.strip_suffix(&place) {
        Some(reason) => format!("{reason} at column {}", error.column()),
        None => text,
    }
}

/// A string as it is encoded, quotes included; `None` if the value is something else.
#[must_use]
#[inline]
pub fn encoded_string(raw: &RawValue) -> Option<&str> {
    Some(raw.get()).filter(|json| json.starts_with('"'))
}

/// Decodes a JSON string. An unpaired surrogate becomes U+FFFD.
#[must_use]
pub fn decode_string(json: &str) -> Cow<'_, str> {
    let inner = json.get(1..json.len().saturating_sub(1)).unwrap_or_default();
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner);
    }
    serde_json::from_str::<LossyJsonText<'_>>(json)
        .map_or(Cow::Borrowed(inner), |LossyJsonText(text)| text)
}

/// Encodes text as a JSON string, as `serde_json` does, which looks at one byte after the other. It is
/// on the append path.
pub fn write_string(out: &mut String, text: &str) {
    // Some room for escapes, so that it rarely has to grow.
    out.reserve(text.len() + text.len() / 16 + 2);
    out.push('"');
    let bytes = text.as_bytes();
    let rare = has_rare_control(bytes);
    let mut done = 0;
    while let Some((found, byte)) = next_escaped(bytes, done, rare) {
        out.push_str(text.get(done..found).unwrap_or_default());
        match byte {
            b'\n' => out.push_str("\\n"),
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            byte => out.push_str(&format!("\\u{byte:04x}")),
        }
        done = found + 1;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out.push('"');
}

/// Is there a control character other than a line feed? Many bytes are looked at side by side.
fn has_rare_control(bytes: &[u8]) -> bool {
    let rare = |byte: &u8| u8::from(*byte < b' ') & u8::from(*byte != b'\n');
    let (blocks, end) = bytes.as_chunks::<64>();
    let mut found = 0;
    for block in blocks {
        for byte in block {
            found |= rare(byte);
        }
    }
    found != 0 || end.iter().any(|byte| rare(byte) != 0)
}

/// The next byte that a JSON string must escape, and where it is.
fn next_escaped(bytes: &[u8], from: usize, rare: bool) -> Option<(usize, u8)> {
    let rest = bytes.get(from..)?;
    if !rare {
        let place = memchr::memchr3(b'"', b'\\', b'\n', rest)?;
        return Some((from + place, *rest.get(place)?));
    }
    let (words, end) = rest.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let marks = escaped_bytes(u64::from_le_bytes(*word));
        if marks != 0 {
            let place = (marks.trailing_zeros() / 8) as usize;
            return Some((from + index * 8 + place, *word.get(place)?));
        }
    }
    let place = end.iter().position(|byte| *byte < b' ' || matches!(byte, b'"' | b'\\'))?;
    Some((from + words.len() * 8 + place, *end.get(place)?))
}

/// Marks the highest bit of the first of eight bytes that must be escaped, and perhaps of some behind it;
/// 0 if there is none. A subtraction borrows only from the bytes behind one that is found.
const fn escaped_bytes(word: u64) -> u64 {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    let control = word.wrapping_sub(EACH * b' ' as u64);
    let quote = (word ^ (EACH * b'"' as u64)).wrapping_sub(EACH);
    let backslash = (word ^ (EACH * b'\\' as u64)).wrapping_sub(EACH);
    (control | quote | backslash) & !word & (EACH << 7)
}

/// Replaces the escape of an unpaired surrogate, which no string can hold and strict parsers
/// reject, by that of U+FFFD.
#[must_use]
pub fn mend_surrogates(text: String) -> String {
    let bytes = text.as_bytes();
    let mut mended: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(found) =
        bytes.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)).map(|next| at + next)
    {
        // Skip the character after a backslash, so that `\\u` is not taken for an escape.
        at = found + 2;
        let Some(unit) = unit(bytes, found) else { continue };
        at = found + 6;
        let alone = match unit {
            0xd800..=0xdbff => {
                let low = self::unit(bytes, at).is_some_and(|low| (0xdc00..=0xdfff).contains(&low));
                if low {
                    at += 6;
                }
                !low
            }
            0xdc00..=0xdfff => true,
            _ => false,
        };
        if alone {
            let mended = mended.get_or_insert_with(|| bytes.to_vec());
            if let Some(place) = mended.get_mut(found + 2..found + 6) {
                place.copy_from_slice(b"fffd");
            }
        }
    }
    match mended.map(String::from_utf8) {
        Some(Ok(mended)) => mended,
        _ => text,
    }
}

/// The UTF-16 unit of the escape `\uXXXX` at this position.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_written_as_they_are_read() {
        for text in ["", "a", "\"\\\n\r\t\u{1}\u{7f}é😀", "\\u0041", " \u{0}x"] {
            let mut out = String::new();
            write_string(&mut out, text);
            assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
            assert_eq!(decode_string(&out), text);
        }
        assert_eq!(decode_string(r#""a\ud800b""#), "a\u{fffd}\u{fffd}\u{fffd}b");
    }

    #[test]
    fn every_character_is_escaped_as_serde_does_wherever_it_stands() {
        let characters = (0..=0x100).chain([0x7ff, 0x800, 0x2028, 0xffff, 0x1_0000, 0x10_ffff]);
        for character in characters.filter_map(char::from_u32) {
            for place in 0..20 {
                for times in [1, 2, 9] {
                    let mut text = "~".repeat(place);
                    text.extend(std::iter::repeat_n(character, times));
                    text.push_str("!\u{7f}é");
                    let mut out = String::new();
                    write_string(&mut out, &text);
                    assert_eq!(out, serde_json::to_string(&text).unwrap());
                }
            }
        }
    }

    #[test]
    fn halves_of_surrogate_pairs_are_replaced_and_whole_ones_stay() {
        for (text, mended) in [
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ude00\ud83d\ud83d\ude00""#, r#""\ufffd\ufffd\ud83d\ude00""#),
            (r#""\\ud83d\u00e9""#, r#""\\ud83d\u00e9""#),
        ] {
            assert_eq!(mend_surrogates(text.to_owned()), mended);
        }
    }

    #[test]
    fn of_a_field_that_stands_twice_the_last_counts() {
        let fields = RawJsonFields::of(r#"{"a":1,"\u0061":2,"b":null,"\ud800":3}"#).unwrap();
        assert_eq!(fields.get("a").map(RawValue::get), Some("2"));
        assert!(fields.get("b").is_none() && fields.any("b").is_some());
        assert_eq!(fields.names().count(), 4);
        assert!(RawJsonFields::of("[]").is_none());
    }
}
