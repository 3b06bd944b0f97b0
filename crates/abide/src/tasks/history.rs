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
/// The reason that is recorded when a task that its agent completed is opened again.
pub const UNCHECKED: &str = "its check has not passed";
/// Why a try ended that somebody else goes on with.
const LEFT: &str = "interrupted";

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

/// The events of a session, read for what happened to its tasks.
#[derive(Debug, Default)]
struct TaskHistoryReader {
    tasks: BTreeMap<TaskId, TrackedTask>,
    /// The event before this one.
    last: Option<LastRecord>,
}

/// When something was recorded, and whether the writer closed the session with it.
#[derive(Debug, Clone, Copy)]
struct LastRecord {
    at: Timestamp,
    closes: bool,
}

/// A task whose events are read.
#[derive(Debug, Default)]
struct TrackedTask {
    history: TaskHistory,
    try_state: TryState,
}

/// Where the last try of a task stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum TryState {
    /// It has ended, or there is none.
    #[default]
    Ended,
    /// It is under way.
    Open,
    /// Whoever worked on it was gone after this time.
    Left(Timestamp),
    /// Its agent said that the task is complete; the check has not passed.
    Unchecked,
}

impl TaskHistoryReader {
    fn read(&mut self, event: &Event) {
        // A writer that did not close the session has died: what it worked on was left at its last
        // sign of life. A rewind leaves what was under way at its target.
        let died = event.kind == Kind::WRITER_OPENED && self.last.is_some_and(|last| !last.closes);
        if died || event.kind == Kind::SESSION_REWOUND {
            self.leave_tries();
        }
        let told = [Kind::TASK_CREATED, Kind::TASK_STATUS, Kind::ARTIFACT_RECORDED];
        if told.contains(&event.kind) {
            self.read_fact(event);
        }
        self.last = Some(LastRecord { at: event.at, closes: event.kind == Kind::WRITER_CLOSED });
    }

    /// Nobody works on any task any more.
    fn leave_tries(&mut self) {
        let Some(last) = self.last else { return };
        for task in self.tasks.values_mut() {
            task.try_state = match task.try_state {
                TryState::Open => TryState::Left(last.at),
                TryState::Unchecked => TryState::Ended,
                state @ (TryState::Ended | TryState::Left(_)) => state,
            };
        }
    }

    fn read_fact(&mut self, event: &Event) {
        let (seq, at) = (event.seq, event.at);
        match event.fact() {
            Ok(Fact::TaskCreated(created)) => {
                self.tasks.entry(created.task).or_default().history.created_at.get_or_insert(at);
            }
            Ok(Fact::TaskStatus(change)) => {
                self.tasks.entry(change.task.clone()).or_default().set(at, change);
            }
            Ok(Fact::Artifact(artifact)) if artifact.kind == CHECK => {
                let Some(task) = artifact.task.or_else(|| event.task.clone()) else { return };
                let (command, ok, exit) = (artifact.command, artifact.ok, artifact.exit);
                let check = CheckRecord { seq, at, command, ok, exit };
                self.tasks.entry(task).or_default().history.checks.push(check);
            }
            _ => {}
        }
    }
}

impl TrackedTask {
    fn set(&mut self, at: Timestamp, change: TaskStatusChange) {
        let TaskStatusChange { status, reason, .. } = change;
        let unchecked = reason.as_deref() == Some(UNCHECKED);
        match self.try_state {
            TryState::Ended if unchecked && self.was_completed() => {
                self.relabel(TaskStatus::Planned, reason.clone());
                self.try_state = TryState::Unchecked;
            }
            TryState::Unchecked if unchecked => {}
            TryState::Ended | TryState::Unchecked if status.is_active() => self.begin(at),
            TryState::Ended => {}
            // What its check said.
            TryState::Unchecked => self.end(at, status, reason.clone()),
            // A retry ends the try before it.
            TryState::Open if status.is_active() && status != TaskStatus::Retrying => {}
            TryState::Open => {
                self.end(at, status, reason.clone());
                if status.is_active() {
                    self.begin(at);
                }
            }
            TryState::Left(left) if status.is_active() => {
                self.end(left, TaskStatus::Planned, Some(LEFT.to_owned()));
                self.begin(at);
            }
            TryState::Left(left) => self.end(left, status, reason.clone()),
        }
        let ended = !status.is_active() && status != TaskStatus::Planned;
        self.history.ended_at = ended.then_some(at);
        self.history.reason = reason;
    }

