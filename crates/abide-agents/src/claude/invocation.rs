//! The arguments of Claude Code.

use crate::invocation::arguments::{
    ArgumentOptions, arguments_before_dashes, arguments_have_value, arguments_without,
};
use crate::invocation::{PromptInput, PromptSlot};

/// Options of Claude Code that have values behind them.
const TABLE: ArgumentOptions = ArgumentOptions {
    values: &[
        "--advisor",
        "--agent",
        "--agents",
        "--append-subagent-system-prompt",
        "--append-system-prompt",
        "--append-system-prompt-file",
        "--debug-file",
        "--effort",
        "--fallback-model",
        "--from-pr",
        "--input-format",
        "--json-schema",
        "--max-budget-usd",
        "--max-thinking-tokens",
        "--max-turns",
        "--model",
        "--name",
        "-n",
        "--output-format",
        "--permission-mode",
        "--permission-prompt-tool",
        "--resume",
        "-r",
        "--session-id",
        "--setting-sources",
        "--settings",
        "--system-prompt",
        "--system-prompt-file",
        "--teleport",
    ],
    lists: &[
        "--add-dir",
        "--allowedTools",
        "--allowed-tools",
        "--betas",
        "--disallowedTools",
        "--disallowed-tools",
        "--file",
        "--mcp-config",
        "--plugin-dir",
        "--tools",
    ],
};

/// Commands of Claude Code that take no prompt.
const SUBCOMMANDS: &[&str] = &[
    "agents",
    "auth",
    "config",
    "doctor",
    "install",
    "mcp",
    "plugin",
    "setup-token",
    "update",
    "upgrade",
];

pub(super) fn claude_prints_events(arguments: &[String]) -> bool {
    arguments_have_value(arguments_before_dashes(arguments), &["--output-format"], "stream-json")
}

pub(super) fn resume_claude(arguments: &[String], session: &str) -> Option<Vec<String>> {
    if arguments_before_dashes(arguments).iter().any(|one| one == "--no-session-persistence") {
        return None;
    }
    let gone =
        arguments_without(arguments, &["--resume", "-r", "--session-id"], &["--continue", "-c"]);
    Some([vec!["--resume".to_owned(), session.to_owned()], gone].concat())
}

/// The first argument that is no option. A new prompt goes first: an option that has any number of
/// values would take it for one of them.
pub(super) fn prompt(arguments: &[String]) -> Option<PromptSlot> {
    match TABLE.words(arguments).find(|word| !word.option) {
        Some(word) if word.at == 0 && SUBCOMMANDS.contains(&word.text) => None,
        Some(word) => PromptSlot::at(arguments, word.at),
        None => Some(PromptSlot::between(vec![], arguments.to_vec())),
    }
}

/// A text on stdin comes behind the prompt. Messages as JSON are no text.
pub(super) fn input(arguments: &[String]) -> Option<PromptInput> {
    let options = arguments_before_dashes(arguments);
    if arguments_have_value(options, &["--input-format"], "stream-json") {
        return None;
    }
    Some(match prompt(arguments)?.own() {
        Some(own) => PromptInput::between(format!("{own}\n"), String::new()),
        None => PromptInput::alone(),
    })
}
