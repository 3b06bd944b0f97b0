//! A writer of a shared store whose events another process appends: what this process has stored for
//! them must still be there.

use std::sync::Arc;

use abide_model::{
    AnomalyPolicy, AppendError, Digest, Durability, Epoch, EventFactory, LaneId, LaneState,
    NewEvent, ReadFinding, SessionCore, SessionState, SessionWriter, StoreError, Ticket,
};
use abide_postgres::StoredCheck;

/// Checks what was stored before each append.
pub(crate) struct StoringWriter {
    inner: Arc<dyn SessionWriter>,
    stored: StoredCheck,
}

impl StoringWriter {
    /// This writer; one that appends by itself compares the mark by itself.
    pub(crate) fn over(
        inner: Arc<dyn SessionWriter>,
        stored: StoredCheck,
    ) -> Arc<dyn SessionWriter> {
        if inner.is_relayed() { Arc::new(Self { inner, stored }) } else { inner }
    }

    /// Appends while nothing is removed that this process has stored, and not if something was.
    fn covered(
        &self,
        append: impl FnOnce() -> Result<Ticket, AppendError>,
    ) -> Result<Ticket, AppendError> {
        let stopped = |error: StoreError| AppendError::Stopped {
            safe: self.inner.core().map(|(core, _)| core.seq).unwrap_or_default(),
            source: Arc::new(error),
        };
        let Some(cover) = self.stored.cover().map_err(stopped)? else { return append() };
        let mark = self.inner.hold_mark(&cover.mark()).map_err(stopped)?;
        let ticket = append()?;
        drop(mark);
        Ok(Ticket::answered_by(async move {
            let answer = ticket.await;
            drop(cover);
            answer
        }))
    }
}

impl SessionWriter for StoringWriter {
    fn append(
        &self,
        events: Vec<NewEvent>,
        durability: Durability,
        odd: AnomalyPolicy,
    ) -> Result<Ticket, AppendError> {
        self.covered(|| self.inner.append(events, durability, odd))
    }

    fn append_behind(&self, make: &EventFactory<'_>) -> Result<Ticket, AppendError> {
        self.covered(|| self.inner.append_behind(make))
    }

    fn state(&self) -> Result<SessionState, StoreError> {
        self.inner.state()
    }

    fn core(&self) -> Result<(SessionCore, Digest), StoreError> {
        self.inner.core()
    }

    fn lane(&self, lane: Option<&LaneId>) -> Result<(SessionCore, LaneState), StoreError> {
        self.inner.lane(lane)
    }

    fn flush(&self) -> Result<(), AppendError> {
        self.inner.flush()
    }

    fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }

    fn notes(&self) -> Vec<ReadFinding> {
        self.inner.notes()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }

    fn is_relayed(&self) -> bool {
        self.inner.is_relayed()
    }
}
