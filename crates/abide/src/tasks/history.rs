//! What happened to the tasks of a session: when each was worked on, how each try ended, and what its
//! checks said. The state keeps only counts; this reads the events.

use std::collections::BTreeMap;

use abide_model::{
    Event, EventRange, Fact, Kind, Seq, TaskId, TaskStatus, TaskStatusChange, Timestamp,
};
use serde::Serialize;

use crate::{Error, SessionView};

/// The kind of artifact that a check of a task is recorded as.
const CHECK: &str = "check";

/// What happened to a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TaskHistory {
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// When it was first started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it got its status, if that is complete, failed, blocked or obsolete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How long it was worked on, over all tries that have ended.
    pub worked_ms: u64,
    /// Why it has its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Each time that it was worked on.
    pub tries: Vec<TaskTry>,
    /// What its checks said.
    pub checks: Vec<CheckRecord>,
}

/// A time that a task was worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskTry {
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; `None` if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The status that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskStatus>,
    /// Why it ended so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a check of a task said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckRecord {
    /// Its event, which has what the check printed.
    pub seq: Seq,
    /// When it ended.
    pub at: Timestamp,
    /// The command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Whether it passed.
    pub ok: bool,
    /// Its exit code; `None` if a signal ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
}

impl TaskHistory {
    fn set(&mut self, at: Timestamp, change: TaskStatusChange) {
        let TaskStatusChange { status, reason, .. } = change;
        // A retry ends the try before it.
        let goes_on = status.is_active() && status != TaskStatus::Retrying;
        let open = self.tries.last_mut().filter(|last| last.ended_at.is_none());
        match open {
            Some(_) if goes_on => {}
            Some(open) => {
                let millis = at.as_millis().saturating_sub(open.started_at.as_millis());
                let millis = u64::try_from(millis).unwrap_or_default();
                open.ended_at = Some(at);
                open.duration_ms = Some(millis);
                open.status = Some(status);
                open.reason.clone_from(&reason);
                self.worked_ms = self.worked_ms.saturating_add(millis);
                if status.is_active() {
                    self.begin(at);
                }
            }
            None if status.is_active() => self.begin(at),
            None => {}
        }
        let ended = !status.is_active() && status != TaskStatus::Planned;
        self.ended_at = ended.then_some(at);
        self.reason = reason;
    }

    fn begin(&mut self, at: Timestamp) {
        self.started_at.get_or_insert(at);
        let reason = None;
        let (ended_at, duration_ms, status) = Default::default();
        self.tries.push(TaskTry { started_at: at, ended_at, duration_ms, status, reason });
    }
}

impl SessionView {
    /// What happened to each task of the session. Reads the events from the first task on.
    pub fn task_histories(&self) -> Result<BTreeMap<TaskId, TaskHistory>, Error> {
        let state = self.state()?;
        let mut histories: BTreeMap<TaskId, TaskHistory> = BTreeMap::new();
        let known = state.tasks.iter().filter(|(_, task)| task.known);
        let Some(first) = known.map(|(_, task)| task.created).min() else { return Ok(histories) };
        for event in self.events(EventRange { last: state.core.seq, ..EventRange::from(first) }) {
            let event = event?;
            if state.core.lineage.contains(event.seq) {
                observe_task_event(&mut histories, &event);
            }
        }
        Ok(histories)
    }
}

fn observe_task_event(histories: &mut BTreeMap<TaskId, TaskHistory>, event: &Event) {
    let (seq, at) = (event.seq, event.at);
    if ![Kind::TASK_CREATED, Kind::TASK_STATUS, Kind::ARTIFACT_RECORDED].contains(&event.kind) {
        return;
    }
    match event.fact() {
        Ok(Fact::TaskCreated(created)) => {
            histories.entry(created.task).or_default().created_at.get_or_insert(at);
        }
        Ok(Fact::TaskStatus(change)) => {
            histories.entry(change.task.clone()).or_default().set(at, change);
        }
        Ok(Fact::Artifact(artifact)) if artifact.kind == CHECK => {
            let Some(task) = artifact.task.or_else(|| event.task.clone()) else { return };
            let (command, ok, exit) = (artifact.command, artifact.ok, artifact.exit);
            let check = CheckRecord { seq, at, command, ok, exit };
            histories.entry(task).or_default().checks.push(check);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(history: &mut TaskHistory, at: i64, status: TaskStatus, reason: Option<&str>) {
        let reason = reason.map(str::to_owned);
        let change = TaskStatusChange { status, reason, ..TaskStatusChange::default() };
        history.set(Timestamp::from_millis(at), change);
    }

    #[test]
    fn each_try_has_its_times_and_its_end() {
        let mut history = TaskHistory::default();
        set(&mut history, 100, TaskStatus::Researching, None);
        set(&mut history, 150, TaskStatus::Implementing, None);
        assert_eq!((history.tries.len(), history.worked_ms), (1, 0));
        set(&mut history, 400, TaskStatus::Retrying, Some("it did not compile"));
        set(&mut history, 500, TaskStatus::Failed, Some("no"));
        assert_eq!(history.ended_at, Some(Timestamp::from_millis(500)));
        set(&mut history, 900, TaskStatus::Planned, None);
        assert_eq!((history.ended_at, history.reason.as_deref()), (None, None));
        set(&mut history, 1000, TaskStatus::Implementing, None);
        let ends: Vec<_> = history
            .tries
            .iter()
            .map(|one| (one.duration_ms, one.status, one.reason.as_deref()))
            .collect();
        assert_eq!(
            ends,
            [
                (Some(300), Some(TaskStatus::Retrying), Some("it did not compile")),
                (Some(100), Some(TaskStatus::Failed), Some("no")),
                (None, None, None),
            ]
        );
        assert_eq!(history.worked_ms, 400);
        assert_eq!(history.started_at, Some(Timestamp::from_millis(100)));
    }
}
