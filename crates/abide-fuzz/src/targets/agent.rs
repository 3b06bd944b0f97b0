//! What an agent prints, of any kind, whole and cut.
//!
//! The first byte says which agent, the next ones how long the pieces are, in turns.

use abide_agents::{AgentKind, AgentReader, ObservedFact, OutputObservation, limit_in};
use abide_model::Timestamp;

/// How many lengths of pieces an input begins with.
const LENGTHS: usize = 4;

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let Some(([wish, lengths @ ..], bytes)) = data.split_first_chunk::<{ LENGTHS + 1 }>() else {
        return false;
    };
    let Some(kind) = AgentKind::all().cycle().nth(usize::from(*wish)) else { return false };
    let whole = read(kind, [bytes].into_iter());
    let mut rest = bytes;
    let mut lengths = lengths.iter().cycle();
    let cut = read(
        kind,
        std::iter::from_fn(|| {
            let length = lengths.next().map_or(1, |length| usize::from(*length) + 1);
            let (piece, behind) = rest.split_at(length.min(rest.len()));
            rest = behind;
            (!piece.is_empty()).then_some(piece)
        }),
    );
    assert_eq!(whole, cut, "a cut made a difference");
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Some(limited) = limit_in(text, now()) {
            assert!(limited.text.len() <= 500);
            assert!(limited.resets.is_none_or(|at| at >= now()));
        }
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        for kind in AgentKind::all() {
            let _ = kind.resume(&words, "session");
        }
        let found = AgentKind::detect(&words);
        // What prints events of an agent is a command of that agent.
        assert!(found.prints_text() || words.len() > 1);
    }
    !whole.is_empty()
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_763_200_000_000)
}

/// Everything told, one after the other; steps are told once a piece, and are no record.
fn read<'a>(kind: AgentKind, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut reader = AgentReader::new(kind);
    let mut told = Vec::new();
    let mut see = |seen: OutputObservation| {
        check(&seen);
        if !matches!(seen.what, ObservedFact::Step { .. }) {
            told.push(format!("{seen:?}"));
        }
    };
    for piece in pieces {
        reader.feed(piece, now(), &mut see);
    }
    reader.finish(&mut see);
    told
}

/// What is told is sound by itself.
fn check(seen: &OutputObservation) {
    match &seen.what {
        ObservedFact::Message { data } => {
            let data: serde_json::Value = serde_json::from_str(data.get()).unwrap_or_default();
            // Deep ones cannot be looked into here.
            assert!(data.is_object() || data.is_null());
        }
        ObservedFact::Step { text } => {
            assert!(text.chars().count() <= 120 && !text.contains(['\n', '\u{1b}']));
        }
        ObservedFact::Note { level, .. } => assert!(["info", "warning", "error"].contains(level)),
        ObservedFact::Limited(limited) => assert!(!limited.name.is_empty()),
        _ => {}
    }
}
