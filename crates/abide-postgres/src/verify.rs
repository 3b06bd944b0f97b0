//! Verifies that a session is whole: every line is sound and chained to the one before.

use abide_journal::Sum;
use abide_model::{EventRange, Seq, SessionId, StoreError};

use crate::postgres_reader::{PostgresReader, parse_sound_line};
use crate::postgres_store::PostgresStore;

/// Lines read at a time.
const CHUNK: usize = 4096;

impl PostgresStore {
    /// Reads a session from its first event to its last, shared ones included, and checks every
    /// line and the chain. Returns the last event.
    pub fn verify(&self, session: SessionId) -> Result<Seq, StoreError> {
        let reader = self.reader(session)?;
        self.server().block(async move { verify_session(&reader).await })
    }
}

async fn verify_session(reader: &PostgresReader) -> Result<Seq, StoreError> {
    let damaged = |seq: Seq, reason: String| StoreError::Damaged {
        place: format!("event {seq} of session {}", reader.session),
        reason,
    };
    let mut range = EventRange::ALL.limit(CHUNK);
    let mut last = (Seq::ZERO, Sum::genesis(reader.origin().await?));
    loop {
        let (lines, next) = reader.lines(range).await?;
        for (seq, raw) in &lines {
            let expected = last.0.next();
            if *seq != expected {
                return Err(damaged(expected, "missing".to_owned()));
            }
            let line = parse_sound_line(*seq, raw).map_err(|reason| damaged(*seq, reason))?;
            if line.prev != last.1.link() {
                return Err(damaged(*seq, "does not follow from the one before".to_owned()));
            }
            last = (line.seq, line.sum);
        }
        match next {
            Some(next) => range.first = next,
            None => return Ok(last.0),
        }
    }
}
