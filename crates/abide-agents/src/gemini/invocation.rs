//! The arguments of Gemini CLI.

use crate::invocation::arguments::{
    ArgumentOptions, arguments_before_dashes, arguments_have_value, arguments_without,
};
use crate::invocation::{PromptInput, PromptSlot};

/// The options that hold the prompt.
const PROMPTS: &[&str] = &["-p", "--prompt", "-i", "--prompt-interactive"];

/// Commands of Gemini CLI that take no prompt.
const SUBCOMMANDS: &[&str] = &["extensions", "hooks", "mcp", "skills"];

/// Options of Gemini CLI that have values behind them.
const TABLE: ArgumentOptions = ArgumentOptions {
    values: &[
        "-p",
        "--prompt",
        "-i",
        "--prompt-interactive",
        "-m",
        "--model",
        "-o",
        "--output-format",
        "-r",
        "--resume",
        "--approval-mode",
        "--delete-session",
        "--proxy",
        "--session-file",
        "--session-id",
    ],
    lists: &[
        "--allowed-mcp-server-names",
        "--allowed-tools",
        "-e",
        "--extensions",
        "--include-directories",
        "--policy",
    ],
};

pub(super) fn gemini_prints_events(arguments: &[String]) -> bool {
    arguments_have_value(
        arguments_before_dashes(arguments),
        &["--output-format", "-o"],
        "stream-json",
    )
}

pub(super) fn resume_gemini(arguments: &[String], session: &str) -> Option<Vec<String>> {
    let gone =
        arguments_without(arguments, &["--resume", "-r", "--session-id", "--session-file"], &[]);
    Some([vec!["--resume".to_owned(), session.to_owned()], gone].concat())
}

/// The value of `--prompt`, or the first argument that is no option. A new prompt goes first: an
/// option that has any number of values would take it for one of them.
pub(super) fn prompt(arguments: &[String]) -> Option<PromptSlot> {
    if let Some(slot) = PromptSlot::named(arguments, PROMPTS) {
        return Some(slot);
    }
    match TABLE.words(arguments).find(|word| !word.option) {
        Some(word) if word.at == 0 && SUBCOMMANDS.contains(&word.text) => None,
        Some(word) => PromptSlot::at(arguments, word.at),
        None => Some(PromptSlot::between(vec![], arguments.to_vec())),
    }
}

/// A text on stdin comes before the prompt.
pub(super) fn input(arguments: &[String]) -> Option<PromptInput> {
    Some(match prompt(arguments)?.own() {
        Some(own) => PromptInput::between(String::new(), format!("\n\n{own}")),
        None => PromptInput::alone(),
    })
}
