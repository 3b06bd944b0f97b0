//! Which messages have a newer version.

use super::SessionState;
use crate::{Event, Kind, LaneId, Seq};

impl SessionState {
    /// Has this event, which is live, a newer version that stands for it? Such a message is shown to
    /// nobody; it stays in the journal.
    #[must_use]
    pub fn is_replaced(&self, event: &Event) -> bool {
        event.kind == Kind::MESSAGE_ADDED
            && self.newer_version(applied_to(event), event.seq).is_some()
    }

    /// Is this event, of the session whose state this is, in what people and models see of it? It was
    /// not rewound, and no newer version stands for it. An event after the state is.
    #[must_use]
    pub fn shows(&self, event: &Event) -> bool {
        event.seq > self.core.seq
            || (self.core.lineage.contains(event.seq) && !self.is_replaced(event))
    }

    /// The newest version of a live message; `None` if no other replaced it.
    #[must_use]
    pub fn newest_version(&self, event: &Event) -> Option<Seq> {
        let last = self.versions_since(applied_to(event), event.seq).last().copied();
        last.filter(|last| self.is_replaced(event) && *last != event.seq)
    }

    fn newer_version(&self, lane: &str, seq: Seq) -> Option<Seq> {
        self.replaced.get(&replaced_key(lane, seq)).copied()
    }

    /// A message and the versions after it that are known to replace each other.
    pub(super) fn versions_since(&self, lane: &str, old: Seq) -> Vec<Seq> {
        let mut versions = vec![old];
        let mut at = old;
        // Each is newer than the one before, so this ends.
        while let Some(newer) = self.newer_version(lane, at).filter(|newer| *newer > at) {
            versions.push(newer);
            at = newer;
        }
        versions
    }

    /// Applies a revision: all versions known so far are replaced by it.
    pub(super) fn apply_revision(&mut self, event: &Event, old: Seq) {
        let lane = applied_to(event).to_owned();
        for version in self.versions_since(&lane, old) {
            self.replaced.set(&replaced_key(&lane, version), Some(event.seq));
        }
        self.apply_to_lane(event, |lane| lane.revise(old, event.seq));
    }
}

fn applied_to(event: &Event) -> &str {
    event.lane.as_ref().map(LaneId::as_str).unwrap_or_default()
}

/// Lanes are apart: what is in another one is not replaced.
pub(super) fn replaced_key(lane: &str, seq: Seq) -> String {
    if lane.is_empty() { seq.to_string() } else { format!("{seq} {lane}") }
}
