//! The arguments of Codex.

use crate::invocation::arguments::{ArgumentOptions, ArgumentWord, arguments_before_dashes};
use crate::invocation::{PromptInput, PromptSlot};

/// Options of Codex that have values behind them.
const TABLE: ArgumentOptions = ArgumentOptions { values: VALUES, lists: &["-i", "--image"] };

const VALUES: &[&str] = &[
    "-c",
    "--config",
    "--enable",
    "--disable",
    "-m",
    "--model",
    "--local-provider",
    "-p",
    "--profile",
    "-s",
    "--sandbox",
    "-a",
    "--ask-for-approval",
    "-C",
    "--cd",
    "--add-dir",
    "--thread-source",
    "--cyber-access-program",
    "--output-schema",
    "--color",
    "-o",
    "--output-last-message",
];

pub(super) fn codex_prints_events(arguments: &[String]) -> bool {
    let mut options = arguments_before_dashes(arguments).iter();
    codex_exec_position(arguments).is_some()
        && options.any(|one| one == "--json" || one == "--experimental-json")
}

/// Where `exec` stands in the arguments of Codex.
fn codex_exec_position(arguments: &[String]) -> Option<usize> {
    let mut words = TABLE.words(arguments);
    words.find(|word| !word.option).filter(|word| matches!(word.text, "exec" | "e")).map(|w| w.at)
}

/// `codex … exec FLAGS resume SESSION PROMPT`: options may stand before the subcommand, and all of
/// them mean there what they mean without it.
pub(super) fn resume_codex(arguments: &[String], session: &str) -> Option<Vec<String>> {
    let exec = codex_exec_position(arguments)?;
    let (before, behind) = arguments.split_at_checked(exec + 1)?;
    let (mut flags, mut said): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut closed = false;
    for word in TABLE.words(behind) {
        if word.text == "--ephemeral" && word.option {
            return None;
        }
        closed |= word.text == "--" && word.option;
        if word.text == "--" && word.option {
            continue;
        }
        let list = if word.option { &mut flags } else { &mut said };
        list.push(word.text.to_owned());
    }
    match said.first().map(String::as_str) {
        // It goes on already: the session that it named gives way to this one.
        Some("resume") => {
            let last = flags.iter().any(|flag| flag == "--last");
            flags.retain(|flag| flag != "--last" && flag != "--all");
            said.drain(..said.len().min(if last { 1 } else { 2 }));
        }
        Some("fork" | "review" | "help") => return None,
        _ => {}
    }
    if said.is_empty() {
        said.push("-".to_owned());
    }
    let mut all = before.to_vec();
    all.append(&mut flags);
    all.extend(["resume".to_owned(), session.to_owned()]);
    if closed {
        all.push("--".to_owned());
    }
    all.append(&mut said);
    Some(all)
}

/// Where the prompt stands in the arguments of Codex.
enum CodexPrompt {
    At(usize),
    /// There is none.
    Missing,
    /// The command takes none.
    Refused,
}

impl CodexPrompt {
    /// It stands behind `exec`, or behind the session in `exec resume SESSION`.
    fn of(arguments: &[String]) -> Self {
        let said = |first: usize| -> Vec<ArgumentWord<'_>> {
            let words = TABLE.words(arguments);
            words.filter(|word| !word.option && word.at >= first).collect()
        };
        let place = match codex_exec_position(arguments) {
            Some(exec) => {
                let said = said(exec + 1);
                let last = arguments.iter().any(|argument| argument == "--last");
                let skipped = match said.first().map(|word| word.text) {
                    Some("resume") if last => 1,
                    Some("resume") => 2,
                    Some("fork" | "review" | "help") => return Self::Refused,
                    _ => 0,
                };
                said.get(skipped).map(|word| word.at)
            }
            // A word alone is a subcommand.
            None => match said(0).first() {
                Some(word) if word.text.contains(char::is_whitespace) => Some(word.at),
                Some(_) => return Self::Refused,
                None => None,
            },
        };
        place.map_or(Self::Missing, Self::At)
    }
}

/// `-` is stdin.
pub(super) fn prompt(arguments: &[String]) -> Option<PromptSlot> {
    match CodexPrompt::of(arguments) {
        CodexPrompt::At(at) => PromptSlot::at(arguments, at).filter(|slot| slot.own() != Some("-")),
        CodexPrompt::Missing => {
            let closed = arguments.iter().any(|argument| argument == "--");
            let end = if closed { vec![] } else { vec!["--".to_owned()] };
            Some(PromptSlot::between([arguments, &end].concat(), vec![]))
        }
        CodexPrompt::Refused => None,
    }
}

/// `exec` reads its prompt on stdin if it has none, or adds what stands there.
pub(super) fn input(arguments: &[String]) -> Option<PromptInput> {
    codex_exec_position(arguments)?;
    match CodexPrompt::of(arguments) {
        CodexPrompt::At(at) => Some(match arguments.get(at)?.as_str() {
            "-" => PromptInput::alone(),
            own => {
                let before = format!("{own}\n\n<stdin>\n");
                PromptInput::between(before, "\n</stdin>".to_owned())
            }
        }),
        CodexPrompt::Missing => Some(PromptInput::alone()),
        CodexPrompt::Refused => None,
    }
}
