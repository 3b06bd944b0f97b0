//! Shell commands in tool calls: the command, and its exit code and output, out of the wrappings in
//! which agents hand these to a model.

use super::{CallPiece, CallPieceArguments};
use crate::json::{RawJsonFields, decode_string, list};

/// The arguments that hold the command of a shell call.
pub const COMMAND_ARGUMENTS: [&str; 3] = ["command", "cmd", "script"];
/// The arguments that name a file: the tool that has one edits or reads it.
const PATH_ARGUMENTS: [&str; 4] = ["path", "file_path", "filePath", "target_file"];

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
pub struct ShellOutcome {
    /// The exit code, if it is told.
    pub exit: Option<i64>,
    /// The output.
    pub text: String,
}

/// The command of a call, without the shell that agents wrap it in; `None` if it is no shell call.
#[must_use]
pub fn shell_command(call: &CallPiece) -> Option<String> {
    if matches!(call.arguments, CallPieceArguments::None) {
        return None;
    }
    let text = call.arguments.text();
    let fields = RawJsonFields::of(&text)?;
    if PATH_ARGUMENTS.iter().any(|name| fields.encoded(name).is_some()) {
        return None;
    }
    let command = command_in(&fields).or_else(|| {
        let action = fields.get("action")?;
        command_in(&RawJsonFields::of(action.get())?)
    })?;
    let bare = bare_command(command.trim());
    Some(if bare.len() == command.len() { command } else { bare.to_owned() })
}

fn command_in(fields: &RawJsonFields<'_>) -> Option<String> {
    COMMAND_ARGUMENTS.iter().find_map(|name| {
        let raw = fields.get(name)?;
        match list(raw) {
            Some(words) => {
                let words = words.iter().filter(|word| word.get().starts_with('"'));
                let words: Vec<_> = words.map(|word| decode_string(word.get())).collect();
                (!words.is_empty()).then(|| words.join(" "))
            }
            None => fields.decoded(name).map(|text| text.into_owned()),
        }
    })
}

/// A command without the shell that agents wrap it in: `bash -lc …`.
#[must_use]
pub fn bare_command(command: &str) -> &str {
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
    /// Reads the output of a shell call; `None` if it is in no known wrapping.
    #[must_use]
    pub fn of(output: &str) -> Option<Self> {
        let text = output.trim_matches('\n');
        Self::in_json(text)
            .or_else(|| Self::under_header(text))
            .or_else(|| Self::in_sections(text))
            .or_else(|| Self::behind_code(text))
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
    use crate::{EventLimits, Payload};

    fn command(arguments: &str) -> Option<String> {
        let data = format!(r#"{{"call":"c","name":"tool","arguments":{arguments}}}"#);
        let data = Payload::new(&data, &EventLimits::default()).unwrap();
        shell_command(&CallPiece::begun(&data).unwrap())
    }

    #[test]
    fn a_shell_call_has_a_command_and_no_path() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(command(r#"{"command":"cargo test"}"#), some("cargo test"));
        assert_eq!(command(r#"{"command":["bash","-lc","cargo test"]}"#), some("cargo test"));
        assert_eq!(command(r#"{"cmd":"ls","workdir":"/"}"#), some("ls"));
        assert_eq!(command(r#"{"action":{"type":"exec","command":["ls"]}}"#), some("ls"));
        assert_eq!(command(r#"{"command":"view","path":"/a"}"#), None);
        assert_eq!(command(r#"{"query":"x"}"#), None);
        assert_eq!(command(r#"{"command":7}"#), None);
    }

    #[test]
    fn only_a_known_wrapping_tells_an_exit_code() {
        let exit = |text: &str| ShellOutcome::of(text).map(|outcome| outcome.exit);
        assert_eq!(exit("Exit code 2\nno such file"), Some(Some(2)));
        assert_eq!(exit("Exit code of the tool"), None);
        assert_eq!(exit(r#"{"stdout":"a","stderr":"b","exit":3}"#), Some(Some(3)));
        assert_eq!(exit("a\nb"), None);
    }
}
