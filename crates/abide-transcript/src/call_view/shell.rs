//! Shell commands: the command, its exit code and its output, out of the wrappings in which agents
//! hand these to a model.

use abide_model::message::{COMMAND_ARGUMENTS, ShellOutcome, bare_command};

use super::arguments::CallArguments;
use super::{CallSign, CallView, CallViewBlock};
use crate::timeline_entry::CallOutput;

pub(super) fn shell_view(
    view: &mut CallView,
    arguments: &CallArguments,
    title: &str,
    output: &CallOutput,
) {
    let command =
        arguments.any(&COMMAND_ARGUMENTS).or_else(|| arguments.any(&["title", "action", "input"]));
    let command = command.unwrap_or_else(|| match arguments.json() {
        json if json.is_empty() || json.starts_with('{') => title.to_owned(),
        text => text.to_owned(),
    });
    let command = bare_command(command.trim());
    let mut ended = shell_outcome(&output.text);
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

/// The exit code and output of a command, as far as they can be told.
pub(super) fn shell_outcome(output: &str) -> ShellOutcome {
    ShellOutcome::of(output).unwrap_or_else(|| ShellOutcome {
        exit: None,
        text: super::readable_output(output.trim_matches('\n')),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<i64>, String) {
        let outcome = shell_outcome(text);
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
