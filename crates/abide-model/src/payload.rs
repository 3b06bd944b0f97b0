//! The data of an event: the caller's JSON, verbatim, on one line.
//!
//! A payload is never re-serialised: numbers beyond 2^64, duplicate keys, lone surrogates and the
//! order of keys are preserved. The only change is that line breaks between tokens become spaces,
//! so that an event is one line.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{EventLimits, InputError};

/// A JSON object, verbatim. Clones share the text, so a message with many results is held once in a
/// context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(Arc<String>);

/// Maximum length of a leaf's pointer in bytes.
const MAX_POINTER: usize = 256;

/// How the bytes of an object encode the JSON string they were taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeafEncoding {
    /// The text itself. Serialising it gives the original string byte for byte.
    Text,
    /// The JSON string verbatim, with quotes and escapes.
    Json,
}

/// A string taken out of a payload, and where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadLeaf {
    /// JSON pointer to it; empty if longer than 256 bytes.
    pub pointer: String,
    /// Offset of the empty string that replaces it in the remaining payload.
    pub offset: usize,
    /// How `bytes` encode it.
    pub encoding: LeafEncoding,
    /// The bytes to store as an object.
    pub bytes: Vec<u8>,
}

impl PayloadLeaf {
    /// The JSON string with quotes; `None` if the bytes do not match `encoding`.
    #[must_use]
    pub fn to_json(encoding: LeafEncoding, bytes: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(bytes).ok()?;
        match encoding {
            LeafEncoding::Text => serde_json::to_string(text).ok(),
            LeafEncoding::Json => {
                let is_string =
                    text.starts_with('"') && serde_json::from_str::<&RawValue>(text).is_ok();
                is_string.then(|| text.to_owned())
            }
        }
    }
}

/// The structure of a payload.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PayloadLeaves {
    /// The nesting depth; 1 for a flat object.
    pub depth: usize,
    /// Strings longer than the threshold: pointer, start and end offset, including the quotes.
    pub large: Vec<(String, usize, usize)>,
}

impl Payload {
    /// Parses a caller's JSON and checks it against `limits`.
    pub fn new(text: &str, limits: &EventLimits) -> Result<Self, InputError> {
        if text.len() > limits.event_bytes {
            return Err(InputError::TooLarge { limit: limits.event_bytes });
        }
        let raw: &RawValue = serde_json::from_str(text).map_err(InputError::json)?;
        Self::from_raw(raw, limits)
    }

    /// Takes JSON that serde has already parsed, and checks it against `limits`.
    pub fn from_raw(raw: &RawValue, limits: &EventLimits) -> Result<Self, InputError> {
        Self::checked(raw.get().to_owned(), limits, None::<fn(&str)>)
    }

    /// The same, and visits the name of each top-level field, verbatim and with quotes.
    pub(crate) fn from_raw_naming(
        raw: &RawValue,
        limits: &EventLimits,
        name: impl FnMut(&str),
    ) -> Result<Self, InputError> {
        Self::checked(raw.get().to_owned(), limits, Some(name))
    }

    /// Gives back what the text does not need, unless it is less than copying is worth.
    fn owned(mut text: String) -> Self {
        if text.capacity() - text.len() > text.len() / 8 + 64 {
            text.shrink_to_fit();
        }
        Self(Arc::new(text))
    }

    /// Checks well-formed JSON against `limits`. Visits the names of its top-level fields, if wanted.
    fn checked(
        text: String,
        limits: &EventLimits,
        name: Option<impl FnMut(&str)>,
    ) -> Result<Self, InputError> {
        if text.len() > limits.event_bytes {
            return Err(InputError::TooLarge { limit: limits.event_bytes });
        }
        if !text.starts_with('{') {
            return Err(InputError::NotAnObject);
        }
        let glance = PayloadGlance::at(text.as_bytes(), limits.depth);
        // The text is walked only for the names, or if its brackets are not few enough.
        let depth = match name {
            Some(name) => payload_leaves(&text, usize::MAX, name).depth,
            None if glance.brackets > limits.depth => {
                payload_leaves(&text, usize::MAX, |_| ()).depth
            }
            None => glance.brackets,
        };
        if depth > limits.depth {
            return Err(InputError::TooDeep { limit: limits.depth });
        }
        // A string cannot contain a raw line break, so every one here is between tokens.
        let text = if glance.broken { text.replace(['\n', '\r'], " ") } else { text };
        Ok(Self::owned(text))
    }

