//! A search index over sessions: who did what when, and the full text of messages.
//!
//! A [`HistoryIndex`] is one SQLite file. It is derived data and can be deleted and rebuilt at any time.
//! The follower of the journals feeds it [`HistoryDelta`](abide_model::HistoryDelta)s, each with the position it
//! reaches. The index knows nothing of journals and files; a position is an opaque string to it.
//!
//! ```
//! use abide_index::HistoryIndex;
//! use abide_model::{HistoryDelta, HistoryQuery, NewEvent, Overview, Search, Seq, Timestamp};
//!
//! let mut index = HistoryIndex::in_memory()?;
//! let mut delta = HistoryDelta::new("a-session", Overview::default());
//! # let created = NewEvent::parse(
//! #     r#"{"kind":"session.created","data":{"session":"019a8620-4bfb-7000-8000-000000000001"}}"#)?;
//! # delta.take_in(&created.into_event(Seq(1), Timestamp::from_millis(0)));
//! let said = NewEvent::parse(
//!     r#"{"kind":"message.added","data":{"role":"user","content":"The parser drops a line"}}"#)?;
//! delta.take_in(&said.into_event(Seq(2), Timestamp::from_millis(5)));
//! let mut update = index.update()?;
//! update.put(&delta, "how far it goes")?;
//! update.commit()?;
//!
//! let query = HistoryQuery { search: Some(Search::parse("pars* line")?), ..HistoryQuery::default() };
//! let answer = index.query_history(&query, &[])?;
//! assert_eq!(answer.sessions.len(), 1);
//! assert_eq!(answer.sessions[0].hits, [Seq(2)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod history_index;
mod index_query;
mod index_search;
mod index_update;
mod index_usage;
mod schema;

pub use error::IndexError;
pub use history_index::{FollowedSession, HistoryIndex};
pub use index_query::{HitTurn, IndexAnswer, IndexedSession};
pub use index_update::IndexUpdate;
