//! Revisions: messages that replace earlier ones. An agent may write a message again when it knows
//! more of it; the newest version counts, the others stay in the journal.
//!
//! The mark `abide.replaces` names the earlier version. It means something if that is a live message
//! of the same lane; messages that name the same one are versions of it too.

use std::collections::HashMap;
use std::sync::LazyLock;

use memchr::memmem;

use crate::json::RawJsonFields;
use crate::message::Marks;
use crate::{Event, Kind, LaneId, Lineage, Seq};

/// Finds the mark of a revision. To make it costs as much as to search a short message.
static REPLACES: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new(Marks::REPLACES));

impl Event {
    /// The earlier event that this message says it replaces. Whether it does depends on that event:
    /// see [`MessageRevisions`] and [`SessionState::is_replaced`](crate::SessionState::is_replaced).
    #[must_use]
    pub fn replaces(&self) -> Option<Seq> {
        let data = self.data.as_ref().filter(|_| self.kind == Kind::MESSAGE_ADDED)?;
        // Few messages are revisions: the others are not parsed.
        REPLACES.find(data.as_str().as_bytes())?;
        let marks = Marks::of(&RawJsonFields::of(data.as_str())?);
        marks.replaces.filter(|old| Seq::ZERO < *old && *old < self.seq)
    }
}

/// A message of a lane.
type LaneMessage = (Option<LaneId>, Seq);

/// The marks of the revisions among the events that it was shown, live or not.
#[derive(Debug, Clone, Default)]
pub struct MessageRevisions {
    /// Each revision, and what it replaces.
    marks: Vec<(LaneMessage, Seq)>,
}

impl MessageRevisions {
    /// Notes the next event.
    pub fn note(&mut self, event: &Event) {
        if let Some(old) = event.replaces() {
            self.marks.push(((event.lane.clone(), event.seq), old));
        }
    }

    /// Adds what was noted of later events.
    pub fn extend(&mut self, later: &Self) {
        self.marks.extend(later.marks.iter().cloned());
    }

    /// The versions of each message, given which events are live.
    #[must_use]
    pub fn settled(self, lineage: &Lineage) -> MessageVersions {
        let mut versions = MessageVersions::default();
        for ((lane, new), old) in self.marks {
            if lineage.contains(new) && lineage.contains(old) {
                let first = versions.first.get(&(lane.clone(), old)).copied().unwrap_or(old);
                versions.newest.insert((lane.clone(), first), new);
                versions.first.insert((lane, new), first);
            }
        }
        versions
    }
}

/// The live versions of each message that was replaced.
#[derive(Debug, Clone, Default)]
pub struct MessageVersions {
    /// The first version of each revision.
    first: HashMap<LaneMessage, Seq>,
    /// The newest version of each of these.
    newest: HashMap<LaneMessage, Seq>,
}

impl MessageVersions {
    /// Is there a newer version of this message?
    #[must_use]
    pub fn is_replaced(&self, event: &Event) -> bool {
        self.of(event).is_some_and(|(_, newest)| newest > event.seq)
    }

    /// The first and the newest version of a message that has several.
    pub(crate) fn of(&self, event: &Event) -> Option<(Seq, Seq)> {
        if self.newest.is_empty() || event.kind != Kind::MESSAGE_ADDED {
            return None;
        }
        let first = self.first.get(&(event.lane.clone(), event.seq)).copied().unwrap_or(event.seq);
        Some((first, *self.newest.get(&(event.lane.clone(), first))?))
    }
}
