//! History: the data by which sessions are listed and searched, and the queries on it.
//!
//! Everything here is pure and derived from events. A store keeps it where it can be found quickly.

mod activity_span;
mod event_traits;
mod history_delta;
mod name;
mod open_turns;
mod overview;
mod prompt;
mod query;
mod search;
mod text;
mod usage_report;
mod words;

pub use activity_span::ActivitySpan;
pub use event_traits::{EventTraits, SearchRole, WaitingCommands};
pub use history_delta::{FileDelta, HistoryDelta, TextDelta, TurnDelta, TurnOpening};
pub use name::{prompt_line, read_session_name};
pub use open_turns::OpenTurns;
pub use overview::{Overview, OverviewUpdate, RunOutline, rewind_of};
pub use prompt::split_machine_text;
pub use query::{FileActivity, History, HistoryEntry, HistoryQuery, SearchMatch, TurnEntry};
pub use search::{Excerpt, Search, SearchError, SearchTerm};
pub use text::{TEXT_BYTES, searchable_text};
pub use usage_report::{
    SessionUsage, UsageEntry, UsageKey, UsageQuery, UsageReport, UsageSession, counted_usage,
};
pub use words::{PARTS_END, Word, folded_parts, folded_words, words};
