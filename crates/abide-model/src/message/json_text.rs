//! Values and strings inside a payload, as they are encoded there.

use std::borrow::Cow;
use std::fmt;

use crate::Payload;
use crate::json::{decode_string, write_string};

/// A value inside a payload, as raw JSON. Clones share the payload.
#[derive(Clone)]
pub struct RawJson {
    data: Payload,
    start: u32,
    end: u32,
}

impl RawJson {
    /// The longest payload whose values can be addressed.
    pub(super) const LONGEST: usize = u32::MAX as usize;

    /// A part of a payload's text, which must be a slice of it.
    pub(super) fn within(data: &Payload, part: &str) -> Self {
        let start = part.as_ptr().addr().wrapping_sub(data.as_str().as_ptr().addr());
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self {
            data: data.clone(),
            start: offset(start),
            end: offset(start.saturating_add(part.len())),
        }
    }

    /// The JSON text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.data.as_str().get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

/// A string: encoded, as it is in its payload, or plain.
///
/// A string that moves from one message to another stays encoded. That avoids needless decoding and
/// preserves escapes that no Rust string can hold.
#[derive(Debug, Clone)]
pub enum JsonText {
    /// Encoded, quotes included.
    Json(RawJson),
    /// Decoded.
    Plain(Cow<'static, str>),
}

impl JsonText {
    /// Decoded.
    #[must_use]
    pub fn decoded(&self) -> Cow<'_, str> {
        match self {
            Self::Json(json) => decode_string(json.get()),
            Self::Plain(text) => Cow::Borrowed(text),
        }
    }

    /// Writes it as a JSON string.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Json(json) => out.push_str(json.get()),
            Self::Plain(text) => write_string(out, text),
        }
    }

    /// Whether it is empty or white space.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        if let Self::Json(json) = self {
            let first = json.get().bytes().skip(1).find(|byte| *byte != b' ');
            if first.is_some_and(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\')) {
                return false;
            }
        }
        self.decoded().trim().is_empty()
    }
}

impl From<String> for JsonText {
    fn from(text: String) -> Self {
        Self::Plain(text.into())
    }
}

impl From<&'static str> for JsonText {
    fn from(text: &'static str) -> Self {
        Self::Plain(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_is_what_shows_nothing() {
        for (json, blank) in [
            (r#""""#, true),
            (r#""  ""#, true),
            (r#""\n\t \u00a0""#, true),
            (r#""\n x""#, false),
            (r#"" \\ ""#, false),
            (r#"" é""#, false),
        ] {
            let data = Payload::from_stored(json.into());
            let text = JsonText::Json(RawJson::within(&data, data.as_str()));
            assert_eq!(text.is_blank(), blank, "{json}");
        }
    }

    #[test]
    fn a_part_is_found_in_its_payload_and_nothing_else_is() {
        let data = Payload::from_stored(r#"{"a":"é"}"#.into());
        assert_eq!(RawJson::within(&data, &data.as_str()[5..9]).get(), "\"é\"");
        assert_eq!(RawJson::within(&data, &data.as_str()[9..]).get(), "}");
        assert_eq!(RawJson::within(&data, "elsewhere").get(), "");
    }
}