    /// Takes JSON that we have just written: an object of little depth, on one line.
    pub(crate) fn of_own(text: String) -> Result<Self, InputError> {
        let limit = EventLimits::default().event_bytes;
        if text.len() > limit { Err(InputError::TooLarge { limit }) } else { Ok(Self::owned(text)) }
    }

    /// Serialises a value of one of our own types.
    pub fn of<T: Serialize>(value: &T) -> Result<Self, InputError> {
        // serde writes well-formed JSON, so only size and shape are checked.
        let text = serde_json::to_string(value).map_err(InputError::json)?;
        Self::checked(text, &EventLimits::default(), None::<fn(&str)>)
    }

    /// Takes a payload read from a store. The caller has verified its checksum. Its JSON was
    /// checked when it was recorded; if it is not JSON after all, decoding it fails.
    #[must_use]
    pub fn from_stored(text: Box<str>) -> Self {
        Self(Arc::new(text.into_string()))
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Decodes it into a type.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// The value of a top-level field as written; the first one if the field is duplicated. Skips
    /// the rest without parsing it, so the result for malformed JSON is unspecified.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let bytes = self.0.as_bytes();
        let start = self.field_start(&[name])?;
        let mut depth = 1_usize;
        let mut at = start;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    at = payload_string_end(bytes, at);
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' | b',' if depth == 1 => return self.0.get(start..at).map(str::trim),
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// Is there a top-level field of one of these names? Reads up to its value.
    #[must_use]
    pub fn has_any_field(&self, names: &[&str]) -> bool {
        self.field_start(names).is_some()
    }

    /// The payload with this JSON as the value of a top-level field: in the place of its first value,
    /// or else at the end. All other bytes stay as they are.
    #[must_use]
    pub fn with_field(&self, name: &str, value: &str) -> Self {
        let text = self.as_str();
        if let (Some(start), Some(old)) = (self.field_start(&[name]), self.field(name)) {
            let blank = text.get(start..).map_or(0, |rest| rest.len() - rest.trim_start().len());
            let before = text.get(..start + blank).unwrap_or_default();
            let after = text.get(start + blank + old.len()..).unwrap_or_default();
            return Self::owned([before, value, after].concat());
        }
        let inner = text.trim_end().strip_suffix('}').unwrap_or(text).trim_end();
        let comma = if inner.ends_with('{') { "" } else { "," };
        let name = serde_json::Value::from(name);
        Self::owned(format!("{inner}{comma}{name}:{value}}}"))
    }

    /// Where the value of the first top-level field of one of these names starts.
    fn field_start(&self, names: &[&str]) -> Option<usize> {
        let bytes = self.0.as_bytes();
        let mut depth = 0_usize;
        let mut at = 0;
        // Start and end of the last top-level string.
        let mut key = (0, 0);
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    let end = payload_string_end(bytes, at);
                    if depth == 1 {
                        key = (at + 1, end.saturating_sub(1));
                    }
                    at = end;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b':' if depth == 1 => {
                    let name = bytes.get(key.0..key.1).unwrap_or_default();
                    if names.iter().any(|wanted| wanted.as_bytes() == name) {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// Visits every string value in order, verbatim and with quotes, together with the name of its
    /// field. A string in an array has the name of the array's field. Names are not unescaped.
    pub fn each_string(&self, visit: impl FnMut(&str, &str)) {
        self.each_string_outside("", visit);
    }

    /// Like [`Payload::each_string`], without what is in the top-level field of this name.
    pub fn each_string_outside(&self, left_out: &str, mut visit: impl FnMut(&str, &str)) {
        let bytes = self.0.as_bytes();
        // Names of the open fields; an array has the name of the field it is in.
        let mut open: Vec<(bool, &str)> = Vec::new();
        let mut name = "";
        let mut key_next = false;
        let mut is_left_out = false;
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    let end = payload_string_end(bytes, at);
                    let raw = self.0.get(at..end).unwrap_or_default();
                    if key_next {
                        name = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
                        key_next = false;
                        if open.len() == 1 {
                            is_left_out = !left_out.is_empty() && name == left_out;
                        }
                    } else if !is_left_out {
                        visit(name, raw);
                    }
                    at = end;
                    continue;
                }
                b'{' | b'[' => {
                    open.push((byte == b'{', name));
                    key_next = byte == b'{';
                }
                b'}' | b']' => {
                    open.pop();
                    key_next = false;
                }
                b',' => match open.last() {
                    Some((true, _)) => key_next = true,
                    Some((false, outer)) => name = outer,
                    None => {}
                },
                _ => {}
            }
            at += 1;
        }
    }

    /// Removes the strings of more than `threshold` bytes and leaves `""` in their places.
    #[must_use]
    pub fn take_leaves(self, threshold: usize) -> (Self, Vec<PayloadLeaf>) {
        if self.0.len() <= threshold {
            return (self, Vec::new());
        }
        let found = payload_leaves(&self.0, threshold, |_| ()).large;
        if found.is_empty() {
            return (self, Vec::new());
        }
        let mut rest = String::new();
        let mut leaves = Vec::with_capacity(found.len());
        let mut done = 0;
        for (pointer, start, end) in found {
            let (Some(before), Some(raw)) = (self.0.get(done..start), self.0.get(start..end))
            else {
                continue;
            };
            rest.push_str(before);
            let (encoding, bytes) = match serde_json::from_str::<String>(raw) {
                Ok(text) if serde_json::to_string(&text).is_ok_and(|again| again == raw) => {
                    (LeafEncoding::Text, text.into_bytes())
                }
                _ => (LeafEncoding::Json, raw.as_bytes().to_vec()),
            };
            // Restoring uses the offset alone. The pointer is for people and is kept only if short:
            // the list of leaves must never be larger than the strings it replaces.
            let pointer = if pointer.len() <= MAX_POINTER { pointer } else { String::new() };
            leaves.push(PayloadLeaf { pointer, offset: rest.len(), encoding, bytes });
            rest.push_str("\"\"");
            done = end;
        }
        rest.push_str(self.0.get(done..).unwrap_or_default());
        (Self::owned(rest), leaves)
    }

    /// Puts JSON strings back where [`Payload::take_leaves`] removed them; `None` if an offset does
    /// not fit. `strings` must be in order of their offsets.
    #[must_use]
    pub fn put_leaves(self, strings: &[(usize, String)]) -> Option<Self> {
        let mut whole = String::with_capacity(
            self.0.len() + strings.iter().map(|(_, json)| json.len()).sum::<usize>(),
        );
        let mut done = 0;
        for (offset, json) in strings {
            whole.push_str(self.0.get(done..*offset)?);
            done = offset.checked_add(2)?;
            if self.0.get(*offset..done)? != "\"\"" {
                return None;
            }
            whole.push_str(json);
        }
        whole.push_str(self.0.get(done..)?);
        Some(Self::owned(whole))
    }
}

/// A step on the path to a value: the range of a raw object key, or an array index.
enum PointerStep {
    Key(usize, usize),
    Index(usize),
}

/// What many bytes at a time tell of a payload.
struct PayloadGlance {
    /// Opening brackets, those in strings too: no payload is nested deeper. Counted while there are few.
    brackets: usize,
    /// There is a line break.
    broken: bool,
}

impl PayloadGlance {
    /// Counts up to `few` brackets, or some more.
    fn at(bytes: &[u8], few: usize) -> Self {
        let mut seen = Self { brackets: 0, broken: false };
        // Few enough for the counts of a block to fit into bytes, which the compiler adds side by side.
        let (blocks, end) = bytes.as_chunks::<128>();
        for block in blocks {
            let (mut brackets, mut breaks) = (0_u8, 0_u8);
            for byte in block {
                // `[` and `{` differ in one bit.
                brackets += u8::from(byte | 0x20 == b'{');
                breaks |= u8::from(*byte == b'\n') | u8::from(*byte == b'\r');
            }
            seen.broken |= breaks != 0;
            if seen.brackets <= few {
                seen.brackets += usize::from(brackets);
            }
        }
        seen.brackets += end.iter().filter(|byte| **byte | 0x20 == b'{').count();
        seen.broken |= end.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
        seen
    }
}

/// Walks well-formed JSON once without allocating values. Visits the names of the top-level fields.
fn payload_leaves(text: &str, threshold: usize, mut name: impl FnMut(&str)) -> PayloadLeaves {
    let bytes = text.as_bytes();
    let mut found = PayloadLeaves::default();
    let mut path: Vec<PointerStep> = Vec::new();
    // In an object, a string is a key if it follows `{` or `,`.
    let mut key_next = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = payload_string_end(bytes, at);
                if key_next {
                    if path.len() == 1 {
                        name(text.get(at..end).unwrap_or_default());
                    }
                    if let Some(PointerStep::Key(start, stop)) = path.last_mut() {
                        (*start, *stop) = (at, end);
                    }
                    key_next = false;
                } else if end - at > threshold.saturating_add(2) {
                    found.large.push((payload_pointer(text, &path), at, end));
                }
                at = end;
                continue;
            }
            b'{' => {
                path.push(PointerStep::Key(at, at));
                key_next = true;
                found.depth = found.depth.max(path.len());
            }
            b'[' => {
                path.push(PointerStep::Index(0));
                key_next = false;
                found.depth = found.depth.max(path.len());
            }
            b'}' | b']' => {
                path.pop();
                key_next = false;
            }
            b',' => match path.last_mut() {
                Some(PointerStep::Index(index)) => *index += 1,
                Some(PointerStep::Key(..)) => key_next = true,
                None => {}
            },
            _ => {}
        }
        at += 1;
    }
    found
}

