//! The root and the pages of a state, and the events after them.
//!
//! Parts of the input: the root, events as lines, and then pages, given out in turn.

use std::convert::Infallible;

use abide_model::{NewEvent, PageRef, Seq, SessionState, StatePageSink, Timestamp};

use crate::input::parts;

/// Keeps pages by number.
#[derive(Default)]
struct Kept(Vec<Vec<u8>>);

impl StatePageSink for Kept {
    type Error = Infallible;

    fn put(&mut self, page: Vec<u8>) -> Result<PageRef, Infallible> {
        self.0.push(page);
        Ok(PageRef(self.0.len() as u64 - 1, 0))
    }
}

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let parts = parts(data);
    let pages: Vec<&[u8]> = parts.get(2..).unwrap_or_default().to_vec();
    // Sums vouch that a fold has counted what is read, and none counts so far.
    if counts_beyond(parts[0]) || pages.iter().any(|page| counts_beyond(page)) {
        return false;
    }
    let Ok(mut state) = SessionState::restore(parts[0]) else { return false };
    let away = state.away();
    if away.len() > 4096 {
        return false;
    }
    for (index, page) in away.iter().enumerate() {
        assert!(state.page_ref(*page).is_some());
        let Some(bytes) = pages.get(index % pages.len().max(1)) else { break };
        if state.install(*page, bytes).is_err() {
            return false;
        }
    }
    if !state.is_whole() {
        return false;
    }
    let _ = state.is_sound();
    let events = parts.get(1).copied().unwrap_or_default();
    let mut seq = state.core.seq;
    for line in events.split(|byte| *byte == b'\n').take(16) {
        let Ok(text) = std::str::from_utf8(line) else { continue };
        let Ok(new) = NewEvent::parse(text) else { continue };
        seq = seq.next();
        let event = new.into_event(seq, Timestamp::from_millis(1_763_169_600_000));
        assert!(state.missing(&event).is_empty(), "a whole state asks for a page");
        state.apply(&event);
        assert!(seq == Seq(u64::MAX) || state.core.seq == seq);
    }
    come_back(&mut state);
    true
}

/// Is there a number of more than eighteen digits, other than in a digest?
fn counts_beyond(part: &[u8]) -> bool {
    let text = String::from_utf8_lossy(part);
    let mut pieces = text.split("\"digest\":[");
    let first = pieces.next();
    let behind = pieces.map(|piece| piece.split_once(']').map_or("", |(_, behind)| behind));
    let mut numbers = first
        .into_iter()
        .chain(behind)
        .flat_map(|piece| piece.split(|c: char| !c.is_ascii_digit()));
    numbers.any(|digits| digits.len() > 18)
}

/// What is saved is restored, and is the same.
fn come_back(state: &mut SessionState) {
    let digest = state.digest();
    state.unsave();
    let mut kept = Kept::default();
    let Ok(root) = state.save(&mut kept);
    let mut again = SessionState::restore(&root).expect("it was just saved");
    assert_eq!(again.digest(), digest, "the digest of a root");
    for page in again.away() {
        let at = again.page_ref(page).expect("it is away");
        again.install(page, &kept.0[at.0 as usize]).expect("it was just saved");
    }
    assert!(again.is_whole());
    assert_eq!(again.digest(), digest);
    assert_eq!(again.is_sound(), state.is_sound());
}
