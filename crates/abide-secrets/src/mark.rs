//! The mark that stands where a secret was.
//!
//! `‹redacted:RULE:HASH›`: the rule that found it, and the first eight hexadecimal digits of a keyed hash
//! of its bytes; in a key, by which events are told apart, the first 32. `‹redacted:unscanned:N bytes›` stands for a text that was not scanned to its end. A mark is
//! never part of a finding, so that redacting twice changes nothing.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

/// How every mark begins.
pub(crate) const OPENING: &str = "‹redacted:";
/// No mark is longer.
pub(crate) const LONGEST_MARK: usize = 112;
const CLOSING: &str = "›";
const LONGEST_RULE: usize = 64;

/// How many digits of the hash a mark has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkDigits {
    /// Enough to recognize a secret.
    Few = 8,
    /// Enough that no two secrets ever have the same mark.
    Many = 32,
}

/// Where the bytes of a key come from.
type KeyBytes = LazyLock<[u8; 32], Box<dyn FnOnce() -> [u8; 32] + Send>>;

/// The key of the hash in marks. Without it, a guess at a secret cannot be checked against its mark.
#[derive(Clone)]
pub struct MarkKey(Arc<KeyBytes>);

impl MarkKey {
    /// A key from random bytes, which the caller keeps.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self::when_needed(move || bytes)
    }

    /// A key that is fetched when the first mark is made. Clones fetch it once together.
    #[must_use]
    pub fn when_needed(fetch: impl FnOnce() -> [u8; 32] + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(fetch))))
    }

    /// Appends the mark of a secret.
    pub(crate) fn write_mark(
        &self,
        rule: &str,
        secret: &[u8],
        digits: MarkDigits,
        out: &mut String,
    ) {
        let hash = blake3::keyed_hash(&self.0, secret);
        out.push_str(OPENING);
        out.push_str(rule);
        out.push(':');
        for byte in hash.as_bytes().iter().take(digits as usize / 2) {
            let _ = write!(out, "{byte:02x}");
        }
        out.push_str(CLOSING);
    }
}

impl std::fmt::Debug for MarkKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MarkKey(..)")
    }
}

/// The mark of a text that was not scanned to its end.
#[must_use]
pub fn unscanned_mark(bytes: u64) -> String {
    format!("{OPENING}unscanned:{bytes} bytes{CLOSING}")
}

/// Whether a mark stands in a text: what was there is not known any more.
#[must_use]
pub fn has_mark(text: &str) -> bool {
    first_mark(text.as_bytes(), 0, text.len()).is_some()
}

/// Whether a rule may have this id: it stands in marks.
pub(crate) fn is_rule_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= LONGEST_RULE && id.bytes().all(is_id_byte) && id != "unscanned"
}

const fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'_')
}

/// What stands at the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkReading {
    /// A mark of this length.
    Mark(usize),
    /// The bytes end within what may be a mark.
    Unfinished,
    /// No mark.
    Other,
}

/// Reads the mark at the beginning of `bytes`.
pub(crate) fn read_mark(bytes: &[u8]) -> MarkReading {
    let opening = OPENING.as_bytes();
    let Some(after) = bytes.strip_prefix(opening) else {
        return if opening.starts_with(bytes) {
            MarkReading::Unfinished
        } else {
            MarkReading::Other
        };
    };
    let id_length = after.iter().take_while(|byte| is_id_byte(**byte)).count();
    let Some((id, rest)) = after.split_at_checked(id_length) else { return MarkReading::Other };
    if id.is_empty() || id.len() > LONGEST_RULE {
        return if rest.is_empty() && id.is_empty() {
            MarkReading::Unfinished
        } else {
            MarkReading::Other
        };
    }
    let Some((colon, rest)) = rest.split_first() else { return MarkReading::Unfinished };
    if *colon != b':' {
        return MarkReading::Other;
    }
    let digits = if id == b"unscanned" {
        rest.iter().take(20).take_while(|byte| byte.is_ascii_digit()).count()
    } else {
        let is_digit = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        rest.iter().take(MarkDigits::Many as usize).take_while(is_digit).count()
    };
    let tail = rest.get(digits..).unwrap_or_default();
    let wanted: &[u8] =
        if id == b"unscanned" { " bytes›".as_bytes() } else { CLOSING.as_bytes() };
    let enough = if id == b"unscanned" {
        digits > 0
    } else {
        [MarkDigits::Few, MarkDigits::Many].iter().any(|wanted| *wanted as usize == digits)
    };
    if tail.is_empty() {
        MarkReading::Unfinished
    } else if !enough {
        MarkReading::Other
    } else if tail.starts_with(wanted) {
        MarkReading::Mark(opening.len() + id.len() + 1 + digits + wanted.len())
    } else if wanted.starts_with(tail) {
        MarkReading::Unfinished
    } else {
        MarkReading::Other
    }
}