/// The offset after the closing quote of the JSON string that starts at `start`, or the end.
#[must_use]
pub fn payload_string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(rest) = bytes.get(at..) {
        match memchr::memchr2(b'"', b'\\', rest) {
            Some(found) if rest.get(found) == Some(&b'"') => return at + found + 1,
            Some(found) => at += found + 2,
            None => break,
        }
    }
    bytes.len()
}

fn payload_pointer(text: &str, path: &[PointerStep]) -> String {
    let mut out = String::new();
    for step in path {
        out.push('/');
        match step {
            PointerStep::Index(index) => out.push_str(&index.to_string()),
            PointerStep::Key(start, end) => {
                let raw = text.get(*start..*end).unwrap_or_default();
                let key = serde_json::from_str::<String>(raw)
                    .unwrap_or_else(|_| raw.trim_matches('"').to_owned());
                out.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken(text: &str, threshold: usize) -> (Payload, Vec<PayloadLeaf>) {
        Payload::new(text, &EventLimits::default()).unwrap().take_leaves(threshold)
    }

    fn back(rest: Payload, leaves: &[PayloadLeaf]) -> String {
        let strings: Vec<_> = leaves
            .iter()
            .map(|leaf| (leaf.offset, PayloadLeaf::to_json(leaf.encoding, &leaf.bytes).unwrap()))
            .collect();
        rest.put_leaves(&strings).unwrap().as_str().to_owned()
    }

    #[test]
    fn a_field_is_put_in_its_place_or_at_the_end() {
        for (text, wanted) in [
            ("{}", r#"{"n":[1]}"#),
            ("{ }", r#"{"n":[1]}"#),
            (r#"{"a":{"n":2} }"#, r#"{"a":{"n":2},"n":[1]}"#),
            (r#"{"n": {"x":"}"} ,"a":1}"#, r#"{"n": [1] ,"a":1}"#),
            (r#"{"a":"n","n":7}"#, r#"{"a":"n","n":[1]}"#),
        ] {
            let payload = Payload::from_stored(text.into()).with_field("n", "[1]");
            assert_eq!(payload.as_str(), wanted);
        }
    }

    #[test]
    fn large_strings_leave_and_come_back_verbatim() {
        let text = r#"{"a/b~":[1e400,"short",{"k":"a long string with \u00e9 and \"quotes\""}],"a":"second long string","a":"second long string"}"#;
        let (rest, leaves) = taken(text, 10);
        assert_eq!(rest.as_str(), r#"{"a/b~":[1e400,"short",{"k":""}],"a":"","a":""}"#);
        let pointers: Vec<_> = leaves.iter().map(|leaf| leaf.pointer.as_str()).collect();
        assert_eq!(pointers, ["/a~1b~0/2/k", "/a", "/a"]);
        // An escape that we would not write ourselves keeps its own spelling.
        assert_eq!(leaves[0].encoding, LeafEncoding::Json);
        assert_eq!(leaves[1].encoding, LeafEncoding::Text);
        assert_eq!(back(rest, &leaves), text);
    }

    #[test]
    fn a_field_is_found_without_reading_the_rest() {
        let text = r#"{ "a" : {"role":1}, "b":["role",{"x":"}\""}] ,"role" : "us\"er" , "role":2,"last":[1,2]}"#;
        let payload = Payload::new(text, &EventLimits::default()).unwrap();
        assert_eq!(payload.field("role"), Some(r#""us\"er""#));
        assert_eq!(payload.field("a"), Some(r#"{"role":1}"#));
        assert_eq!(payload.field("last"), Some("[1,2]"));
        assert_eq!(payload.field("x"), None);
        assert!(payload.has_any_field(&["x", "last"]) && !payload.has_any_field(&["x", "y"]));
        assert!(!Payload::from_stored("{\"role\"".into()).has_any_field(&["role"]));
        assert_eq!(Payload::from_stored("{\"role\"".into()).field("role"), None);
    }

    #[test]
    fn lone_surrogates_are_kept() {
        let text = r#"{"x":"\ud800 is not a character"}"#;
        let (rest, leaves) = taken(text, 4);
        assert_eq!(leaves[0].encoding, LeafEncoding::Json);
        assert_eq!(back(rest, &leaves), text);
    }

    #[test]
    fn only_objects_of_bounded_depth_are_taken() {
        let limits = EventLimits::default();
        assert!(matches!(Payload::new("[1]", &limits), Err(InputError::NotAnObject)));
        assert!(matches!(Payload::new("{\"a\":", &limits), Err(InputError::NotJson { .. })));
        let deep = |n: usize| format!("{{\"a\":{}{}}}", "[".repeat(n - 1), "]".repeat(n - 1));
        assert!(Payload::new(&deep(limits.depth), &limits).is_ok());
        assert!(matches!(
            Payload::new(&deep(limits.depth + 1), &limits),
            Err(InputError::TooDeep { .. })
        ));
        assert!(Payload::new(&deep(1_000_000), &limits).is_err());
        // Brackets in a string nest nothing, however many there are.
        let flat = format!("{{\"a\":\"{}\"}}", "[{".repeat(1000));
        assert_eq!(Payload::new(&flat, &limits).unwrap().as_str(), flat);
    }

    #[test]
    fn line_breaks_between_tokens_become_spaces() {
        let payload = Payload::new("{\n\"a\":\r\n1}", &EventLimits::default()).unwrap();
        assert_eq!(payload.as_str(), "{ \"a\":  1}");
        for place in 0..300 {
            for line_break in ["\n", "\r"] {
                let text = format!("{{\"a\":{}{line_break}1}}", " ".repeat(place));
                let payload = Payload::new(&text, &EventLimits::default()).unwrap();
                assert_eq!(payload.as_str(), text.replace(line_break, " "));
            }
        }
    }

    proptest! {
        #[test]
        fn any_object_comes_back(
            values in proptest::collection::vec((".{0,6}", ".{0,40}"), 0..8),
            threshold in 0usize..20,
        ) {
            let map: serde_json::Map<_, _> = values
                .into_iter()
                .map(|(key, value)| (key, serde_json::json!([{"v": value}])))
                .collect();
            let text = serde_json::to_string(&map).unwrap();
            let (rest, leaves) = taken(&text, threshold);
            prop_assert_eq!(back(rest, &leaves), text);
        }
    }
}
