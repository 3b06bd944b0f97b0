//! How a command ended, as the result of a tool call tells it.

use std::borrow::Cow;

use abide_model::ToolResult;
use abide_model::json::{RawFields, decode_string, encoded_string, list};
use serde_json::value::RawValue;

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
}

impl CommandOutcome {
    /// Reads the result of a call. Exit codes are found in the fields `exit_code` and `exitCode`,
    /// and in a first line `Exit code N`.
    #[must_use]
    pub fn of_result(result: &ToolResult) -> Self {
        let report = if result.ok { OutcomeReport::Success } else { OutcomeReport::Failure };
        let mut outcome = Self { report, exit: None, output: String::new() };
        if let Some(result) = &result.result {
            outcome.read(result);
        }
        let (first, rest) =
            outcome.output.split_once('\n').unwrap_or((outcome.output.as_str(), ""));
        let code = first.strip_prefix("Exit code ").and_then(|code| code.trim().parse().ok());
        if outcome.exit.is_none() && code.is_some() {
            outcome.exit = code;
            outcome.output = rest.to_owned();
        }
        outcome
    }

    fn read(&mut self, value: &RawValue) {
        if let Some(text) = encoded_string(value) {
            self.push(&decode_string(text));
        } else if let Some(items) = list(value) {
            items.into_iter().for_each(|item| self.read(item));
        } else if let Some(fields) = RawFields::of(value.get()) {
            let code = fields.get("exit_code").or_else(|| fields.get("exitCode"));
            self.exit = code.and_then(|code| code.get().parse().ok()).or(self.exit);
            // One of them holds all; stdout and stderr are two halves.
            let whole = ["output", "aggregated_output", "formatted_output", "text", "content"];
            match whole.iter().find_map(|name| fields.get(name)) {
                Some(inner) => self.read(inner),
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

/// A text without the escape sequences of terminals.
pub(super) fn plain_text(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = match escape.strip_prefix('[') {
            Some(sequence) => {
                let end = sequence.find(|c: char| ('@'..='~').contains(&c));
                end.and_then(|end| sequence.get(end + 1..)).unwrap_or_default()
            }
            None => escape,
        };
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The end of a text, whole characters only.
pub(super) fn output_tail(text: &str, most: usize) -> &str {
    let from = text.len().saturating_sub(most);
    (from..=text.len()).find_map(|at| text.get(at..)).unwrap_or_default()
}
