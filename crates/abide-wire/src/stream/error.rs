//! Why a stream cannot be read on.

use std::str::Utf8Error;

use thiserror::Error;

/// A stream cannot be read on. What it brought before stays good.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StreamError {
    /// The data of an event is not the JSON it should be.
    #[error("byte {at} of the stream: {reason}, at `{excerpt}`")]
    Malformed {
        /// Where in the stream; in data of several lines, where the data begin.
        at: u64,
        /// What is wrong.
        reason: String,
        /// What stands there.
        excerpt: String,
    },
    /// A line or an event is longer than allowed.
    #[error("byte {at} of the stream: an event of more than {limit} bytes")]
    EventTooLong {
        /// Where it begins.
        at: u64,
        /// How long it may be.
        limit: usize,
    },
    /// The answer is longer than allowed.
    #[error("an answer of more than {limit} bytes")]
    AnswerTooLong {
        /// How long it may be.
        limit: usize,
    },
    /// The answer has more blocks than allowed.
    #[error("an answer of more than {limit} blocks")]
    TooManyBlocks {
        /// How many it may have.
        limit: usize,
    },
    /// More calls are open at once than allowed.
    #[error("more than {limit} calls open at once")]
    TooManyCalls {
        /// How many may be.
        limit: usize,
    },
}

/// How many bytes of an excerpt are shown before and behind the place.
const SHOWN: usize = 24;
/// How many characters of the reason are told: it may quote what it found.
const REASON: usize = 300;

impl StreamError {
    /// What serde found in the data of an event that begin at a byte of the stream.
    pub(super) fn malformed(error: &serde_json::Error, data: &[u8], begins: u64) -> Self {
        let place = if error.line() <= 1 { error.column().saturating_sub(1) } else { 0 };
        let reason = error.to_string();
        // The place within the event is said by the byte of the stream.
        let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(what, _)| what);
        Self::found(reason, place, data, begins)
    }

    /// Data that are not UTF-8.
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

/// Text of a peer's that can be shown: its control characters are escaped, and of more than so many
/// characters the first are told.
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
