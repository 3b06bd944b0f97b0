//! The arguments of opencode.

use crate::invocation::arguments::{
    ArgumentOptions, arguments_before_dashes, arguments_have_value, arguments_without,
};
use crate::invocation::{PromptInput, PromptSlot};

/// Options of opencode that have values behind them.
const TABLE: ArgumentOptions = ArgumentOptions {
    values: &[
        "--agent",
        "--attach",
        "--command",
        "--dir",
        "--file",
        "-f",
        "--format",
        "--hostname",
        "--log-level",
        "--model",
        "-m",
        "--password",
        "-p",
        "--port",
        "--prompt",
        "--session",
        "-s",
        "--title",
        "--variant",
    ],
    lists: &[],
};

/// `run` does with `--format json`.
pub(super) fn opencode_prints_events(arguments: &[String]) -> bool {
    let first = TABLE.words(arguments).find(|word| !word.option);
    first.is_some_and(|word| word.text == "run")
        && arguments_have_value(arguments_before_dashes(arguments), &["--format"], "json")
}

/// `run` and the program for a person go on in a session; no other subcommand does.
pub(super) fn resume_opencode(arguments: &[String], session: &str) -> Option<Vec<String>> {
    let left = arguments_without(arguments, &["--session", "-s"], &["--continue", "-c", "--fork"]);
    let behind = match TABLE.words(&left).find(|word| !word.option) {
        Some(word) if word.text == "run" => word.at + 1,
        Some(_) => return None,
        None => 0,
    };
    let (before, behind) = left.split_at_checked(behind)?;
    let session = ["--session".to_owned(), session.to_owned()];
    Some([before, &session, behind].concat())
}

/// The words behind `run`, or the value of `--prompt` where it is started for a person.
pub(super) fn prompt(arguments: &[String]) -> Option<PromptSlot> {
    let mut said = TABLE.words(arguments).filter(|word| !word.option);
    match said.next() {
        Some(word) if word.text == "run" => {
            let words: Vec<usize> = said.map(|word| word.at).collect();
            PromptSlot::words(arguments, &words).or_else(|| {
                let closed = arguments.iter().any(|argument| argument == "--");
                let end = if closed { vec![] } else { vec!["--".to_owned()] };
                Some(PromptSlot::between([arguments, &end].concat(), vec![]))
            })
        }
        Some(_) => PromptSlot::named(arguments, &["--prompt"]),
        None => PromptSlot::named(arguments, &["--prompt"]).or_else(|| {
            let end = ["--prompt".to_owned()];
            Some(PromptSlot::between([arguments, &end].concat(), vec![]))
        }),
    }
}

/// `run` adds a text on stdin to its prompt.
pub(super) fn input(arguments: &[String]) -> Option<PromptInput> {
    TABLE.words(arguments).find(|word| !word.option).filter(|word| word.text == "run")?;
    Some(match prompt(arguments)?.own() {
        Some(own) => PromptInput::between(format!("{own}\n"), String::new()),
        None => PromptInput::alone(),
    })
}
