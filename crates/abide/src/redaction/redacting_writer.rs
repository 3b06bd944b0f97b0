//! The writer of a session that replaces secrets by marks before the store's writer sees them.

use std::sync::Arc;

use abide_model::{
    AnomalyPolicy, AppendError, Digest, Durability, Epoch, EventFactory, HeldMark, LaneId,
    LaneState, NewEvent, ReadFinding, SessionCore, SessionState, SessionWriter, StoreError, Ticket,
};
use abide_secrets::Redactor;

use super::event_redaction::redact_event;

/// Redacts every event before it is made a line, counted, or sent to the holder of the session.
pub(super) struct RedactingWriter {
    inner: Arc<dyn SessionWriter>,
    redactor: Redactor,
}

impl RedactingWriter {
    pub(super) fn new(inner: Arc<dyn SessionWriter>, redactor: Redactor) -> Self {
        Self { inner, redactor }
    }
}

impl SessionWriter for RedactingWriter {
    fn append(
        &self,
        events: Vec<NewEvent>,
        durability: Durability,
        odd: AnomalyPolicy,
    ) -> Result<Ticket, AppendError> {
        let redacted = events.into_iter().map(|event| redact_event(&self.redactor, event));
        self.inner.append(redacted.collect(), durability, odd)
    }

    fn append_behind(&self, make: &EventFactory<'_>) -> Result<Ticket, AppendError> {
        self.inner.append_behind(&|last| Ok(redact_event(&self.redactor, make(last)?)))
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

    fn hold_mark(&self, mark: &str) -> Result<HeldMark, StoreError> {
        self.inner.hold_mark(mark)
    }

    fn is_relayed(&self) -> bool {
        self.inner.is_relayed()
    }
}