    /// Whether the last try ended with the task complete.
    fn was_completed(&self) -> bool {
        self.history.tries.last().is_some_and(|last| last.status == Some(TaskStatus::Complete))
    }

    fn relabel(&mut self, status: TaskStatus, reason: Option<String>) {
        if let Some(last) = self.history.tries.last_mut() {
            (last.status, last.reason) = (Some(status), reason);
        }
    }

    fn begin(&mut self, at: Timestamp) {
        self.history.started_at.get_or_insert(at);
        self.history.tries.push(TaskTry {
            started_at: at,
            ended_at: None,
            duration_ms: None,
            status: None,
            reason: None,
        });
        self.try_state = TryState::Open;
    }

    fn end(&mut self, at: Timestamp, status: TaskStatus, reason: Option<String>) {
        self.relabel(status, reason);
        if let Some(last) = self.history.tries.last_mut() {
            let millis = at.as_millis().saturating_sub(last.started_at.as_millis());
            last.ended_at = Some(at);
            last.duration_ms = Some(u64::try_from(millis).unwrap_or_default());
        }
        let durations = self.history.tries.iter().filter_map(|one| one.duration_ms);
        self.history.worked_ms = durations.fold(0, u64::saturating_add);
        self.try_state = TryState::Ended;
    }
}

impl SessionView {
    /// What happened to each task of the session. Reads the events from the first task on.
    pub fn task_histories(&self) -> Result<BTreeMap<TaskId, TaskHistory>, Error> {
        let state = self.state()?;
        let mut reader = TaskHistoryReader::default();
        let known = state.tasks.iter().filter(|(_, task)| task.known);
        let Some(first) = known.map(|(_, task)| task.created).min() else {
            return Ok(BTreeMap::new());
        };
        for event in self.events(EventRange { last: state.core.seq, ..EventRange::from(first) }) {
            let event = event?;
            if state.core.lineage.contains(event.seq) {
                reader.read(&event);
            }
        }
        Ok(reader.tasks.into_iter().map(|(task, tracked)| (task, tracked.history)).collect())
    }
}

#[cfg(test)]
mod tests {
    use abide_model::{Event, NewEvent, TaskCreated};

    use super::*;

    /// Events, one after the other, each with its time.
    #[derive(Default)]
    struct Recorded(TaskHistoryReader, u64);

    impl Recorded {
        fn event(&mut self, at: i64, event: NewEvent) {
            self.1 += 1;
            let event: Event = event.into_event(Seq(self.1), Timestamp::from_millis(at));
            self.0.read(&event);
        }

        fn kind(&mut self, at: i64, kind: &str) {
            let line = format!(r#"{{"kind":"{kind}","data":{{}}}}"#);
            self.event(at, NewEvent::parse(&line).unwrap());
        }

        fn set(&mut self, at: i64, status: TaskStatus, reason: Option<&str>) {
            let reason = reason.map(str::to_owned);
            let task = "T".into();
            let change = TaskStatusChange { task, status, reason, ..TaskStatusChange::default() };
            self.event(at, change.try_into().unwrap());
        }

        fn history(&self) -> &TaskHistory {
            &self.0.tasks[&TaskId::from("T")].history
        }

        /// How each try ended: its duration, its status and the reason.
        fn ends(&self) -> Vec<(Option<u64>, Option<TaskStatus>, Option<&str>)> {
            let tries = self.history().tries.iter();
            tries.map(|one| (one.duration_ms, one.status, one.reason.as_deref())).collect()
        }
    }

    fn created() -> Recorded {
        let mut recorded = Recorded::default();
        let task =
            TaskCreated { task: "T".into(), title: "T".to_owned(), ..TaskCreated::default() };
        recorded.event(50, task.try_into().unwrap());
        recorded
    }

