//! The entries of a state's tables.

use serde::{Deserialize, Serialize};

use super::apply::clip;
use crate::fact::{Checkpoint, FileOp, TaskStatus, TurnRole, Usage};
use crate::{Event, LaneId, ObjectHash, Seq, TaskId, Timestamp, TurnNumber};

/// A call that has no result yet. After a crash its outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallState {
    /// Where it was made.
    pub seq: Seq,
    /// Which tool, or `api` for a request to a model.
    pub name: String,
    /// It was only observed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// It is a request to a model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub request: bool,
    /// The lane it was made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneId>,
    /// The task it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

/// A turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnState {
    /// Where it began.
    pub first: Seq,
    /// Where it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Seq>,
    /// When it began.
    pub started: Timestamp,
    /// Which agent.
    pub agent: String,
    /// Agent or arbiter.
    pub role: TurnRole,
    /// How it ended.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Where an arbiter's decision is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided: Option<Seq>,
    /// What it used.
    #[serde(skip_serializing_if = "is_nothing")]
    pub usage: Usage,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_nothing(usage: &Usage) -> bool {
    *usage == Usage::default()
}

/// A lane.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneState {
    /// The turn that is open in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnNumber>,
    /// Messages in it.
    pub messages: u64,
    /// The first of them, or the first tool call before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Seq>,
    /// The instructions that it begins with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<Seq>,
    /// What is pinned, in the order of the journal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<Seq>,
    /// The compactions that stand, oldest first; those before the newest are there to go back to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compactions: Vec<Compacted>,
    /// Where a model's answer last said how many tokens it read and wrote, and how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<(Seq, u64)>,
}

/// A compaction that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// Where it is.
    pub at: Seq,
    /// The first event that it covers.
    pub first: Seq,
    /// The last one.
    pub last: Seq,
    /// Those in between that stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<Seq>,
}

impl Compacted {
    /// The most events that one can keep.
    pub const KEEPS: usize = 256;

    /// Does its summary stand for this event?
    #[must_use]
    pub fn covers(&self, seq: Seq) -> bool {
        self.first <= seq && seq <= self.last && self.keeps.binary_search(&seq).is_err()
    }
}

impl LaneState {
    /// How many instructions at the beginning are known; what comes after them may be compacted.
    pub(super) const INSTRUCTIONS: usize = 16;
    /// How many compactions can be taken back, one after the other.
    pub(super) const COMPACTIONS: usize = 32;
    /// The most events that can be pinned.
    pub const PINS: usize = 64;

    /// Takes a compaction in; says whether it covers something that none did before, and whether
    /// there was room for it. Those that a later one stands for go first.
    pub(super) fn compact(&mut self, new: Compacted) -> bool {
        let within =
            |one: &Compacted, other: &Compacted| other.first <= one.first && one.last <= other.last;
        let mut standing = self.compactions.iter();
        if standing.any(|one| within(&new, one) && (one.first, one.last) != (new.first, new.last)) {
            return false;
        }
        self.compactions.push(new);
        if self.compactions.len() > Self::COMPACTIONS {
            let nested = self.compactions.iter().enumerate().position(|(place, one)| {
                self.compactions.iter().skip(place + 1).any(|later| within(one, later))
            });
            match nested {
                Some(place) => drop(self.compactions.remove(place)),
                None => {
                    self.compactions.pop();
                    return false;
                }
            }
        }
        true
    }

    /// The newest compaction that stands.
    #[must_use]
    pub fn compacted(&self) -> Option<&Compacted> {
        self.compactions.last()
    }
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// What was last done to it.
    pub op: FileOp,
    /// Where.
    pub seq: Seq,
    /// What it then held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ObjectHash>,
}

/// A checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointState {
    /// Where it is.
    pub seq: Seq,
    /// When it was made.
    pub at: Timestamp,
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What brought it about.
    #[serde(default)]
    pub trigger: String,
    /// Stays when checkpoints are thinned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Its workspace snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ObjectHash>,
}

impl CheckpointState {
    /// The checkpoint that this event recorded.
    #[must_use]
    pub fn new(event: &Event, fact: Checkpoint) -> Self {
        Self {
            seq: event.seq,
            at: event.at,
            id: fact.id.map(clip),
            label: fact.label.map(clip),
            trigger: clip(fact.trigger),
            pinned: fact.pinned,
            snapshot: fact.snapshot,
        }
    }
}

/// A task. What is derived (children, what it waits for) is kept as tasks change, so that one
/// change costs its neighbours and no more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskState {
    /// Created; otherwise only named by another task that depends on it or is a part of it.
    pub known: bool,
    /// Its title, at most 200 characters of it.
    pub title: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// The word another system uses for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<String>,
    /// The task it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// What must be done before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<TaskId>,
    /// What waits for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<TaskId>,
    /// How many of `depends` are not done.
    pub waits: u64,
    /// Its parts, and how many of them are done.
    pub children: (u64, u64),
    /// Its place in the order of creation.
    pub order: u64,
    /// Greater goes first.
    pub priority: i64,
    /// How often it was begun.
    pub attempts: u64,
    /// How often it came to nothing: it failed, or is done again because it did.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: u64,
    /// Where it was created.
    pub created: Seq,
    /// Where it last changed.
    pub changed: Seq,
    /// Where its result is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Seq>,
    /// Where it is told at length what is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Seq>,
    /// Where its documents are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<Seq>,
    /// The agent's own name for the session in which it last worked on this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<String>,
}

impl TaskState {
    /// Can somebody begin it? It is planned, has no parts of its own and waits for nothing.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.known && self.status == TaskStatus::Planned && self.waits == 0 && self.children.0 == 0
    }
}

/// What was used, per model or lane.
pub(super) type UsageEntry = Usage;
