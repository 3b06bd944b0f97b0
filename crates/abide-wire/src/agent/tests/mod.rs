//! What agents print, read whole and cut.

mod claude;
mod codex;
mod gemini;
mod hostile;
mod properties;
mod text;

use abide_model::{Timestamp, Usage};

use super::*;

/// 2025-11-15T09:46:40Z
pub(super) const NOW: i64 = 1_763_200_000_000;

/// What a reader tells of an output that comes in these pieces.
pub(super) fn read(mut reader: AgentReader, pieces: &[&[u8]]) -> Vec<String> {
    let mut told = Vec::new();
    let mut see = |seen: Seen| told.push(line(&seen));
    for piece in pieces {
        reader.feed(piece, Timestamp::from_millis(NOW), &mut see);
    }
    reader.finish(&mut see);
    told
}

pub(super) fn told(kind: AgentKind, output: &str) -> Vec<String> {
    read(AgentReader::new(kind), &[output.as_bytes()])
}

/// The same, whatever the cuts: in two at each byte, and byte by byte.
pub(super) fn told_however_cut(kind: AgentKind, output: &str) -> Vec<String> {
    let whole = told(kind, output);
    let bytes = output.as_bytes();
    for at in 0..=bytes.len() {
        let (left, right) = bytes.split_at(at);
        assert_eq!(read(AgentReader::new(kind), &[left, right]), whole, "cut at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(AgentReader::new(kind), &single), whole, "byte by byte");
    whole
}

/// One line for what was seen.
pub(super) fn line(seen: &Seen) -> String {
    let said = match &seen.what {
        Observed::Session { id } => format!("session {id}"),
        Observed::Model { name } => format!("model {name}"),
        Observed::Message { data } => format!("message {data}"),
        Observed::Called { call, name, arguments } => {
            format!("called {call} {name} {}", arguments.as_ref().map_or("-", |raw| raw.get()))
        }
        Observed::Finished { call, ok, result } => {
            let sign = if *ok { "ok" } else { "not ok" };
            format!("finished {call} {sign} {}", result.as_ref().map_or("-", |raw| raw.get()))
        }
        Observed::Touched { path, op } => format!("touched {path} {}", op.as_str()),
        Observed::Usage { model, usage } => {
            format!("usage {} {}", model.as_deref().unwrap_or("-"), numbers(usage))
        }
        Observed::Limited(limited) => {
            let resets = limited.resets.map_or("-".to_owned(), |at| at.to_string());
            format!("limited {} {resets} {}", limited.name, limited.text)
        }
        Observed::Note { level, text } => format!("{level} {text}"),
        Observed::Step { text } => format!("step {text}"),
        Observed::Outcome { ok, text } => {
            let sign = if *ok { "ok" } else { "not ok" };
            format!("outcome {sign} {}", text.as_deref().unwrap_or("-"))
        }
    };
    match &seen.subagent {
        None => said,
        Some(name) => format!("{name}: {said}"),
    }
}

/// In, out, read from and written to the cache, thought, paid.
fn numbers(usage: &Usage) -> String {
    let all = [
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        usage.cost_micros,
    ];
    all.map(|number| number.to_string()).join("/")
}

#[test]
fn kinds_have_names() {
    for kind in AgentKind::ALL {
        assert_eq!(kind.as_str().parse::<AgentKind>(), Ok(kind));
        assert_eq!(kind.to_string(), kind.as_str());
    }
    let unknown = "Claude".parse::<AgentKind>().unwrap_err().to_string();
    assert_eq!(unknown, "`Claude` is no kind of agent; there are claude, codex, gemini and text");
}

#[test]
fn plain_lines_between_events_are_notes_and_unknown_events_are_counted() {
    for kind in [AgentKind::Claude, AgentKind::Codex, AgentKind::Gemini] {
        let output = "Warning: \u{1b}[31mold\u{1b}[0m node\r\n{\"type\":\"of.tomorrow\"}\n[1]\n\n  \
                      42\n{\"torn\":\n{\"no\":\"type\"}\n{\"type\":7}\nAPI Error: 429 Too Many \
                      Requests\n{\"type\":\"half";
        let whole = told_however_cut(kind, output);
        assert_eq!(
            whole,
            [
                "info Warning: old node",
                "info [1]",
                "info 42",
                "info {\"torn\":",
                "limited rate - API Error: 429 Too Many Requests",
                "info API Error: 429 Too Many Requests",
                "info {\"type\":\"half",
            ]
        );
        let mut reader = AgentReader::new(kind);
        reader.feed(output.as_bytes(), Timestamp::from_millis(NOW), &mut |_| {});
        assert_eq!(reader.passed_over(), 3);
    }
}
