//! What is asked of a history, and its answer.

use serde::Serialize;

use super::{Excerpt, Overview, Search};
use crate::{FileOp, Kind, Seq, SessionId, SessionStatus, Timestamp, TurnNumber, TurnRole};

/// Which sessions, and how many. What is not given is not asked for; what is given must all hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryQuery {
    /// At most so many; all, where it is not given.
    pub limit: Option<usize>,
    /// In one of these states.
    pub status: Vec<SessionStatus>,
    /// In which this was said.
    pub search: Option<Search>,
    /// Which touched this file: its path, the end of its path, or a directory above it.
    pub file: Option<String>,
    /// In which this agent worked, in any turn; in any case of letters.
    pub agent: Option<String>,
    /// With this label: its name, or `name=value`.
    pub label: Option<String>,
    /// In which something happened at this time or later.
    pub since: Option<Timestamp>,
    /// Which were made at this time or before.
    pub until: Option<Timestamp>,
    /// In which nothing happened after this time.
    pub unchanged_since: Option<Timestamp>,
    /// Of any project; otherwise of the one that the store was opened for, if any.
    pub all_projects: bool,
}

/// The answer.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The sessions: those with the best matches first where something was searched for, else
    /// those first in which something happened last.
    pub entries: Vec<HistoryEntry>,
    /// How many more there are than were asked for; none where nobody counted.
    pub more: Option<u64>,
    /// What to know about the answer.
    pub notes: Vec<String>,
}

/// A session in a history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// Its id.
    pub id: SessionId,
    /// Its short id: as long as it must be to be the only one.
    pub short: String,
    /// What there is to say about it.
    pub overview: Overview,
    /// How many files it changed.
    pub files: u64,
    /// Where the searched words stand, the best place first; a few.
    pub matches: Vec<Match>,
    /// In how many events they stand, as far as they were counted.
    pub match_count: u64,
    /// What it did to the file that was asked for.
    pub touched: Vec<Touched>,
}

/// A place where the searched words stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Match {
    /// The event.
    pub seq: Seq,
    /// Its kind.
    pub kind: Kind,
    /// Its turn.
    pub turn: Option<TurnNumber>,
    /// The agent of that turn.
    pub agent: Option<String>,
    /// When.
    pub at: Timestamp,
    /// A rewind has not taken it out.
    pub live: bool,
    /// The text around it.
    pub excerpt: Excerpt,
}

/// What a session did to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Touched {
    /// The file.
    pub path: String,
    /// What was done.
    pub op: FileOp,
    /// How often.
    pub count: u64,
    /// The last time: the event …
    pub seq: Seq,
    /// … its turn …
    pub turn: Option<TurnNumber>,
    /// … the agent of that turn …
    pub agent: Option<String>,
    /// … and when.
    pub at: Timestamp,
}

/// A turn in a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnEntry {
    /// Its number.
    pub turn: TurnNumber,
    /// Which agent.
    pub agent: String,
    /// Agent or arbiter.
    pub role: TurnRole,
    /// How it ended; empty while it has not.
    pub status: String,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Tool calls in it.
    pub tool_calls: u64,
    /// Whom an arbiter chose, or what else it decided.
    pub decision: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

impl HistoryQuery {
    /// Does a session fit, as far as its overview tells? Search, file and the agents of turns are
    /// told elsewhere.
    #[must_use]
    pub fn fits(&self, overview: &Overview) -> bool {
        let label = |wanted: &String| match wanted.split_once('=') {
            Some((name, value)) => overview.fields.labels.get(name).is_some_and(|v| v == value),
            None => overview.fields.labels.contains_key(wanted),
        };
        (self.status.is_empty() || self.status.contains(&overview.status))
            && self.label.as_ref().is_none_or(label)
            && self.since.is_none_or(|since| overview.updated >= since)
            && self.until.is_none_or(|until| overview.created <= until)
            && self.unchanged_since.is_none_or(|since| overview.updated <= since)
    }

    /// Is this the file that is asked for?
    #[must_use]
    pub fn fits_file(wanted: &str, path: &str) -> bool {
        let wanted = wanted.trim_end_matches('/').trim_start_matches("./");
        let path = path.trim_start_matches("./");
        let below = |whole: &str, part: &str| {
            whole.strip_prefix(part).is_some_and(|rest| rest.starts_with('/'))
        };
        let ends = |whole: &str, part: &str| {
            whole.strip_suffix(part).is_some_and(|rest| rest.ends_with('/'))
        };
        !wanted.is_empty()
            && (path == wanted || below(path, wanted) || ends(path, wanted) || ends(wanted, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_path_the_end_of_it_or_a_directory_above() {
        let fits = HistoryQuery::fits_file;
        assert!(fits("src/main.rs", "src/main.rs") && fits("main.rs", "src/main.rs"));
        assert!(
            fits("src", "src/main.rs") && fits("src/", "src/main.rs") && fits("./src", "./src/a")
        );
        assert!(fits("/home/me/project/src/main.rs", "src/main.rs"), "as a shell completes it");
        assert!(!fits("ain.rs", "src/main.rs") && !fits("sr", "src/main.rs") && !fits("", "a"));
    }
}
