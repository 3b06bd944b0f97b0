//! The small part of a state: what every session has, whatever its length.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::LaneState;
use crate::fact::{
    GitState, LimitObservation, Recovery, ResourceSample, SessionFields, SessionStatus, TaskStatus,
    Usage,
};
use crate::{
    Anomaly, Epoch, FileOp, Lineage, ObjectHash, Seq, SessionId, TaskId, Timestamp, TurnNumber,
};

/// Counts more of something. A snapshot whose sums are right is believed, whatever it says: no count
/// overflows.
pub(super) const fn more(counted: &mut u64, more: u64) {
    *counted = counted.saturating_add(more);
}

/// How many messages, by role.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Messages {
    /// In all.
    pub total: u64,
    /// By role; past sixteen roles the rest are `other`.
    pub by_role: BTreeMap<String, u64>,
    /// The newest.
    pub last: Option<Seq>,
}

/// The turns so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Turns {
    /// The greatest number used; never reverts.
    pub last: TurnNumber,
    /// How many are live.
    pub total: u64,
    /// How many of them ended.
    pub finished: u64,
    /// The last decision of an arbiter.
    pub decided: Option<Seq>,
}

/// The tool calls and requests so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Calls {
    /// Tool calls.
    pub tools: u64,
    /// Tool calls that ended.
    pub finished: u64,
    /// Tool calls that ended badly.
    pub failed: u64,
    /// Tool calls that were only observed.
    pub observed: u64,
    /// Requests to a model.
    pub requests: u64,
    /// Answers.
    pub answers: u64,
    /// Answers that were errors.
    pub errors: u64,
}

/// The tasks so far, counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tasks {
    /// In all.
    pub total: u64,
    /// By status.
    pub by_status: BTreeMap<TaskStatus, u64>,
    /// Leaves that wait for nothing and nobody has begun.
    pub ready: u64,
    /// Edges between tasks.
    pub dependencies: u64,
    /// The last one that somebody began.
    pub active: Option<TaskId>,
}

/// The checkpoints so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoints {
    /// The greatest number used; never reverts.
    pub last: u64,
    /// How many are live.
    pub total: u64,
    /// The newest live one.
    pub newest: Option<u64>,
    /// The newest snapshot of a live one.
    pub snapshot: Option<ObjectHash>,
    /// Those that retention let go, first and last of each range; never reverts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thinned: Vec<(u64, u64)>,
}

impl Checkpoints {
    /// Did retention let this one go?
    #[must_use]
    pub fn is_thinned(&self, number: u64) -> bool {
        let after = self.thinned.partition_point(|(first, _)| *first <= number);
        let range = after.checked_sub(1).and_then(|at| self.thinned.get(at));
        range.is_some_and(|(_, last)| number <= *last)
    }

    /// Takes in that one was made, and gives its number: its own, or the next one.
    pub(super) fn number(&mut self, own: Option<u64>) -> u64 {
        let number = own.unwrap_or(self.last.saturating_add(1));
        self.last = self.last.max(number);
        number
    }

    /// Takes in that these were let go. Where their payloads were erased since, this alone tells
    /// that their numbers were used.
    pub(super) fn thin(&mut self, numbers: &[u64]) {
        self.last = numbers.iter().copied().fold(self.last, u64::max);
        self.thinned.extend(numbers.iter().map(|number| (*number, *number)));
        self.thinned.sort_unstable();
        self.thinned.dedup_by(|later, earlier| {
            let joins = later.0 <= earlier.1.saturating_add(1);
            if joins {
                earlier.1 = earlier.1.max(later.1);
            }
            joins
        });
    }
}

/// Recovery and what is odd.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Events that did not fit.
    pub anomalies: u64,
    /// The newest of them.
    pub last_anomaly: Option<(Seq, Anomaly)>,
    /// Recoveries.
    pub recoveries: u64,
    /// A person should look at the session.
    pub requires_validation: bool,
    /// Payloads erased.
    pub erased: u64,
}

impl Health {
    /// Takes in a recovery.
    pub(super) fn recovered(&mut self, fact: &Recovery) {
        more(&mut self.recoveries, 1);
        self.requires_validation |= fact.requires_validation;
        self.requires_validation &= !fact.accepted;
    }
}

/// A run of an agent under supervision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// Where it began, and is told with its command.
    pub started: Seq,
    /// Where it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Seq>,
}

/// Everything about a session that does not grow with it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Core {
    /// The last event that was applied.
    pub seq: Seq,
    /// Its time.
    pub at: Timestamp,
    /// The session's id, once `session.created` was seen.
    pub id: Option<SessionId>,
    /// When it was created.
    pub created: Timestamp,
    /// Title, workspace, agent and the rest.
    pub fields: SessionFields,
    /// Where it stands.
    pub status: SessionStatus,
    /// Why.
    pub reason: Option<String>,
    /// What came of it.
    pub summary: Option<String>,
    /// The last writer's epoch; never reverts.
    pub epoch: Epoch,
    /// That writer has not closed.
    pub writing: bool,
    /// Which events are live.
    pub lineage: Lineage,
    /// The main lane. Named ones are in a table.
    pub main: LaneState,
    /// Turns.
    pub turns: Turns,
    /// Messages.
    pub messages: Messages,
    /// Calls.
    pub calls: Calls,
    /// Tasks.
    pub tasks: Tasks,
    /// Checkpoints.
    pub checkpoints: Checkpoints,
    /// Compactions.
    pub compactions: u64,
    /// What was used in all; never reverts.
    pub usage: Usage,
    /// The model as it was last configured: its name, and where its settings are.
    pub model: Option<(String, Seq)>,
    /// The context window of that model.
    pub window: Option<u64>,
    /// Rate limits as last seen, by name; at most sixteen.
    pub limits: BTreeMap<String, LimitObservation>,
    /// File operations.
    pub files: BTreeMap<FileOp, u64>,
    /// Artifacts, and how many of them went badly.
    pub artifacts: (u64, u64),
    /// Where the dependencies were last resolved.
    pub dependencies: Option<Seq>,
    /// Git as last seen, without its lists of paths.
    pub git: Option<GitState>,
    /// The processes as last seen.
    pub resources: Option<ResourceSample>,
    /// The most memory seen.
    pub peak_rss_bytes: u64,
    /// Log lines by level; past sixteen levels the rest are `other`.
    pub logs: BTreeMap<String, u64>,
    /// The newest error in the log.
    pub last_error: Option<Seq>,
    /// What is odd.
    pub health: Health,
    /// Rewinds; never reverts.
    pub rewinds: u64,
    /// The newest rewind; never reverts.
    pub last_rewind: Option<Seq>,
    /// The newest run of an agent under supervision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunState>,
    /// A rewind whose files may be half-way; never reverts.
    pub restoring: Option<Seq>,
}
