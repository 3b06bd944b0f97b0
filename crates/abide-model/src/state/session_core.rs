//! The core of a state: the part whose size does not depend on the length of the session.

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

/// Adds to a count. Saturates, because a state cache with a valid checksum is trusted whatever it
/// says.
pub(super) const fn add_to_core_count(counted: &mut u64, more: u64) {
    *counted = counted.saturating_add(more);
}

/// Counts of messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageCounts {
    /// All messages.
    pub total: u64,
    /// By role; after sixteen roles the rest count as `other`.
    pub by_role: BTreeMap<String, u64>,
    /// The newest.
    pub last: Option<Seq>,
}

/// Counts of turns.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnCounts {
    /// The highest number used; never reverts.
    pub last: TurnNumber,
    /// Live turns.
    pub total: u64,
    /// Live turns that ended.
    pub finished: u64,
    /// The last decision of an arbiter.
    pub decided: Option<Seq>,
}

/// Counts of tool calls and requests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallCounts {
    /// Tool calls.
    pub tools: u64,
    /// Tool calls that finished.
    pub finished: u64,
    /// Tool calls that failed.
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

/// Counts of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskCounts {
    /// All tasks.
    pub total: u64,
    /// By status.
    pub by_status: BTreeMap<TaskStatus, u64>,
    /// Leaves that are planned and wait for nothing.
    pub ready: u64,
    /// Dependencies between tasks.
    pub dependencies: u64,
    /// The task that was started last.
    pub active: Option<TaskId>,
}

/// Counts of checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckpointCounts {
    /// The highest number used; never reverts.
    pub last: u64,
    /// Live checkpoints.
    pub total: u64,
    /// The newest live checkpoint.
    pub newest: Option<u64>,
    /// The newest snapshot of a live checkpoint.
    pub snapshot: Option<ObjectHash>,
    /// Checkpoints that retention dropped, first and last of each range; never reverts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub thinned: Vec<(u64, u64)>,
}

impl CheckpointCounts {
    /// Did retention drop this checkpoint?
    #[must_use]
    pub fn is_thinned(&self, number: u64) -> bool {
        let after = self.thinned.partition_point(|(first, _)| *first <= number);
        let range = after.checked_sub(1).and_then(|at| self.thinned.get(at));
        range.is_some_and(|(_, last)| number <= *last)
    }

    /// Counts a new checkpoint and returns its number: its own, or the next one.
    pub(super) fn number(&mut self, own: Option<u64>) -> u64 {
        let number = own.unwrap_or(self.last.saturating_add(1));
        self.last = self.last.max(number);
        number
    }

    /// Marks these as dropped. If their payloads were erased since, only this tells that their
    /// numbers were used.
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

/// Anomalies and recoveries.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionHealth {
    /// Events with an anomaly.
    pub anomalies: u64,
    /// The newest of them.
    pub last_anomaly: Option<(Seq, Anomaly)>,
    /// Recoveries.
    pub recoveries: u64,
    /// A person should review the session.
    pub requires_validation: bool,
    /// Erased payloads.
    pub erased: u64,
}

impl SessionHealth {
    /// Counts a recovery.
    pub(super) fn recovered(&mut self, fact: &Recovery) {
        add_to_core_count(&mut self.recoveries, 1);
        self.requires_validation |= fact.requires_validation;
        self.requires_validation &= !fact.accepted;
    }
}

/// A supervised run of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// Its `run.started`, which holds the command.
    pub started: Seq,
    /// Its `run.finished`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Seq>,
}

/// Everything about a session that does not grow with it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionCore {
    /// The last applied event.
    pub seq: Seq,
    /// Its time.
    pub at: Timestamp,
    /// The session's id, once `session.created` was applied.
    pub id: Option<SessionId>,
    /// When it was created.
    pub created: Timestamp,
    /// Title, workspace, agent and so on.
    pub fields: SessionFields,
    /// Its status.
    pub status: SessionStatus,
    /// The reason for that status.
    pub reason: Option<String>,
    /// A summary of the outcome.
    pub summary: Option<String>,
    /// The last writer's epoch; never reverts.
    pub epoch: Epoch,
    /// That writer has not closed the session.
    pub writing: bool,
    /// The live events.
    pub lineage: Lineage,
    /// The main lane. Named lanes are in a table.
    pub main: LaneState,
    /// Turns.
    pub turns: TurnCounts,
    /// Messages.
    pub messages: MessageCounts,
    /// Calls.
    pub calls: CallCounts,
    /// Tasks.
    pub tasks: TaskCounts,
    /// Checkpoints.
    pub checkpoints: CheckpointCounts,
    /// Compactions.
    pub compactions: u64,
    /// The total usage; never reverts.
    pub usage: Usage,
    /// The model as last configured: its name, and the event with its settings.
    pub model: Option<(String, Seq)>,
    /// The context window of that model.
    pub window: Option<u64>,
    /// Rate limits as last observed, by name; at most sixteen.
    pub limits: BTreeMap<String, LimitObservation>,
    /// File operations.
    pub files: BTreeMap<FileOp, u64>,
    /// Artifacts, and how many of them failed.
    pub artifacts: (u64, u64),
    /// The last resolution of the dependencies.
    pub dependencies: Option<Seq>,
    /// The git state as last observed, without lists of paths.
    pub git: Option<GitState>,
    /// Resource usage as last observed.
    pub resources: Option<ResourceSample>,
    /// The highest memory usage observed.
    pub peak_rss_bytes: u64,
    /// Log lines by level; after sixteen levels the rest count as `other`.
    pub logs: BTreeMap<String, u64>,
    /// The newest error in the log.
    pub last_error: Option<Seq>,
    /// Anomalies and recoveries.
    pub health: SessionHealth,
    /// Rewinds; never reverts.
    pub rewinds: u64,
    /// The newest rewind; never reverts.
    pub last_rewind: Option<Seq>,
    /// The newest supervised run of an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunState>,
    /// A rewind whose files may be partly restored; never reverts.
    pub restoring: Option<Seq>,
}
