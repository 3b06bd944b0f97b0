//! Tips for words that are no commands: by meaning, or as an agent to run. A word that is only
//! spelt wrong gets clap's own tip.

use std::path::Path;

use abide_runner::AgentKind;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

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
    (&["sessions", "list", "recent"], "`abide ls` lists the sessions"),
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
        "`abide cleanup` deletes old sessions, `abide erase` erases a secret",
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

/// Adds a tip to the error that a command does not exist.
pub(crate) fn with_verb_tip(mut error: Error) -> Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let Some(tip) = tip_for(word, is_program) else { return error };
    // What it means is a better guess than what it resembles.
    let _ = error.remove(ContextKind::SuggestedSubcommand);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    error
}

/// The tip for a word that is no command.
fn tip_for(word: &str, is_program: impl Fn(&str) -> bool) -> Option<String> {
    let lower = word.to_lowercase();
    let meant = MEANINGS.iter().find(|(words, _)| words.contains(&lower.as_str()));
    if let Some((_, tip)) = meant {
        return Some((*tip).to_owned());
    }
    let is_agent = AgentKind::started_by(&[word.to_owned()]).is_some();
    (is_agent || is_program(word)).then(|| {
        format!("`abide run {word}` runs it and records it; options of abide go before {word}")
    })
}

/// Is this a program on the path?
fn is_program(word: &str) -> bool {
    let plain = !word.is_empty() && !word.contains('/');
    let path = std::env::var_os("PATH").unwrap_or_default();
    plain && std::env::split_paths(&path).any(|dir| is_executable(&dir.join(word)))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_told_by_its_meaning() {
        let tip = |word| tip_for(word, |program| program == "my-agent");
        assert!(tip("log").unwrap_or_default().contains("abide tail -f"));
        assert!(tip("Restore").unwrap_or_default().contains("abide rewind"));
        assert!(tip("my-agent").unwrap_or_default().contains("abide run my-agent"));
        assert_eq!(tip("nonsense"), None);
    }
}
