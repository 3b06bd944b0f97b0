//! The early parts of a context: instructions, summaries and what is pinned. They lie far back, and
//! stay the same from one turn to the next.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use abide_model::{Event, LaneId, Seq};

/// Parts with more events than this are read again each time.
const MOST_EVENTS: usize = 64;
/// Nor is a part kept that has more bytes.
const MOST_BYTES: usize = 256 << 10;
/// So many parts are kept.
const PARTS: usize = 64;

/// A lane and the first and last event of a part.
type Key = (Option<LaneId>, Seq, Seq);

/// The early parts of a session's contexts, as this process has read them. Nobody else can change
/// them: payloads are erased by the writer, which this process is.
#[derive(Debug, Default)]
pub(crate) struct Early(Mutex<HashMap<Key, Vec<Event>>>);

impl Early {
    /// The events of a part, where they were kept.
    pub(crate) fn get(&self, lane: Option<&LaneId>, first: Seq, last: Seq) -> Option<Vec<Event>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&(lane.cloned(), first, last)).cloned()
    }

    /// Keeps the events of a part, unless it is large.
    pub(crate) fn keep(&self, lane: Option<&LaneId>, (first, last): (Seq, Seq), events: &[Event]) {
        let bytes = events.iter().filter_map(|event| event.data.as_ref());
        let bytes: usize = bytes.map(|data| data.as_str().len()).sum();
        if events.len() > MOST_EVENTS || bytes > MOST_BYTES {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The parts of one context are few: what is left over is from compactions before.
        if kept.len() >= PARTS {
            kept.clear();
        }
        kept.insert((lane.cloned(), first, last), events.to_vec());
    }
}
