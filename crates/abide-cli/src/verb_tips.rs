//! Tips for words that are no commands: by meaning, with what was typed after them, or as an agent to
//! run. A word that is only spelt wrong gets clap's own tip.

use abide::locate::near_names;
use abide_runner::AgentKind;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use crate::program_path::is_program;
use crate::shell_word::shell_quoted;

/// Words that people try, and what they mean here.
const MEANINGS: [(&[&str], &str); 19] = [
    (&["ps", "top", "jobs", "running"], "`abide status` shows running sessions"),
    (
        &["kill", "stop", "cancel", "end"],
        "Ctrl-C in the terminal of `abide run` stops it after what is under way, twice at once; \
         SIGTERM does the same from elsewhere",
    ),
    (&["version"], "`abide --version` prints the version"),
    (
        &["log", "logs", "watch", "follow"],
        "`abide tail -f` follows a session, `abide show` shows all of it",
    ),
    (
        &["restore", "revert", "rollback", "reset", "checkout", "back"],
        "`abide rewind` returns to a checkpoint",
    ),
    (&["snapshot", "commit", "stash", "backup", "mark"], "`abide save -m NAME` makes a checkpoint"),
    (&["checkpoints", "snapshots"], "`abide saves` lists the checkpoints"),
    (&["sessions", "recent"], "`abide ls` lists the sessions"),
    (&["find", "grep", "query"], "`abide search TEXT` searches messages and tool calls"),
    (&["view", "cat", "open", "read", "get", "story"], "`abide show` shows a session"),
    (
        &["continue", "recover", "restart", "attach"],
        "`abide resume` resumes a session that stopped",
    ),
    (&["start", "exec", "launch", "wrap"], "`abide run AGENT …` runs an agent and records it"),
    (
        &["create", "begin"],
        "`abide new` creates a session, `abide run AGENT …` runs an agent in a new one",
    ),
    (
        &["delete", "remove", "rm", "prune", "gc", "purge", "clean"],
        "`abide cleanup --older-than 30d` deletes old sessions, `abide erase @41` erases the data of an \
         event, such as a secret; no command deletes one session",
    ),
    (&["branch", "clone"], "`abide fork` starts a new session from a point in another one"),
    (&["name", "title", "mv"], "`abide rename TITLE` gives the latest session a title"),
    (&["send", "publish", "html", "page"], "`abide share` writes a session as one page"),
    (
        &["fix", "repair", "check", "verify", "fsck"],
        "`abide doctor` checks the store, `abide doctor --repair` repairs it",
    ),
    (&["sync", "push", "pull", "migrate"], "`abide copy` copies sessions between stores"),
];

/// Adds a tip to the error that a command does not exist; `words` is the command line without the
/// program.
pub(crate) fn with_verb_tip(mut error: Error, words: &[String]) -> Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let word = word.clone();
    let at = words.iter().position(|typed| *typed == word);
    let rest = at.and_then(|at| words.get(at + 1..)).unwrap_or_default();
    let is_file = |path: &str| std::fs::symlink_metadata(path).is_ok();
    let Some(tip) = tip_for(&word, rest, is_program, is_file) else {
        return with_nearest_first(error, &word);
    };
    // What it means is a better guess than what it resembles.
    let _ = error.remove(ContextKind::SuggestedSubcommand);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    error
}

/// Puts the suggestion that is nearest to the word in front; clap has it last.
fn with_nearest_first(mut error: Error, word: &str) -> Error {
    let suggested = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(suggested)) => suggested.clone(),
        _ => return error,
    };
    let near = near_names(word, suggested.iter().map(String::as_str));
    let mut sorted: Vec<String> = near.into_iter().map(str::to_owned).collect();
    let others = suggested.iter().rev().filter(|name| !sorted.contains(name));
    let others: Vec<String> = others.cloned().collect();
    sorted.extend(others);
    error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(sorted));
    error
}

