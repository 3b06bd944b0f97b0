//! Stores and sessions to measure on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use abide::{
    Durability, LocalOptions, LocalStore, Message, NewEvent, NewSession, Session, SessionId,
    SessionRef, Store, event::AnomalyPolicy, maintenance::Upkeep,
};
use tempfile::TempDir;

use crate::Outcome;
use crate::bench::Bench;
use crate::text::Text;

/// How many events are taken in at once where it is not this that is measured.
const BATCH: usize = 1000;
pub(crate) const WAIT: Duration = Duration::from_secs(10);

/// A store in a directory, made where there is none, both as itself and as the library sees it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) local: Arc<LocalStore>,
    pub(crate) store: Store,
}

impl Place {
    /// The store of a project in `dir`, where the command line finds it too.
    pub(crate) fn of(dir: &Path, upkeep: Upkeep) -> Outcome<Self> {
        Self::with(dir, LocalOptions { upkeep, ..LocalOptions::default() })
    }

    pub(crate) fn with(dir: &Path, options: LocalOptions) -> Outcome<Self> {
        let local = Arc::new(LocalStore::init(&dir.join(".abide"), options)?);
        let store = Store::over(local.clone()).waiting(WAIT);
        Ok(Self { local, store })
    }

    pub(crate) fn session(&self) -> Outcome<Session> {
        Ok(self.store.create(NewSession::default())?)
    }

    pub(crate) fn open(&self, id: SessionId) -> Outcome<Session> {
        Ok(self.store.open_session(&SessionRef::Id(id))?)
    }

    /// A closed session with so many messages.
    pub(crate) fn filled(&self, text: &Text, count: usize) -> Outcome<SessionId> {
        let session = self.session()?;
        fill(&session, text, count)?;
        let id = session.id();
        session.close()?;
        Ok(id)
    }

    /// Seals what a default writer would have sealed in time.
    pub(crate) fn seal(&self, id: SessionId) -> Outcome<u64> {
        Ok(self.local.seal(id, WAIT)?.segments)
    }
}

/// A message with the text of this number.
pub(crate) fn message(text: &Text, index: usize) -> Message {
    Message::assistant(text.piece(index))
}

/// Appends one message and waits until it is durable.
pub(crate) fn append_durably(session: &Session, text: &Text, index: usize) {
    session.append(message(text, index)).expect("an append").wait().expect("an acknowledgement");
}

/// Appends messages in large batches, and makes them durable at the end.
pub(crate) fn fill(session: &Session, text: &Text, count: usize) -> Outcome {
    fill_from(session, text, 0, count)
}

/// The same, from another place in the text.
pub(crate) fn fill_from(session: &Session, text: &Text, first: usize, count: usize) -> Outcome {
    let (mut next, last) = (first, first + count);
    while next < last {
        let end = last.min(next + BATCH);
        let durability = if end == last { Durability::Synced } else { Durability::Buffered };
        let events: Result<Vec<NewEvent>, _> =
            (next..end).map(|index| message(text, index).try_into()).collect();
        session.append_with(events?, durability, AnomalyPolicy::Keep)?.wait()?;
        next = end;
    }
    Ok(())
}

/// A session of a million messages, sealed as far as it goes.
#[derive(Debug)]
pub(crate) struct Long {
    pub(crate) dir: TempDir,
    pub(crate) id: SessionId,
    pub(crate) events: usize,
}

impl Long {
    pub(crate) fn build(bench: &Bench) -> Outcome<Self> {
        let events = bench.scale.of(1_000_000);
        let dir = bench.fresh()?;
        let place = Place::of(dir.path(), Upkeep::Beside)?;
        let id = place.filled(bench.text(), events)?;
        place.seal(id)?;
        Ok(Self { dir, id, events })
    }
}