    #[test]
    fn each_try_has_its_times_and_its_end() {
        let mut recorded = created();
        recorded.set(100, TaskStatus::Researching, None);
        recorded.set(150, TaskStatus::Implementing, None);
        assert_eq!((recorded.history().tries.len(), recorded.history().worked_ms), (1, 0));
        recorded.set(400, TaskStatus::Retrying, Some("it did not compile"));
        recorded.set(500, TaskStatus::Failed, Some("no"));
        assert_eq!(recorded.history().ended_at, Some(Timestamp::from_millis(500)));
        recorded.set(900, TaskStatus::Planned, None);
        assert_eq!(
            (recorded.history().ended_at, recorded.history().reason.as_deref()),
            (None, None)
        );
        recorded.set(1000, TaskStatus::Implementing, None);
        assert_eq!(
            recorded.ends(),
            [
                (Some(300), Some(TaskStatus::Retrying), Some("it did not compile")),
                (Some(100), Some(TaskStatus::Failed), Some("no")),
                (None, None, None),
            ]
        );
        assert_eq!(recorded.history().worked_ms, 400);
        assert_eq!(recorded.history().created_at, Some(Timestamp::from_millis(50)));
        assert_eq!(recorded.history().started_at, Some(Timestamp::from_millis(100)));
    }

    #[test]
    fn the_time_after_a_death_or_a_rewind_is_not_worked() {
        for (kind, after) in [("writer.opened", 90_000), ("session.rewound", 90_000)] {
            let mut recorded = created();
            recorded.set(100, TaskStatus::Implementing, None);
            recorded.kind(400, "turn.started");
            recorded.kind(after, kind);
            recorded.set(90_001, TaskStatus::Planned, Some("interrupted"));
            recorded.set(90_002, TaskStatus::Implementing, None);
            recorded.set(90_102, TaskStatus::Complete, None);
            assert_eq!(
                recorded.ends(),
                [
                    (Some(300), Some(TaskStatus::Planned), Some("interrupted")),
                    (Some(100), Some(TaskStatus::Complete), None),
                ],
                "{kind}"
            );
            assert_eq!(recorded.history().worked_ms, 400, "{kind}");
        }
        // Whoever sets a status from one command and the next from another works in between.
        let mut recorded = created();
        recorded.set(100, TaskStatus::Implementing, None);
        recorded.kind(101, "writer.closed");
        recorded.kind(500, "writer.opened");
        recorded.set(600, TaskStatus::Complete, None);
        assert_eq!(recorded.ends(), [(Some(500), Some(TaskStatus::Complete), None)]);
    }

    #[test]
    fn a_try_whose_check_failed_is_not_complete() {
        let mut recorded = created();
        recorded.set(100, TaskStatus::Implementing, None);
        recorded.set(200, TaskStatus::Complete, None);
        // Its check fails.
        recorded.set(300, TaskStatus::Obsolete, Some(UNCHECKED));
        recorded.set(300, TaskStatus::Planned, Some(UNCHECKED));
        recorded.set(300, TaskStatus::Failed, Some("the check failed: exit code 1"));
        recorded.set(300, TaskStatus::Planned, Some("to be tried again"));
        recorded.set(400, TaskStatus::Retrying, None);
        recorded.set(500, TaskStatus::Complete, None);
        // The run died before the check; the next one checks, and that is a try of its own.
        recorded.kind(9000, "writer.opened");
        recorded.set(9000, TaskStatus::Obsolete, Some(UNCHECKED));
        recorded.set(9000, TaskStatus::Planned, Some(UNCHECKED));
        recorded.set(9001, TaskStatus::Implementing, None);
        recorded.set(9011, TaskStatus::Complete, None);
        assert_eq!(
            recorded.ends(),
            [
                (Some(200), Some(TaskStatus::Failed), Some("the check failed: exit code 1")),
                (Some(100), Some(TaskStatus::Planned), Some(UNCHECKED)),
                (Some(10), Some(TaskStatus::Complete), None),
            ]
        );
    }
}