/// The first mark at or after `from` that begins before `end`.
pub(crate) fn first_mark(bytes: &[u8], from: usize, end: usize) -> Option<usize> {
    let mut start = from;
    while let Some(found) = bytes
        .get(start..(end + 2).min(bytes.len()))
        .and_then(|part| memchr::memmem::find(part, "‹".as_bytes()))
    {
        let place = start + found;
        if place >= end {
            return None;
        }
        if let Some(MarkReading::Mark(_)) = bytes.get(place..).map(read_mark) {
            return Some(place);
        }
        start = place + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_and_nothing_else_is() {
        let mut mark = String::new();
        for digits in [MarkDigits::Many, MarkDigits::Few] {
            mark.clear();
            MarkKey::new([1; 32]).write_mark("github-token", b"secret", digits, &mut mark);
            assert_eq!(read_mark(mark.as_bytes()), MarkReading::Mark(mark.len()));
            for cut in 0..mark.len() {
                assert_eq!(read_mark(&mark.as_bytes()[..cut]), MarkReading::Unfinished, "{cut}");
            }
        }
        let longest = "a".repeat(LONGEST_RULE);
        let mut many = String::new();
        MarkKey::new([1; 32]).write_mark(&longest, b"secret", MarkDigits::Many, &mut many);
        assert!(many.len() <= LONGEST_MARK, "{}", many.len());
        let unscanned = unscanned_mark(12_345);
        assert_eq!(read_mark(unscanned.as_bytes()), MarkReading::Mark(unscanned.len()));
        assert!(unscanned.len() < LONGEST_MARK);
        for other in [
            "‹redacted:github token:7f3a91c2›",
            "‹redacted:a:7f3a91c›",
            "‹redacted::7f3a91c2›",
            "‹redacted:a:7f3a91c27f3a91c2›",
            "redacted",
        ] {
            assert_eq!(read_mark(other.as_bytes()), MarkReading::Other, "{other}");
        }
        assert_eq!(first_mark(format!("ab‹ {mark}").as_bytes(), 0, 20), Some(6));
        assert!(
            has_mark(&format!("ab {mark}")) && has_mark(&unscanned) && !has_mark("‹redacted:a›")
        );
    }

    #[test]
    fn a_key_is_fetched_once_and_only_for_a_mark() {
        let fetched = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = fetched.clone();
        let key = MarkKey::when_needed(move || {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            [1; 32]
        });
        let (other, mut out) = (key.clone(), String::new());
        assert_eq!(fetched.load(std::sync::atomic::Ordering::Relaxed), 0);
        key.write_mark("a", b"x", MarkDigits::Few, &mut out);
        other.write_mark("a", b"x", MarkDigits::Few, &mut out);
        assert_eq!(fetched.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert_eq!(out.len() % 2, 0);
        assert_eq!(out.split_at(out.len() / 2).0, out.split_at(out.len() / 2).1);
    }

    #[test]
    fn the_same_secret_has_the_same_mark_and_another_key_another() {
        let mark = |key: u8, secret: &[u8]| {
            let mut out = String::new();
            MarkKey::new([key; 32]).write_mark("a", secret, MarkDigits::Few, &mut out);
            out
        };
        assert_eq!(mark(1, b"x"), mark(1, b"x"));
        assert_ne!(mark(1, b"x"), mark(1, b"y"));
        assert_ne!(mark(1, b"x"), mark(2, b"x"));
    }
}
