//! Lossless text form of a path: UTF-8 as it is, other bytes as `\xNN`, a backslash as `\\`. For
//! `#[serde(with = "abide_model::path_text")]`, and for records.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serializer};

/// The text form of a path.
#[must_use]
pub fn text(path: &Path) -> String {
    let mut text = String::new();
    for part in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(&part.valid().replace('\\', r"\\"));
        for byte in part.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// The path of a text form. A backslash that starts no escape stands for itself.
#[must_use]
pub fn path(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        rest = after;
        if let Some(after) = rest.strip_prefix('\\') {
            bytes.push(b'\\');
            rest = after;
        } else if let Some((byte, after)) = escaped_path_byte(rest) {
            bytes.push(byte);
            rest = after;
        } else {
            bytes.push(b'\\');
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    PathBuf::from(OsString::from_vec(bytes))
}

/// The byte of an `xNN` escape, and the text after it.
fn escaped_path_byte(text: &str) -> Option<(u8, &str)> {
    let (digits, after) = text.strip_prefix('x')?.split_at_checked(2)?;
    let hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let byte = hex.then(|| u8::from_str_radix(digits, 16).ok()).flatten()?;
    Some((byte, after))
}

/// Serialises a path in its text form.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(path))
}

/// Deserialises a path from its text form.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    String::deserialize(deserializer).map(|text| path(&text))
}

/// Serialises an optional path.
pub(crate) fn serialize_some<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serialize(path, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_is_readable_and_comes_back() {
        let of = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        for (bytes, expected) in [
            (&b"sessions/a-b/journal"[..], "sessions/a-b/journal"),
            (b"\xc3\xa4/n\xff", "\u{e4}/n\\xff"),
            (b"\\xff", r"\\xff"),
            (b"", ""),
        ] {
            assert_eq!(text(&of(bytes)), expected);
            assert_eq!(path(expected), of(bytes));
        }
        assert_eq!(path(r"a\b\xzz\x1"), of(br"a\b\xzz\x1"));
    }

    proptest! {
        #[test]
        fn every_path_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let before = PathBuf::from(OsString::from_vec(bytes));
            prop_assert_eq!(path(&text(&before)), before);
        }
    }
}
