//! A query of the history, and its answer.

use serde::Serialize;

use super::{Excerpt, Overview, Search, SearchRole};
use crate::{FileOp, Kind, Seq, SessionId, SessionStatus, Timestamp, TurnNumber, TurnRole};

/// Which sessions to list. All conditions that are given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryQuery {
    /// At most this many; all if not given.
    pub limit: Option<usize>,
    /// With one of these statuses.
    pub status: Vec<SessionStatus>,
    /// That contain these words.
    pub search: Option<Search>,
    /// In something that was said by this one.
    pub role: Option<SearchRole>,
    /// In a shell call with this in its command. With other conditions of the search, also in the
    /// results of such calls.
    pub command: Option<Search>,
    /// In a result that failed.
    pub failed: bool,
    /// That touched this file: its path, the end of its path, or a directory above it.
    pub file: Option<String>,
    /// In which this agent worked in any turn; case-insensitive.
    pub agent: Option<String>,
    /// With this label: its name, or `name=value`.
    pub label: Option<String>,
    /// With activity at or after this time; in a search, matches from then on.
    pub since: Option<Timestamp>,
    /// Created at or before this time; in a search, matches until then.
    pub until: Option<Timestamp>,
    /// Without activity after this time.
    pub unchanged_since: Option<Timestamp>,
    /// Only those that a writer may have open now: all that have a live one, and maybe some whose
    /// writer died.
    pub maybe_held: bool,
    /// Of any project; otherwise of the project that the store was opened for, if any.
    pub all_projects: bool,
}

/// The answer to a history query.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The sessions, ordered by the best match in a search, else by the latest activity.
    pub entries: Vec<HistoryEntry>,
    /// How many more there are; `None` if not counted.
    pub more: Option<u64>,
    /// Notes about the answer.
    pub notes: Vec<String>,
}

/// A session in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// Its id.
    pub id: SessionId,
    /// Its short id: as many characters as it takes to be unique.
    pub short: String,
    /// Its overview.
    pub overview: Overview,
    /// The number of files it changed.
    pub files: u64,
    /// The best matches of the search, best first.
    pub matches: Vec<SearchMatch>,
    /// How many events match, as far as they were counted.
    pub match_count: u64,
    /// What it did to the file in the query.
    pub touched: Vec<FileActivity>,
}

/// A match of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SearchMatch {
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
    /// It was not rewound.
    pub live: bool,
    /// The text around the match.
    pub excerpt: Excerpt,
}

/// What a session did to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileActivity {
    /// The file.
    pub path: String,
    /// The operation.
    pub op: FileOp,
    /// How many times.
    pub count: u64,
    /// The last event.
    pub seq: Seq,
    /// Its turn.
    pub turn: Option<TurnNumber>,
    /// The agent of that turn.
    pub agent: Option<String>,
    /// Its time.
    pub at: Timestamp,
}

/// A turn in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnEntry {
    /// Its number.
    pub turn: TurnNumber,
    /// The agent.
    pub agent: String,
    /// Agent or arbiter.
    pub role: TurnRole,
    /// How it ended; empty while it is open.
    pub status: String,
    /// When it started.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// The number of tool calls in it.
    pub tool_calls: u64,
    /// The decision of an arbiter: the next agent, or something else.
    pub decision: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

impl HistoryQuery {
    /// Does a session match, as far as its overview tells? Does not check search, file and the
    /// agents of turns.
    #[must_use]
    pub fn fits(&self, overview: &Overview) -> bool {
        let label = |wanted: &String| match wanted.split_once('=') {
            Some((name, value)) => overview.fields.labels.get(name).is_some_and(|v| v == value),
            None => overview.fields.labels.contains_key(wanted),
        };
        (self.status.is_empty() || self.status.contains(&overview.status))
            && (!self.maybe_held || overview.writing)
            && self.label.as_ref().is_none_or(label)
            && self.since.is_none_or(|since| overview.updated >= since)
            && self.until.is_none_or(|until| overview.created <= until)
            && self.unchanged_since.is_none_or(|since| overview.updated <= since)
    }

    /// Are single events asked for, and not only sessions?
    #[must_use]
    pub const fn is_search(&self) -> bool {
        self.search.is_some() || self.role.is_some() || self.command.is_some() || self.failed
    }

    /// What is shown as found in the text of a match.
    #[must_use]
    pub fn shown(&self) -> Search {
        Search::joined(self.search.iter().chain(&self.command))
    }

    /// Does the time of a match fit?
    #[must_use]
    pub fn fits_time(&self, time: Timestamp) -> bool {
        self.since.is_none_or(|since| time >= since) && self.until.is_none_or(|until| time <= until)
    }

    /// Does this path match the wanted file?
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
