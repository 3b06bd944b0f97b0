//! Is a session whole: every line sound, each chained to the one before?

use abide_journal::{Line, Sum};
use abide_model::{EventRange, Seq, SessionId, StoreError};

use crate::reader::PostgresReader;
use crate::store::PostgresStore;

/// So many lines are read at a time.
const CHUNK: usize = 4096;

impl PostgresStore {
    /// Reads a session from its first event to its last, those that it shares included, and checks
    /// every line and the chain. Gives the last event.
    pub fn verify(&self, session: SessionId) -> Result<Seq, StoreError> {
        let reader = self.reader(session)?;
        self.server().block(async move { verify(&reader).await })
    }
}

async fn verify(reader: &PostgresReader) -> Result<Seq, StoreError> {
    let damaged = |seq: Seq, reason: String| StoreError::Damaged {
        place: format!("event {seq} of session {}", reader.session),
        reason,
    };
    let mut range = EventRange::ALL.limit(CHUNK);
    let mut last: Option<(Seq, Sum)> = None;
    loop {
        let (lines, next) = reader.lines(range).await?;
        for raw in &lines {
            let expected = last.map_or(Seq::FIRST, |(seq, _)| seq.next());
            let line = Line::read(raw).map_err(|error| damaged(expected, error.to_string()))?;
            if line.seq != expected {
                return Err(damaged(expected, format!("event {} stands in its place", line.seq)));
            }
            if last.is_some_and(|(_, sum)| line.prev != sum.link()) {
                return Err(damaged(expected, "it does not follow from the one before".to_owned()));
            }
            last = Some((line.seq, line.sum));
        }
        match next {
            Some(next) => range.first = next,
            None => return Ok(last.map_or(Seq::ZERO, |(seq, _)| seq)),
        }
    }
}
