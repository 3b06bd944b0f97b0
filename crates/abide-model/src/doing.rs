//! What a session is doing: turns, calls and tasks that have not ended.

use serde::Serialize;

use crate::{
    CallId, CallState, Liveness, LivenessEvidence, LivenessReason, Seq, SessionFields, SessionId,
    SessionState, TaskId, TaskStatus, Timestamp, TurnNumber,
};

/// A process that was started for a session and outlives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OrphanProcess {
    /// Process id.
    pub process: u32,
    /// Program name.
    pub program: String,
}

/// A turn that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenTurn {
    /// Its number.
    pub turn: TurnNumber,
    /// Its agent.
    pub agent: String,
    /// Its lane; "" for the main lane.
    pub lane: String,
    /// When it started.
    pub started: Timestamp,
}

/// A call without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenCall {
    /// Its id.
    pub call: CallId,
    /// Its tool, event, turn and task.
    #[serde(flatten)]
    pub state: CallState,
}

/// A task in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActiveTask {
    /// Its id.
    pub task: TaskId,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: TaskStatus,
}

/// Whether the writer of a session is alive, the evidence for it, and what the session was doing.
#[derive(Debug, Clone)]
pub struct SessionLiveness {
    /// The session.
    pub session: SessionId,
    /// Alive, stale, crashed or idle.
    pub liveness: Liveness,
    /// Why.
    pub reason: LivenessReason,
    /// What was observed.
    pub evidence: LivenessEvidence,
    /// Title, agent and the rest.
    pub fields: SessionFields,
    /// The last event.
    pub seq: Seq,
    /// Its time.
    pub at: Timestamp,
    /// Turns that have not ended, in order.
    pub turns: Vec<OpenTurn>,
    /// Calls without a result, in order. In a crashed session their outcome is unknown.
    pub calls: Vec<OpenCall>,
    /// Tasks in progress, in order.
    pub tasks: Vec<ActiveTask>,
    /// Processes started for the session that outlive its writer. Only for a crashed session.
    pub orphans: Vec<OrphanProcess>,
}

impl SessionLiveness {
    /// The reason as a clause that follows the name of the session.
    #[must_use]
    pub fn explain(&self) -> String {
        self.evidence.explain(self.reason)
    }

    /// Builds it from the state of a session.
    #[must_use]
    pub fn of(
        session: SessionId,
        (liveness, reason): (Liveness, LivenessReason),
        evidence: LivenessEvidence,
        state: &SessionState,
    ) -> Self {
        let lanes = state.lanes.iter().map(|(name, lane)| (name, lane.turn));
        let open = std::iter::once(("", state.core.main.turn)).chain(lanes);
        let mut turns: Vec<OpenTurn> = open
            .filter_map(|(lane, turn)| {
                let turn = turn?;
                let entry = state.turns.get(&turn.to_string())?;
                let (agent, started) = (entry.agent.clone(), entry.started);
                Some(OpenTurn { turn, agent, lane: lane.to_owned(), started })
            })
            .collect();
        turns.sort_by_key(|open| open.turn);
        let mut calls: Vec<OpenCall> = state
            .calls
            .iter()
            .map(|(call, state)| OpenCall { call: CallId(call.to_owned()), state: state.clone() })
            .collect();
        calls.sort_by_key(|call| call.state.seq);
        let mut active: Vec<_> =
            state.tasks.iter().filter(|(_, task)| task.known && task.status.is_active()).collect();
        active.sort_by_key(|(_, task)| task.order);
        let tasks = active.into_iter().map(|(task, state)| ActiveTask {
            task: TaskId(task.to_owned()),
            title: state.title.clone(),
            status: state.status,
        });
        Self {
            session,
            liveness,
            reason,
            evidence,
            fields: state.core.fields.clone(),
            seq: state.core.seq,
            at: state.core.at,
            turns,
            calls,
            tasks: tasks.collect(),
            orphans: Vec::new(),
        }
    }
}
