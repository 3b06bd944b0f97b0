//! History: an index of the sessions, in tables, that follows the events.
//!
//! It is derived, and whoever comes first updates it: a writer for its own sessions, in the
//! background and when it closes, or else a query. What a range of events adds is put in one
//! transaction together with the new position, and only if the position is unchanged: so any number
//! of processes may do it at once, and may die anywhere.

mod follower;
mod history_answer;
mod places;
mod put;
mod query;
mod search_words;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::postgres_reader::PostgresReader;

pub(crate) use follower::{catch_up_history, overview_of};
pub(crate) use history_answer::HistoryReader;

/// How often a writer's sessions are added to the index.
const PERIOD: Duration = Duration::from_secs(1);

/// The sessions that this process has written to since they were last indexed.
#[derive(Debug, Default)]
pub(crate) struct HistoryChanges(Mutex<HashMap<i64, PostgresReader>>);

impl HistoryChanges {
    pub(crate) fn mark(&self, reader: &PostgresReader) {
        self.lock().entry(reader.known.sid).or_insert_with(|| reader.clone());
    }

    /// Removes a session: whoever closes it updates the index.
    pub(crate) fn remove(&self, sid: i64) {
        self.lock().remove(&sid);
    }

    fn take(&self) -> Vec<PostgresReader> {
        self.lock().drain().map(|(_, reader)| reader).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, PostgresReader>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Updates the index with what was written, as long as the store exists.
pub(crate) async fn keep_up_history(changed: Weak<HistoryChanges>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(changed) = changed.upgrade() else { return };
        for reader in changed.take() {
            // What fails here is done when the session is closed, or by a query.
            let _ = catch_up_history(&reader).await;
        }
    }
}
