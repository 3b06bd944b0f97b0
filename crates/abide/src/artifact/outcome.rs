//! How a command ended, as the result of a tool call tells it.

use std::borrow::Cow;

use abide_model::ToolResult;
use abide_model::json::{RawJsonFields, decode_string, encoded_string, list};
use serde_json::value::RawValue;

/// How deep the result of a call is looked through.
const DEPTH: usize = 6;

/// What an agent reports of a command that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeReport {
    /// It succeeded: its exit code was 0.
    Success,
    /// It failed, or was not run.
    Failure,
    /// It ended; nothing is said of its exit code.
    Unknown,
}

/// How a command ended, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutcome {
    /// What the agent reports.
    pub report: OutcomeReport,
    /// Its exit code.
    pub exit: Option<i32>,
    /// What it printed.
    pub output: String,
    /// Parts of the output are missing; its end is there.
    pub is_cut: bool,
}

impl CommandOutcome {
    /// Reads the result of a call. Exit codes are found in the fields `exit_code` and `exitCode`,
    /// and in a first line `Exit code N` of a call that failed.
    #[must_use]
    pub fn of_result(result: &ToolResult) -> Self {
        let report = if result.ok { OutcomeReport::Success } else { OutcomeReport::Failure };
        let mut outcome = Self { report, exit: None, output: String::new(), is_cut: false };
        if let Some(result) = &result.result {
            outcome.read(result, DEPTH);
        }
        let (first, rest) =
            outcome.output.split_once('\n').unwrap_or((outcome.output.as_str(), ""));
        let code = first.strip_prefix("Exit code ").and_then(|code| code.trim().parse().ok());
        if !result.ok && outcome.exit.is_none() && code.is_some() {
            outcome.exit = code;
            outcome.output = rest.to_owned();
        }
        outcome.is_cut = outcome.output.lines().any(is_cut_mark);
        outcome
    }

    /// The exit code in the result of a call.
    #[must_use]
    pub fn exit_of(result: &RawValue) -> Option<i32> {
        RawJsonFields::of(result.get()).as_ref().and_then(exit_field)
    }

    fn read(&mut self, value: &RawValue, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        if let Some(text) = encoded_string(value) {
            self.push(&decode_string(text));
        } else if let Some(items) = list(value) {
            items.into_iter().for_each(|item| self.read(item, depth));
        } else if let Some(fields) = RawJsonFields::of(value.get()) {
            self.exit = exit_field(&fields).or(self.exit);
            // One of them holds all; stdout and stderr are two halves.
            let whole = ["output", "aggregated_output", "formatted_output", "text", "content"];
            match whole.iter().find_map(|name| fields.get(name)) {
                Some(inner) => self.read(inner, depth),
                None => {
                    for name in ["stdout", "stderr"] {
                        if let Some(text) = fields.decoded(name) {
                            self.push(&text);
                        }
                    }
                }
            }
        }
    }

    fn push(&mut self, text: &str) {
        if !self.output.is_empty() && !self.output.ends_with('\n') {
            self.output.push('\n');
        }
        self.output.push_str(text);
    }
}

/// Agents report −1 for a command that they did not run.
fn exit_field(fields: &RawJsonFields<'_>) -> Option<i32> {
    let code = fields.get("exit_code").or_else(|| fields.get("exitCode"))?;
    code.get().parse().ok().filter(|code| *code >= 0)
}

/// `... [12 lines truncated] ...`, `[... omitted 3 of 9 lines ...]`, in which agents say what they
/// left out.
fn is_cut_mark(line: &str) -> bool {
    let line = line.trim();
    line.len() < 200
        && (line.contains("truncated") || line.contains("omitted"))
        && ["...", "…", "[..."].iter().any(|mark| line.starts_with(mark))
}

/// A text without the escape sequences of terminals: colours, cursor movements, titles, links.
pub(super) fn plain_text(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = match escape.as_bytes().first() {
            Some(b'[') => after_control_sequence(escape),
            Some(b']') => after_command_string(escape),
            Some(b'\\') => escape.get(1..).unwrap_or_default(),
            _ => escape,
        };
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// What follows `[`, parameters and a last letter. A sequence that is not whole ends where it breaks.
fn after_control_sequence(escape: &str) -> &str {
    let sequence = escape.get(1..).unwrap_or_default();
    let end = sequence.find(|c| !(' '..='?').contains(&c)).unwrap_or(sequence.len());
    let rest = sequence.get(end..).unwrap_or_default();
    rest.strip_prefix(|c| ('@'..='~').contains(&c)).unwrap_or(rest)
}

/// What follows `]` and a text up to a bell or another escape. One that does not end in its line is
/// none.
fn after_command_string(escape: &str) -> &str {
    match escape.find(['\x07', '\x1b', '\n']) {
        Some(end) if escape.as_bytes().get(end) == Some(&b'\n') => escape,
        Some(end) => escape.get(end..).map_or("", |rest| rest.strip_prefix('\x07').unwrap_or(rest)),
        None => escape,
    }
}

/// The end of a text, whole characters only.
pub(super) fn output_tail(text: &str, most: usize) -> &str {
    let from = text.len().saturating_sub(most);
    (from..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}