/// The tip for a word that is no command, and what was typed after it.
fn tip_for(
    word: &str,
    rest: &[String],
    is_program: impl Fn(&str) -> bool,
    is_file: impl Fn(&str) -> bool,
) -> Option<String> {
    let lower = word.to_lowercase();
    if let Some(tip) = tip_with_arguments(&lower, rest, is_file) {
        return Some(tip);
    }
    let meant = MEANINGS.iter().find(|(words, _)| words.contains(&lower.as_str()));
    if let Some((_, tip)) = meant {
        return Some((*tip).to_owned());
    }
    let is_agent = AgentKind::started_by(&[word.to_owned()]).is_some();
    (is_agent || is_program(word)).then(|| {
        format!("`abide run {word}` runs it and records it; options of abide go before {word}")
    })
}

/// The tip that repeats what was typed after a word of git's.
fn tip_with_arguments(
    word: &str,
    rest: &[String],
    is_file: impl Fn(&str) -> bool,
) -> Option<String> {
    match (word, rest.first().map(String::as_str)) {
        ("stash", Some("pop" | "apply")) => Some(latest_tip(&[])),
        ("stash", Some("list")) => Some("`abide saves` lists the checkpoints".to_owned()),
        ("commit" | "stash" | "snapshot" | "backup", Some(_)) => {
            let at =
                rest.iter().position(|one| ["-m", "-am", "--message"].contains(&one.as_str()))?;
            let name = shell_quoted(rest.get(at + 1)?);
            Some(format!("`abide save -m {name}` makes a checkpoint"))
        }
        ("restore" | "revert" | "rollback" | "reset" | "checkout" | "back", Some(_)) => {
            let only_paths = rest.iter().any(|word| word == "--");
            let is_place = |word: &str| !only_paths && !is_file(word) && !word.contains(['.', '/']);
            let words = rest.iter().map(String::as_str);
            let words = words.filter(|word| !word.starts_with('-') && !word.starts_with("HEAD"));
            let words: Vec<&str> = words.collect();
            if !words.first().is_some_and(|first| is_place(first)) {
                return Some(latest_tip(&words));
            }
            let typed: Vec<_> = words.into_iter().map(shell_quoted).collect();
            Some(format!("`abide rewind {}` returns to this place", typed.join(" ")))
        }
        _ => None,
    }
}

/// The command that restores the newest checkpoint, or these paths of it.
fn latest_tip(paths: &[&str]) -> String {
    let typed: String = paths.iter().map(|path| format!(" {}", shell_quoted(path))).collect();
    let what = match paths.len() {
        0 => "",
        1 => "it from ",
        _ => "them from ",
    };
    format!("`abide rewind latest{typed}` restores {what}the newest checkpoint")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_told_by_its_meaning() {
        let tip = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let word = words.next().unwrap_or_default();
            let rest: Vec<String> = words.collect();
            tip_for(&word, &rest, |program| program == "my-agent", |path| path == "5")
        };
        assert!(tip("log").unwrap_or_default().contains("abide tail -f"));
        assert!(tip("Restore").unwrap_or_default().contains("abide rewind"));
        assert!(tip("my-agent").unwrap_or_default().contains("abide run my-agent"));
        assert_eq!(tip("nonsense"), None);
        for (line, command) in [
            ("stash pop", "`abide rewind latest` "),
            ("stash", "`abide save -m NAME` "),
            ("stash list", "`abide saves` "),
            ("commit -am works", "`abide save -m works` "),
            ("commit", "`abide save -m NAME` "),
            ("checkout 3", "`abide rewind 3` "),
            ("checkout 5", "`abide rewind latest 5` "),
            ("checkout @41", "`abide rewind @41` "),
            ("restore tested", "`abide rewind tested` "),
            ("restore todo.txt", "`abide rewind latest todo.txt` "),
            ("checkout -- a b", "`abide rewind latest a b` "),
            ("reset --hard", "`abide rewind latest` "),
            ("reset --hard HEAD~1", "`abide rewind latest` "),
            ("restore", "`abide rewind` "),
        ] {
            let told = tip(line).unwrap_or_default();
            assert!(told.starts_with(command), "{line}: {told}");
        }
    }
}
