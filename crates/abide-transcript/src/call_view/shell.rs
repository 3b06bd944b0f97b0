//! Shell commands: the command, its exit code and its output, out of the wrappings in which agents
//! hand these to a model.

use abide_model::json::RawJsonFields;

use super::arguments::CallArguments;
use super::{COMMANDS, CallSign, CallView, CallViewBlock};
use crate::timeline_entry::CallOutput;

/// What agents tell of a command beside its output.
const AROUND_OUTPUT: [&str; 14] = [
    "metadata",
    "exit_code",
    "exitCode",
    "exit",
    "returncode",
    "duration",
    "duration_ms",
    "duration_seconds",
    "signal",
    "interrupted",
    "isImage",
    "timed_out",
    "truncated",
    "noOutputExpected",
];

/// The exit code and output of a command.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct ShellOutcome {
    pub(super) exit: Option<i64>,
    pub(super) text: String,
}

pub(super) fn shell_view(
    view: &mut CallView,
    arguments: &CallArguments,
    title: &str,
    output: &CallOutput,
) {
    let command = arguments.any(&COMMANDS).or_else(|| arguments.any(&["title", "action", "input"]));
    let command = command.unwrap_or_else(|| match arguments.json() {
        json if json.is_empty() || json.starts_with('{') => title.to_owned(),
        text => text.to_owned(),
    });
    let command = bare_command(command.trim());
    let mut ended = ShellOutcome::of(&output.text);
    ended.exit = ended.exit.or(output.exit);
    view.target = command.lines().next().unwrap_or_default().to_owned();
    if command.contains('\n') {
        view.target.push_str(" …");
        view.blocks
            .push(CallViewBlock::Code { language: "sh".to_owned(), text: format!("$ {command}") });
    }
    if let Some(exit) = ended.exit {
        if exit != 0 && view.sign != CallSign::Unknown {
            view.sign = CallSign::Bad;
        }
        if exit != 0 {
            view.facts.push(format!("exit {exit}"));
        }
    }
    let text = super::printed_text(&ended.text);
    if !text.trim().is_empty() {
        view.blocks.push(CallViewBlock::Output(text.into_owned()));
    }
}

/// A command without the shell that agents wrap it in: `bash -lc …`.
fn bare_command(command: &str) -> &str {
    let shells = ["bash -lc ", "/bin/bash -lc ", "sh -c ", "/bin/sh -c ", "bash -c ", "zsh -lc "];
    let Some(inner) = shells.iter().find_map(|shell| command.strip_prefix(shell)) else {
        return command;
    };
    let quoted = |quote: char| {
        let inner = inner.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    };
    quoted('\'').or_else(|| quoted('"')).unwrap_or(inner)
}

impl ShellOutcome {
    pub(super) fn of(output: &str) -> Self {
        let text = output.trim_matches('\n');
        Self::in_json(text)
            .or_else(|| Self::under_header(text))
            .or_else(|| Self::in_sections(text))
            .or_else(|| Self::behind_code(text))
            .unwrap_or_else(|| Self { exit: None, text: super::readable_output(text) })
    }

