//! What a session was doing when somebody looked: turns, calls and tasks that have not ended.

use serde::Serialize;

use crate::{
    CallId, CallState, Liveness, LivenessEvidence, LivenessReason, Seq, SessionFields, SessionId,
    SessionState, TaskId, TaskStatus, Timestamp, TurnNumber,
};

/// A process that was started for a session and outlives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Orphan {
    /// Its number.
    pub process: u32,
    /// Its program.
    pub program: String,
}

/// A turn that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenTurn {
    /// Its number.
    pub turn: TurnNumber,
    /// Whose it is.
    pub agent: String,
    /// The lane it is in; the main one is "".
    pub lane: String,
    /// When it began.
    pub started: Timestamp,
}

/// A call that has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenCall {
    /// Its id.
    pub call: CallId,
    /// Which tool, where it was made, and what for.
    #[serde(flatten)]
    pub state: CallState,
}

/// A task that somebody was at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActiveTask {
    /// Its id.
    pub task: TaskId,
    /// Its title.
    pub title: String,
    /// Where it stands.
    pub status: TaskStatus,
}

/// What became of the writer of a session, how that is known, and what it was doing.
#[derive(Debug, Clone)]
pub struct SessionLiveness {
    /// Which session.
    pub session: SessionId,
    /// Alive, stale, crashed or idle.
    pub liveness: Liveness,
    /// Why.
    pub reason: LivenessReason,
    /// From what it was told.
    pub evidence: LivenessEvidence,
    /// Title, agent and the rest.
    pub fields: SessionFields,
    /// The last event …
    pub seq: Seq,
    /// … and when it was.
    pub at: Timestamp,
    /// The turns that have not ended, in order.
    pub turns: Vec<OpenTurn>,
    /// The calls that have no result, in order. Of a crashed session, their outcome is unknown.
    pub calls: Vec<OpenCall>,
    /// The tasks that somebody was at, in order.
    pub tasks: Vec<ActiveTask>,
    /// Processes that were started for it and go on without its writer; only of a crashed one.
    pub orphans: Vec<Orphan>,
}

impl SessionLiveness {
    /// Why, in words that follow the name of the session.
    #[must_use]
    pub fn explain(&self) -> String {
        self.evidence.explain(self.reason)
    }

    /// What is told of a session in this state.
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
