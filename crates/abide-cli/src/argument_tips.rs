//! Tips for arguments that a command does not take, by what is likely meant. Suggestions of clap that
//! resemble nothing that was typed are dropped.

use abide::locate::near_names;
use abide_runner::AgentKind;
use clap::ValueEnum;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use crate::export_format::ExportFormat;
use crate::program_path::is_program;
use crate::shell_word::shell_quoted;

/// The command whose arguments are wrong, and what was typed after it.
struct TypedArguments<'a> {
    command: &'a str,
    rest: &'a [String],
}

impl<'a> TypedArguments<'a> {
    /// `words` is the command line without the program.
    fn of(words: &'a [String]) -> Option<Self> {
        const TIPPED: [&str; 5] = ["save", "record", "run", "export", "share"];
        let at = words.iter().position(|word| !word.starts_with('-'))?;
        let command = words.get(at).filter(|word| TIPPED.contains(&word.as_str()))?;
        Some(Self { command, rest: words.get(at + 1..).unwrap_or_default() })
    }

    /// What was typed from this argument on.
    fn from(&self, argument: &str) -> &'a [String] {
        let at = self.rest.iter().position(|word| word.split('=').next() == Some(argument));
        at.and_then(|at| self.rest.get(at..)).unwrap_or_default()
    }
}

/// Adds a tip to an error about an argument; `words` is the command line without the program.
pub(crate) fn with_argument_tip(mut error: Error, words: &[String]) -> Error {
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => {
            let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
                return error;
            };
            let argument = argument.clone();
            let suggested = match error.get(ContextKind::SuggestedArg) {
                Some(ContextValue::String(suggested)) => Some(suggested),
                _ => None,
            };
            if suggested.is_some_and(|suggested| resembles(&argument, suggested)) {
                // What it resembles is a better guess than a value.
                let _ = error.remove(ContextKind::Suggested);
                return error;
            }
            // The usage would name the suggestion, too.
            if error.remove(ContextKind::SuggestedArg).is_some() {
                let _ = error.remove(ContextKind::Usage);
            }
            TypedArguments::of(words).and_then(|typed| unknown_argument_tip(&typed, &argument))
        }
        ErrorKind::MissingRequiredArgument => {
            let typed = TypedArguments::of(words);
            let is_run = typed.is_some_and(|typed| {
                typed.command == "run" && !typed.from("--continue").is_empty()
            });
            is_run.then(|| {
                "`abide resume` resumes the latest session; `--continue` is for `--plan`".to_owned()
            })
        }
        _ => None,
    };
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

/// Is a suggested option likely meant by what was typed?
fn resembles(typed: &str, suggested: &str) -> bool {
    let name = |option: &str| {
        let option = option.trim_start_matches('-');
        option.split(['=', ' ']).next().unwrap_or_default().to_owned()
    };
    let (typed, suggested) = (name(typed), name(suggested));
    let begins = typed.len() > 1 && suggested.starts_with(&typed);
    begins || !near_names(&typed, [suggested.as_str()]).is_empty()
}

fn unknown_argument_tip(typed: &TypedArguments<'_>, argument: &str) -> Option<String> {
    let is_option = argument.starts_with('-');
    match typed.command {
        "save" if !is_option => {
            Some(format!("`abide save -m {}` gives it this name", shell_quoted(argument)))
        }
        "record" if !is_option => {
            Some(format!("`abide record < {}` reads a file", shell_quoted(argument)))
        }
        "export" => {
            let format = ExportFormat::from_str(argument.strip_prefix("--")?, true).ok()?;
            Some(format!("`--format {}`", format.to_possible_value()?.get_name()))
        }
        "share" if is_option => Some(
            "`abide share` only writes a file, to send as you like; `-o FILE` names it".to_owned(),
        ),
        "run" if ["--continue", "--resume", "-c", "-r"].contains(&argument) => {
            Some("`abide resume` resumes the latest session".to_owned())
        }
        "run" if is_option => {
            let mut own: Vec<_> =
                typed.from(argument).iter().map(|word| shell_quoted(word)).collect();
            let is_agent =
                |word: &String| AgentKind::started_by(std::slice::from_ref(word)).is_some();
            let agent = match own.iter().position(is_agent) {
                Some(at) => own.remove(at),
                None => installed_agent().unwrap_or("AGENT").to_owned(),
            };
            let own = if own.is_empty() { argument.to_owned() } else { own.join(" ") };
            Some(format!("options of the agent stand after its name: `abide run {agent} {own}`"))
        }
        _ => None,
    }
}

/// The first known agent whose program is on the path.
fn installed_agent() -> Option<&'static str> {
    let mut names = AgentKind::all().map(AgentKind::as_str);
    names.find(|name| AgentKind::started_by(&[(*name).to_owned()]).is_some() && is_program(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tip(line: &str, argument: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        unknown_argument_tip(&TypedArguments::of(&words)?, argument)
    }

    #[test]
    fn an_argument_is_told_by_what_it_means() {
        for (line, argument, told) in [
            ("save works", "works", "`abide save -m works` gives it this name"),
            ("record a.jsonl", "a.jsonl", "`abide record < a.jsonl` reads a file"),
            ("export k3 --html", "--html", "`--format html`"),
            ("export k3 --md", "--md", "`--format markdown`"),
            ("run --resume", "--resume", "`abide resume` resumes the latest session"),
        ] {
            assert_eq!(tip(line, argument).as_deref(), Some(told), "{line}");
        }
        let run = tip("-A run --yes -p hi", "-p").unwrap();
        assert!(run.starts_with("options of the agent stand after its name: `abide run "), "{run}");
        assert!(run.ends_with(" -p hi`"), "{run}");
        let run = tip("run --skip claude -p hi", "--skip").unwrap();
        assert!(run.ends_with("`abide run claude --skip -p hi`"), "{run}");
        assert_eq!(tip("search run --foo", "--foo"), None);
        assert_eq!(tip("show works", "works"), None);
    }

    #[test]
    fn a_suggestion_must_resemble_what_was_typed() {
        for (typed, suggested) in
            [("--tilte", "--title"), ("--chek", "--check"), ("--plans", "--plan")]
        {
            assert!(resembles(typed, suggested), "{typed}");
        }
        for typed in ["--to", "--email", "-s"] {
            assert!(!resembles(typed, "--store"), "{typed}");
        }
    }
}
