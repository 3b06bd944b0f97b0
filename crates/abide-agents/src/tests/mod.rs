//! What agents print, read whole and cut.

pub(crate) mod hook_payloads;
mod hostile;
pub(crate) mod kept_records;
mod properties;
pub(crate) mod record_lines;

use abide_model::{Timestamp, Usage};

use super::*;

/// 2025-11-15T09:46:40Z
pub(crate) const NOW: i64 = 1_763_200_000_000;

pub(crate) fn kind(name: &str) -> AgentKind {
    name.parse().unwrap()
}

/// Those that print events.
pub(crate) fn printing_events() -> impl Iterator<Item = AgentKind> {
    AgentKind::all().filter(|kind| !kind.prints_text())
}

/// The words of a command.
pub(crate) fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

/// Checks what each command is taken for.
pub(crate) fn are_detected(commands: &[(&str, AgentKind)]) {
    for (command, kind) in commands {
        assert_eq!(AgentKind::detect(&words(command)), *kind, "{command}");
    }
}

/// Checks that no command goes on in this session.
pub(crate) fn is_not_resumed(kind: AgentKind, command: &str, session: &str) {
    assert_eq!(kind.resume(&words(command), session), None, "{command} {session}");
}

/// What a reader tells of an output that comes in these pieces.
pub(crate) fn read(mut reader: AgentReader, pieces: &[&[u8]]) -> Vec<String> {
    let mut told = Vec::new();
    let mut see = |seen: OutputObservation| told.push(line(&seen));
    for piece in pieces {
        reader.feed(piece, Timestamp::from_millis(NOW), &mut see);
    }
    reader.finish(&mut see);
    told
}

pub(crate) fn told(kind: AgentKind, output: &str) -> Vec<String> {
    read(AgentReader::new(kind), &[output.as_bytes()])
}

/// The same, whatever the cuts: in two at each byte, and byte by byte.
pub(crate) fn told_however_cut(kind: AgentKind, output: &str) -> Vec<String> {
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

/// The same, for an output that is too long for every cut: in pieces of some lengths.
pub(crate) fn told_in_pieces(kind: AgentKind, output: &str) -> Vec<String> {
    let whole = told(kind, output);
    for length in [1, 7, 1000] {
        let pieces: Vec<&[u8]> = output.as_bytes().chunks(length).collect();
        assert_eq!(read(AgentReader::new(kind), &pieces), whole, "pieces of {length}");
    }
    whole
}

/// The lines that begin so, without that beginning.
pub(crate) fn told_as<'a>(told: &'a [String], beginning: &str) -> Vec<&'a str> {
    told.iter().filter_map(|line| line.strip_prefix(beginning)).collect()
}

/// The ids in lines of the sort that begin so.
pub(crate) fn told_ids<'a>(told: &'a [String], beginning: &str) -> Vec<&'a str> {
    let lines = told_as(told, beginning).into_iter();
    lines.filter_map(|line| line.split(' ').next()).collect()
}

/// One line for what was seen.
pub(crate) fn line(seen: &OutputObservation) -> String {
    let said = match &seen.what {
        ObservedFact::Session { id } => format!("session {id}"),
        ObservedFact::Model { name } => format!("model {name}"),
        ObservedFact::Message { data } => format!("message {data}"),
        ObservedFact::Called { call, name, arguments } => {
            format!("called {call} {name} {}", arguments.as_ref().map_or("-", |raw| raw.get()))
        }
        ObservedFact::Finished { call, ok, result } => {
            let sign = if *ok { "ok" } else { "not ok" };
            format!("finished {call} {sign} {}", result.as_ref().map_or("-", |raw| raw.get()))
        }
        ObservedFact::Touched { path, op } => format!("touched {path} {}", op.as_str()),
        ObservedFact::Usage { model, usage } => {
            format!("usage {} {}", model.as_deref().unwrap_or("-"), numbers(usage))
        }
        ObservedFact::Limited(limited) => {
            let resets = limited.resets.map_or("-".to_owned(), |at| at.to_string());
            format!("limited {} {resets} {}", limited.name, limited.text)
        }
        ObservedFact::Note { level, text } => format!("{level} {text}"),
        ObservedFact::Step { text } => format!("step {text}"),
        ObservedFact::Outcome { ok, text } => {
            let sign = if *ok { "ok" } else { "not ok" };
            format!("outcome {sign} {}", text.as_deref().unwrap_or("-"))
        }
    };
    match &seen.subagent {
        None => said,
        Some(name) => format!("{name}: {said}"),
    }
}

