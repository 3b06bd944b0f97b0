//! Errors of a stream.

use std::str::Utf8Error;

use thiserror::Error;

/// Why a stream cannot be parsed further. What it yielded before stays valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The data of an event is not valid JSON, or not of the expected shape.
    #[error("byte {at} of the stream: {reason}, at `{excerpt}`")]
    Malformed {
        /// The offset in the stream; for data of several lines, where the data begins.
        at: u64,
        /// What is wrong.
        reason: String,
        /// The text around the error.
        excerpt: String,
    },
    /// A line or event is too long.
    #[error("byte {at} of the stream: event longer than {limit} bytes")]
    EventTooLong {
        /// The offset where it begins.
        at: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer is too long.
    #[error("answer longer than {limit} bytes")]
    AnswerTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer has too many blocks.
    #[error("answer has more than {limit} blocks")]
    TooManyBlocks {
        /// The limit.
        limit: usize,
    },
    /// Too many calls are open at once.
    #[error("more than {limit} calls open at once")]
    TooManyCalls {
        /// The limit.
        limit: usize,
    },
}

/// Bytes shown before and after the error in an excerpt.
const SHOWN: usize = 24;
/// The most characters of the reason, which may quote the input.
const REASON: usize = 300;

impl StreamError {
    /// An error of serde in event data that begins at offset `begins`.
    pub(super) fn malformed(error: &serde_json::Error, data: &[u8], begins: u64) -> Self {
        let place = if error.line() <= 1 { error.column().saturating_sub(1) } else { 0 };
        let reason = error.to_string();
        // The offset in the stream replaces serde's position.
        let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(what, _)| what);
        Self::found(reason, place, data, begins)
    }

    /// Data that is not UTF-8.
    pub(super) fn not_text(error: Utf8Error, data: &[u8], begins: u64) -> Self {
        let place = error.valid_up_to();
        let first = data.get(..place).is_some_and(|before| !before.contains(&b'\n'));
        Self::found("not UTF-8", if first { place } else { 0 }, data, begins)
    }

    fn found(reason: &str, place: usize, data: &[u8], begins: u64) -> Self {
        let place = place.min(data.len());
        let from = place.saturating_sub(SHOWN);
        let shown = data.get(from..data.len().min(place + SHOWN)).unwrap_or_default();
        let excerpt = harmless(String::from_utf8_lossy(shown).trim_matches('\u{fffd}'), SHOWN * 2);
        let at = begins.saturating_add(place as u64);
        Self::Malformed { at, reason: harmless(reason, REASON), excerpt }
    }
}

/// Makes a peer's text safe to show: escapes control characters and keeps the first `most`
/// characters.
pub(super) fn harmless(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most));
    for (count, c) in text.chars().enumerate() {
        if count == most {
            shown.push('…');
            break;
        }
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}
