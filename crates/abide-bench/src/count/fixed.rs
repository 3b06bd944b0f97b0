//! A store whose clock and randomness are the same every time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use abide::{LocalOptions, Timestamp, liveness::WriterHolder, maintenance::Upkeep};
use abide_journal::Environment;

use crate::Outcome;
use crate::fixture::Place;

/// When everything happens.
const START: i64 = 1_763_169_600_000;
const DAY: i64 = 86_400_000;

/// Which of the two that use a store one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Before anything is counted.
    Before,
    /// While it is counted.
    Counted,
}

/// The store in a directory.
pub(super) fn place(dir: &Path, when: When) -> Outcome<Place> {
    Place::with(dir, options(when))
}

pub(super) fn options(when: When) -> LocalOptions {
    let day = if when == When::Before { 0 } else { 1 };
    let clock = AtomicI64::new(START + day * DAY);
    let seed = AtomicU64::new(1 + day.unsigned_abs());
    let env = Environment {
        now: Arc::new(move || Timestamp::from_millis(clock.fetch_add(1, Ordering::Relaxed))),
        random: Arc::new(move |buffer| {
            for byte in buffer {
                // xorshift64
                let mut next = seed.load(Ordering::Relaxed);
                next ^= next << 13;
                next ^= next >> 7;
                next ^= next << 17;
                seed.store(next, Ordering::Relaxed);
                *byte = next.to_le_bytes()[3];
            }
        }),
        holder: WriterHolder { program: "count".to_owned(), ..WriterHolder::default() },
        boot: Some("one".to_owned()),
    };
    LocalOptions { env, upkeep: Upkeep::ByHand, ..LocalOptions::default() }
}

/// Text of a kilobyte, another for each number.
pub(super) fn text(number: usize) -> String {
    const WORDS: [&str; 16] = [
        "parser",
        "drops",
        "the",
        "last",
        "line",
        "when",
        "it",
        "has",
        "no",
        "newline",
        "test",
        "fails",
        "because",
        "\"buffer\"",
        "is\n",
        "empty",
    ];
    let mut text = String::with_capacity(1040);
    let mut state = number as u64 * 0x9e37_79b9 + 1;
    while text.len() < 1024 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[(state >> 60) as usize]);
        text.push(' ');
    }
    text.truncate(1024);
    text
}
