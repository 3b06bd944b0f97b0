//! Caches the early parts of a context: instructions, summaries and pinned messages. They lie far
//! back in the journal and stay the same from one turn to the next.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use abide_model::{Event, LaneId, Seq};

/// Parts with more events than this are read again each time.
const MOST_EVENTS: usize = 64;
/// So are parts with more bytes than this.
const MOST_BYTES: usize = 256 << 10;
/// Maximum number of cached parts.
const PARTS: usize = 64;

/// A lane, and the first and last event of a part.
type ContextPartKey = (Option<LaneId>, Seq, Seq);

/// Early context parts that this process has read. A newer version of a message in them comes with a
/// later part and takes its place when the context is built. Nobody else can change them: only the writer
/// erases payloads, and this process is the writer.
#[derive(Debug, Default)]
pub(crate) struct ContextPartCache(Mutex<HashMap<ContextPartKey, Vec<Event>>>);

impl ContextPartCache {
    /// The events of a part, if cached.
    pub(crate) fn get(&self, lane: Option<&LaneId>, first: Seq, last: Seq) -> Option<Vec<Event>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&(lane.cloned(), first, last)).cloned()
    }

    /// Caches the events of a part, unless it is large.
    pub(crate) fn keep(&self, lane: Option<&LaneId>, (first, last): (Seq, Seq), events: &[Event]) {
        let bytes = events.iter().filter_map(|event| event.data.as_ref());
        let bytes: usize = bytes.map(|data| data.as_str().len()).sum();
        if events.len() > MOST_EVENTS || bytes > MOST_BYTES {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One context has few parts: the others are from earlier compactions.
        if kept.len() >= PARTS {
            kept.clear();
        }
        kept.insert((lane.cloned(), first, last), events.to_vec());
    }
}
