//! The arguments of Codex.

use crate::invocation::arguments::options;

/// Options of Codex that have a value behind them.
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

/// Options of Codex that have any number of values behind them.
const LISTS: &[&str] = &["-i", "--image"];

pub(super) fn prints_events(arguments: &[String]) -> bool {
    let mut options = options(arguments).iter();
    exec(arguments).is_some() && options.any(|one| one == "--json" || one == "--experimental-json")
}

/// Where `exec` stands in the arguments of Codex.
fn exec(arguments: &[String]) -> Option<usize> {
    let mut words = CodexWords::of(arguments);
    words.find(|word| !word.option).filter(|word| matches!(word.text, "exec" | "e")).map(|w| w.at)
}

/// `codex … exec FLAGS resume SESSION PROMPT`: options may stand before the subcommand, and all of
/// them mean there what they mean without it.
pub(super) fn resume(arguments: &[String], session: &str) -> Option<Vec<String>> {
    let exec = exec(arguments)?;
    let (before, behind) = arguments.split_at_checked(exec + 1)?;
    let (mut flags, mut said): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut closed = false;
    for word in CodexWords::of(behind) {
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

/// The arguments of Codex, told apart: options with their values, and the rest.
struct CodexWords<'a> {
    arguments: &'a [String],
    at: usize,
    /// How many words belong to the option before.
    values: usize,
    closed: bool,
}

struct CodexWord<'a> {
    at: usize,
    text: &'a str,
    /// Is it an option, or a value of one?
    option: bool,
}

impl<'a> CodexWords<'a> {
    fn of(arguments: &'a [String]) -> Self {
        Self { arguments, at: 0, values: 0, closed: false }
    }
}

impl<'a> Iterator for CodexWords<'a> {
    type Item = CodexWord<'a>;

    fn next(&mut self) -> Option<CodexWord<'a>> {
        let at = self.at;
        let text = self.arguments.get(at)?.as_str();
        self.at += 1;
        let dashed = text.starts_with('-') && text != "-";
        let option = if self.closed {
            false
        } else if self.values == 1 {
            self.values = 0;
            true
        } else if dashed {
            self.values = match text {
                text if VALUES.contains(&text) => 1,
                text if LISTS.contains(&text) => usize::MAX,
                _ => 0,
            };
            self.closed = text == "--";
            true
        } else {
            self.values > 0
        };
        Some(CodexWord { at, text, option })
    }
}