    /// `{"output":…,"metadata":{"exit_code":…}}`, `{"stdout":…,"stderr":…,"exit":…}`.
    fn in_json(text: &str) -> Option<Self> {
        let fields = RawJsonFields::of(text)?;
        let inner = fields.get("metadata").and_then(|raw| RawJsonFields::of(raw.get()));
        let number = |fields: &RawJsonFields<'_>| {
            let names = ["exit_code", "exitCode", "exit", "returncode"];
            names.iter().find_map(|name| fields.get(name)?.get().parse::<i64>().ok())
        };
        let exit = number(&fields).or_else(|| inner.as_ref().and_then(number));
        let names = ["output", "aggregated_output", "stdout", "stderr"];
        let texts: Vec<_> = names
            .iter()
            .filter_map(|name| fields.decoded(name))
            .filter(|text| !text.trim().is_empty())
            .collect();
        // A command may print JSON of its own: only what has no other field is a wrapping.
        let ours =
            fields.names().all(|name| names.contains(&name) || AROUND_OUTPUT.contains(&name));
        let known = exit.is_some() || names.iter().any(|name| fields.encoded(name).is_some());
        (known && ours).then(|| Self { exit, text: texts.join("\n").trim_end().to_owned() })
    }

    /// Lines of facts, then `Output:` and the output.
    fn under_header(text: &str) -> Option<Self> {
        let mut exit = None;
        let mut known = false;
        let mut rest = text;
        while let Some((line, behind)) = rest.split_once('\n').or(Some((rest, ""))) {
            let code = line
                .strip_prefix("Process exited with code ")
                .or_else(|| line.strip_prefix("Exit code: "));
            if let Some(code) = code {
                exit = Some(code.trim().parse().ok()?);
                known = true;
            } else if line == "Output:" {
                return known.then(|| Self { exit, text: behind.trim_end().to_owned() });
            } else if [
                "Chunk ID: ",
                "Wall time: ",
                "Original token count: ",
                "Total output lines: ",
            ]
            .iter()
            .all(|name| !line.starts_with(name))
                && !line.starts_with("Process running with session ID ")
            {
                return None;
            } else {
                known = true;
            }
            if behind.is_empty() {
                return None;
            }
            rest = behind;
        }
        None
    }

    /// `Command: …`, `Directory: …`, `Output: …`, `Exit Code: …`, each section on lines of its own.
    fn in_sections(text: &str) -> Option<Self> {
        const SECTIONS: [&str; 9] = [
            "Command: ",
            "Directory: ",
            "Output: ",
            "Stdout: ",
            "Stderr: ",
            "Error: ",
            "Exit Code: ",
            "Signal: ",
            "Process Group PGID: ",
        ];
        if !["Command: ", "Output: ", "Stdout: "].iter().any(|name| text.starts_with(name))
            || !text.contains("\nProcess Group PGID: ") && !text.contains("\nExit Code: ")
        {
            return None;
        }
        let mut found = Self::default();
        let mut shown = false;
        for line in text.lines() {
            // The output may have lines that look like the first sections.
            let section = SECTIONS.iter().find(|name| {
                line.starts_with(**name)
                    && !(shown && matches!(**name, "Command: " | "Directory: "))
            });
            let line = match section {
                None => line,
                Some(name) => {
                    let value = line.strip_prefix(name).unwrap_or_default();
                    if *name == "Exit Code: " {
                        found.exit = value.trim().parse().ok();
                    }
                    shown = matches!(*name, "Output: " | "Stdout: " | "Stderr: " | "Error: ");
                    if matches!(value.trim(), "(none)" | "(empty)") { "" } else { value }
                }
            };
            if shown && !(section.is_some() && line.is_empty()) {
                found.text.push_str(line);
                found.text.push('\n');
            }
        }
        found.text.truncate(found.text.trim_end().len());
        Some(found)
    }

    /// `Exit code 1` or `[Command exited with code 1]`, and the output behind it.
    fn behind_code(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("Error: ").unwrap_or(text);
        let code = rest.strip_prefix("Exit code ");
        let code = code.or_else(|| rest.strip_prefix("[Command exited with code "))?;
        let (code, text) = code.split_once('\n').unwrap_or((code, ""));
        let code = code.trim().trim_end_matches(']');
        let text = text.trim_matches('\n').trim_end();
        Some(Self { exit: Some(code.parse().ok()?), text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<i64>, String) {
        let outcome = ShellOutcome::of(text);
        (outcome.exit, outcome.text)
    }

    #[test]
    fn the_exit_code_is_found_in_every_wrapping() {
        let none = |text: &str| (None, text.to_owned());
        let some = |exit: i64, text: &str| (Some(exit), text.to_owned());
        assert_eq!(read("a\nb\n"), none("a\nb"));
        assert_eq!(read("Exit code 2\nno such file"), some(2, "no such file"));
        assert_eq!(read("Exit code of the tool"), none("Exit code of the tool"));
        assert_eq!(
            read(
                "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 1\nOriginal token count: 2\nOutput:\nx\ny\n"
            ),
            some(1, "x\ny")
        );
        assert_eq!(read("Exit code: 0\nWall time: 0.1 seconds\nOutput:\n"), none_or_zero());
        assert_eq!(
            read(r#"{"output":"ok\n","metadata":{"exit_code":0,"duration_seconds":0.1}}"#),
            some(0, "ok")
        );
        assert_eq!(read(r#"{"stdout":"a","stderr":"b","exit":3}"#), some(3, "a\nb"));
        assert_eq!(
            read(
                "Command: ls\nDirectory: (root)\nOutput: a\nb\nError: (none)\nExit Code: 4\nSignal: (none)\nProcess Group PGID: 7"
            ),
            some(4, "a\nb")
        );
        assert_eq!(read(r#"{"a":{"b":1}}"#), none("a:\n  b: 1"));
    }

    fn none_or_zero() -> (Option<i64>, String) {
        (Some(0), String::new())
    }

    #[test]
    fn a_command_is_shown_without_its_shell() {
        assert_eq!(bare_command("bash -lc 'cargo test'"), "cargo test");
        assert_eq!(bare_command("bash -lc cargo test"), "cargo test");
        assert_eq!(bare_command("sh -c \"a 'b'\""), "a 'b'");
        assert_eq!(bare_command("bash -c 'a' 'b'"), "'a' 'b'");
        assert_eq!(bare_command("bash x.sh"), "bash x.sh");
    }
}
