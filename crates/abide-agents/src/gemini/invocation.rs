//! The arguments of Gemini CLI.

use crate::invocation::PromptSlot;
use crate::invocation::arguments::{
    ArgumentOptions, arguments_before_dashes, arguments_have_value, arguments_without,
};

/// The options that hold the prompt.
const PROMPTS: &[&str] = &["-p", "--prompt", "-i", "--prompt-interactive"];

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
    let named =
        arguments_before_dashes(arguments).iter().position(|word| PROMPTS.contains(&word.as_str()));
    if let Some(named) = named
        && let Some(slot) = PromptSlot::at(arguments, named + 1)
    {
        return Some(slot);
    }
    match TABLE.words(arguments).find(|word| !word.option) {
        Some(word) => PromptSlot::at(arguments, word.at),
        None => Some(PromptSlot::between(vec![], arguments.to_vec())),
    }
}
