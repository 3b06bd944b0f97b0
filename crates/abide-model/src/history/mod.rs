//! History: what is kept to list, search and read sessions by, and the questions about it.
//!
//! Everything here is derived from events and pure; a store keeps it where it is found fast.

mod delta;
mod open_turns;
mod overview;
mod query;
mod search;
mod text;
mod words;

pub use delta::{Delta, FileDelta, TextDelta, TurnBegun, TurnDelta};
pub use open_turns::OpenTurns;
pub use overview::{Applied, Overview, rewind_of};
pub use query::{History, HistoryEntry, HistoryQuery, Match, Touched, TurnEntry};
pub use search::{Excerpt, Search, SearchError, Term};
pub use text::{TEXT_BYTES, searchable};
pub use words::{Word, folded_words, words};