/// How many bytes of messages, results and notes were told.
pub(crate) fn told_bytes(
    kind: AgentKind,
    pieces: &mut dyn Iterator<Item = Vec<u8>>,
) -> (usize, Vec<String>) {
    let mut reader = AgentReader::new(kind);
    let (mut most, mut last) = (0, Vec::new());
    let mut see = |seen: OutputObservation| {
        let line = line(&seen);
        most = most.max(line.len());
        last.push(line.chars().take(120).collect::<String>());
    };
    for piece in pieces {
        reader.feed(&piece, Timestamp::from_millis(NOW), &mut see);
    }
    reader.finish(&mut see);
    (most, last)
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
    for kind in AgentKind::all() {
        assert_eq!(kind.as_str().parse::<AgentKind>(), Ok(kind));
        assert_eq!(kind.to_string(), kind.as_str());
    }
    let unknown = "Claude".parse::<AgentKind>().unwrap_err().to_string();
    assert_eq!(
        unknown,
        "`Claude` is no kind of agent; there are claude, codex, gemini, opencode, aider and text"
    );
}

#[test]
fn kinds_are_told_apart_and_stand_in_order() {
    let all: Vec<AgentKind> = AgentKind::all().collect();
    assert!(all.is_sorted_by(|left, right| left < right));
    let apart: std::collections::HashSet<AgentKind> = all.iter().copied().collect();
    assert_eq!(apart.len(), all.len());
    let text: Vec<&str> =
        all.iter().filter(|kind| kind.prints_text()).map(|kind| kind.as_str()).collect();
    assert_eq!(text, ["aider", "text"]);
    assert_eq!(format!("{:?}", all[0]), "AgentKind(\"claude\")");
}

#[test]
fn what_starts_no_agent_prints_text() {
    let text = kind("text");
    are_detected(&[
        ("make", text),
        ("bash -c codex", text),
        ("mycodex exec --json", text),
        ("env", text),
        ("", text),
    ]);
    assert_eq!(AgentKind::detect(&[]), text);
}

#[test]
fn a_command_goes_on_with_its_own_agent_in_a_session_that_has_a_name() {
    is_not_resumed(kind("text"), "make", "ID");
    is_not_resumed(kind("codex"), "make", "ID");
    is_not_resumed(kind("claude"), "codex exec --json -", "ID");
    // A session's name is what the agent printed, and no option.
    for session in ["", "--dangerously", "a b", "a\nb", "\u{1b}[0m", &"x".repeat(300)] {
        is_not_resumed(kind("codex"), "codex exec --json -", session);
    }
}

#[test]
fn plain_lines_between_events_are_notes_and_unknown_events_are_counted() {
    for kind in printing_events() {
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

#[test]
fn the_arguments_that_print_events_are_named_where_they_are_missing() {
    for command in ["claude -p hi", "codex exec hi", "gemini -p hi", "opencode run hi"] {
        let asked = words(command);
        let kind = AgentKind::started_by(&asked).unwrap();
        let arguments = kind.event_arguments(&asked).unwrap();
        let told = words(&format!("{} {arguments} hi", kind.as_str()));
        assert_eq!(AgentKind::detect(&told), kind, "{command}");
        assert_eq!(kind.event_arguments(&told), None, "{command}");
    }
    for command in ["claude doctor", "aider --message hi"] {
        let asked = words(command);
        let kind = AgentKind::started_by(&asked).unwrap();
        assert_eq!(kind.event_arguments(&asked), None, "{command}");
    }
}
