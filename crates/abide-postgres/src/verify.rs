//! Verifies that a session is whole: every line is sound and chained to the one before, or named as
//! lost by a repair.

use abide_maintain::Examination;
use abide_model::{Seq, SessionId, Severity, StoreError};

use crate::postgres_store::PostgresStore;

impl PostgresStore {
    /// Reads a session from its first event to its last, shared ones included, and checks every
    /// line and the chain. Returns the last event.
    pub fn verify(&self, session: SessionId) -> Result<Seq, StoreError> {
        let (doctor, reader) = (self.doctor(), self.reader(session)?);
        let mut found = Examination::of(session);
        doctor.check_shared_rows(&reader, &mut found.findings)?;
        let walk = doctor.check_own_rows(&reader, &mut found)?.walk;
        let wrong = found.findings.into_iter().find(|found| found.severity >= Severity::Error);
        wrong.map_or(Ok(walk.sound.0), |wrong| {
            let seq = wrong.place.seq.unwrap_or_default();
            let place = format!("event {seq} of session {session}");
            Err(StoreError::Damaged { place, reason: wrong.message })
        })
    }
}
