//! What became of the writer of a session, and what it was doing. Reads only.

use std::time::Duration;

use abide_journal::{LockMode, Storage};
use abide_model::{
    CallId, CallState, Liveness, LivenessEvidence, LivenessReason, LockSeen, ProcessSeen, Seq,
    SessionFields, SessionId, SessionState, StoreError, TaskId, TaskStatus, Timestamp, TurnNumber,
    WriterHolder,
};
use serde::Serialize;

use crate::error::store_error;
use crate::heartbeat::holder_in;
use crate::layout::SessionLayout;
use crate::process::{self, ForSessions, Orphan};
use crate::store::LocalStore;

/// So often a session is looked at again when its writers came or went meanwhile.
const LOOKS: usize = 8;
/// And so long after the look before.
const PAUSE: Duration = Duration::from_millis(1);

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
}

impl LocalStore {
    /// What became of the writer of a session.
    pub fn liveness(&self, session: SessionId) -> Result<SessionLiveness, StoreError> {
        let mut found = self.livenesses(&[session]);
        found.pop().unwrap_or_else(|| Err(StoreError::NoSession { reference: session.to_string() }))
    }

    /// What became of the writers of these sessions, each by itself.
    pub fn livenesses(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, StoreError>> {
        let mut processes = None;
        let one = |session: &SessionId| {
            let mut found = self.look_for_writer(*session)?;
            if found.liveness == Liveness::Crashed {
                let processes = processes.get_or_insert_with(ForSessions::scan);
                found.orphans = processes.of(*session, found.fields.key.as_deref());
            }
            Ok(found)
        };
        sessions.iter().map(one).collect()
    }

    /// Has anybody this session open, as far as its lock tells?
    #[must_use]
    pub fn is_held(&self, session: SessionId) -> bool {
        self.layout_of(session).is_ok_and(|layout| {
            let holder = self.holder_at(&layout);
            self.lock_seen(&layout, holder.as_ref()) == LockSeen::Held
        })
    }

    fn look_for_writer(&self, session: SessionId) -> Result<SessionLiveness, StoreError> {
        let layout = self.layout_of(session)?;
        let reader = self.reader_at(session, &layout);
        let mut looks = 0;
        loop {
            looks += 1;
            let before = self.holder_at(&layout);
            let lock = self.lock_seen(&layout, before.as_ref());
            let state = reader.state_now().map_err(store_error)?;
            let holder = self.holder_at(&layout);
            let mut evidence = self.evidence(lock, holder, &state);
            let (liveness, reason) = evidence.judge();
            // What was seen must have been true at one time. A writer names itself before it writes:
            // where somebody else is named now, or has the lock now, the state may be its, and may
            // have been read before it was closed.
            let moved = match liveness {
                Liveness::Crashed | Liveness::Stale => {
                    !same_tenure(before.as_ref(), evidence.holder.as_ref())
                        || self.lock_seen(&layout, evidence.holder.as_ref()) != lock
                }
                Liveness::Alive | Liveness::Idle => false,
            };
            // Who has just taken the lock is not named yet.
            let unnamed =
                matches!(reason, LivenessReason::HeldUnseen | LivenessReason::HeldFromBefore);
            if (moved || unnamed) && looks < LOOKS {
                std::thread::sleep(PAUSE);
                continue;
            }
            if moved {
                // Somebody opens and closes it all the time.
                evidence.lock = LockSeen::Held;
                evidence.process = ProcessSeen::Unknown;
            }
            let (liveness, reason) = evidence.judge();
            return Ok(told(session, liveness, reason, evidence, &state));
        }
    }

    fn evidence(
        &self,
        lock: LockSeen,
        holder: Option<WriterHolder>,
        state: &SessionState,
    ) -> LivenessEvidence {
        let env = &self.options().env;
        let process = holder
            .as_ref()
            .map_or(ProcessSeen::Unknown, |holder| process::seen(holder.process, holder.started));
        LivenessEvidence {
            lock,
            holder,
            process,
            host: env.holder.host.clone(),
            boot: env.boot.clone(),
            now: (env.now)(),
            writing: state.core.writing,
            status: state.core.status,
        }
    }

    fn holder_at(&self, layout: &SessionLayout) -> Option<WriterHolder> {
        holder_in(&**self.storage(), &layout.lock())
    }

    /// Is the lock held? Where nobody is named in its file, that file may not be there, and is not
    /// made for the question.
    fn lock_seen(&self, layout: &SessionLayout, holder: Option<&WriterHolder>) -> LockSeen {
        let path = layout.lock();
        let storage: &dyn Storage = &**self.storage();
        if holder.is_none() && storage.modified(&path).is_err() {
            return LockSeen::Unknown;
        }
        match storage.lock(&path, LockMode::Shared) {
            Ok(Some(_)) => LockSeen::Free,
            Ok(None) => LockSeen::Held,
            Err(_) => LockSeen::Unknown,
        }
    }
}

/// Do both name the same writer, since the same time?
fn same_tenure(a: Option<&WriterHolder>, b: Option<&WriterHolder>) -> bool {
    let tenure =
        |holder: &WriterHolder| (holder.process, holder.host.clone(), holder.started, holder.since);
    a.map(tenure) == b.map(tenure)
}

fn told(
    session: SessionId,
    liveness: Liveness,
    reason: LivenessReason,
    evidence: LivenessEvidence,
    state: &SessionState,
) -> SessionLiveness {
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
    SessionLiveness {
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
