//! The entries of a state's tables.

use serde::{Deserialize, Serialize};

use super::apply::clip_state_text;
use crate::fact::{Checkpoint, DependencyTypes, FileOp, TaskStatus, TurnRole, Usage};
use crate::{Event, LaneId, ObjectHash, Seq, TaskId, Timestamp, TurnNumber};

/// A call without a result. After a crash its outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallState {
    /// Its event.
    pub seq: Seq,
    /// The tool, or `api` for a request to a model.
    pub name: String,
    /// It was only observed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// It is a request to a model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub request: bool,
    /// Its lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneId>,
    /// Its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
}

/// A turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnState {
    /// Its first event.
    pub first: Seq,
    /// The event that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Seq>,
    /// When it started.
    pub started: Timestamp,
    /// The agent.
    pub agent: String,
    /// Agent or arbiter.
    pub role: TurnRole,
    /// How it ended.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The decision of an arbiter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided: Option<Seq>,
    /// Its usage.
    #[serde(skip_serializing_if = "is_empty_entry_usage")]
    pub usage: Usage,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_empty_entry_usage(usage: &Usage) -> bool {
    *usage == Usage::default()
}

/// A lane.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneState {
    /// Its open turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnNumber>,
    /// The number of messages in it.
    pub messages: u64,
    /// The first message, or the first tool call before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Seq>,
    /// The instructions at its start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<Seq>,
    /// The pinned events, in the order of the journal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<Seq>,
    /// The compactions in force, oldest first. Restoring the newest brings the one before it back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compactions: Vec<LiveCompaction>,
    /// The last event in which a model reported how many tokens it read and wrote, and their sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<(Seq, u64)>,
}

/// A compaction in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCompaction {
    /// Its event.
    pub at: Seq,
    /// The first covered event.
    pub first: Seq,
    /// The last covered event.
    pub last: Seq,
    /// Events in between that stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<Seq>,
}

impl LiveCompaction {
    /// Maximum number of kept events.
    pub const KEEPS: usize = 256;

    /// Does its summary cover this event?
    #[must_use]
    pub fn covers(&self, seq: Seq) -> bool {
        self.first <= seq && seq <= self.last && self.keeps.binary_search(&seq).is_err()
    }
}

impl LaneState {
    /// Maximum number of instructions at the start; later ones may be compacted.
    pub(super) const INSTRUCTIONS: usize = 16;
    /// How many compactions can be undone one after the other.
    pub(super) const COMPACTIONS: usize = 32;
    /// Maximum number of pinned events.
    pub const PINS: usize = 64;

    /// Adds a compaction. Returns whether it covers something new and there was room for it. If
    /// there is no room, one that a later compaction covers is dropped first.
    pub(super) fn compact(&mut self, new: LiveCompaction) -> bool {
        let within = |one: &LiveCompaction, other: &LiveCompaction| {
            other.first <= one.first && one.last <= other.last
        };
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

    /// A newer version of instructions stays as they do, so that it is there to stand for them.
    pub(super) fn revise(&mut self, old: Seq, new: Seq) {
        let room = self.instructions.len() < 2 * Self::INSTRUCTIONS;
        if room && self.instructions.contains(&old) {
            self.instructions.push(new);
            // As long as all messages of a lane are instructions, the next may be one.
            self.messages = self.messages.saturating_add(1);
        }
    }

    /// The newest compaction in force.
    #[must_use]
    pub fn compacted(&self) -> Option<&LiveCompaction> {
        self.compactions.last()
    }
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// The last operation on it.
    pub op: FileOp,
    /// The event of that operation.
    pub seq: Seq,
    /// The hash of its content then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ObjectHash>,
}

/// A checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointState {
    /// Its event.
    pub seq: Seq,
    /// When it was made.
    pub at: Timestamp,
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What triggered it.
    #[serde(default)]
    pub trigger: String,
    /// Never thinned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Its workspace snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ObjectHash>,
}

impl CheckpointState {
    /// The checkpoint that this event records.
    #[must_use]
    pub fn new(event: &Event, fact: Checkpoint) -> Self {
        Self {
            seq: event.seq,
            at: event.at,
            id: fact.id.map(clip_state_text),
            label: fact.label.map(clip_state_text),
            trigger: clip_state_text(fact.trigger),
            pinned: fact.pinned,
            snapshot: fact.snapshot,
        }
    }
}

/// A task. Derived fields (parts, what it waits for) are kept current, so that the cost of a change
/// is limited to the task's neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskState {
    /// Whether it was created. If not, another task only depends on it or is part of it.
    pub known: bool,
    /// Its title, at most 200 characters.
    pub title: String,
    /// Its status.
    pub status: TaskStatus,
    /// Another system's word for the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<String>,
    /// The task it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// The tasks it depends on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<TaskId>,
    /// The types of these dependencies, where they do not just block.
    #[serde(skip_serializing_if = "DependencyTypes::is_empty")]
    pub dependency_types: DependencyTypes,
    /// The tasks that depend on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<TaskId>,
    /// How many of `depends` keep it from starting.
    pub waits: u64,
    /// The number of its parts, and how many of them are done.
    pub children: (u64, u64),
    /// Its position in the order of creation.
    pub order: u64,
    /// Its priority; higher goes first.
    pub priority: i64,
    /// How often it was started.
    pub attempts: u64,
    /// How often it failed, including attempts that were retried because they failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: u64,
    /// The event that created it.
    pub created: Seq,
    /// The last event that changed it.
    pub changed: Seq,
    /// The event with its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Seq>,
    /// The event with its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Seq>,
    /// The event that names its documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<Seq>,
    /// The event with its check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Seq>,
    /// The agent's own id of the session in which it last worked on this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<String>,
}

impl TaskState {
    /// Can it be started? It is planned, has no parts and waits for nothing.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.known && self.status == TaskStatus::Planned && self.waits == 0 && self.children.0 == 0
    }
}

/// Usage per model or lane.
pub(super) type UsageEntry = Usage;
