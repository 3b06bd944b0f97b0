//! History: an index of the sessions, in tables, that follows the events.
//!
//! It is derived, and written by whoever comes first: a writer for its own sessions, beside its
//! work and when it closes, and else whoever asks. What a stretch of events brings is put in one
//! transaction, together with how far it goes, and only if nobody was there meanwhile: so it does
//! not matter how many do it at once, or where one of them ends.

mod answer;
mod follow;
mod places;
mod put;
mod query;
mod words;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::reader::PostgresReader;

pub(crate) use answer::Asker;
pub(crate) use follow::catch_up;

/// How often a writer's sessions are brought into the index.
const PERIOD: Duration = Duration::from_secs(1);

/// The sessions that this process has written to since they were last brought into the index.
#[derive(Debug, Default)]
pub(crate) struct Changed(Mutex<HashMap<i64, PostgresReader>>);

impl Changed {
    pub(crate) fn mark(&self, reader: &PostgresReader) {
        self.lock().entry(reader.known.sid).or_insert_with(|| reader.clone());
    }

    /// It is brought in by the one that closes it.
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

/// Brings what was written into the index as long as the store is there.
pub(crate) async fn keep_up(changed: Weak<Changed>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(changed) = changed.upgrade() else { return };
        for reader in changed.take() {
            // What is not done now is done by the one that closes it, or asks.
            let _ = catch_up(&reader).await;
        }
    }
}
