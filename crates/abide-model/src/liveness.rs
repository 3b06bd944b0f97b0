//! Decides whether a session has a live writer, from observations alone. Pure, so that every case
//! can be tested.
//!
//! Invariant: if anything indicates a live writer, the session is never called crashed.

use std::fmt;

use serde::Serialize;

use crate::{SessionStatus, Timestamp, WriterHolder};

/// A writer on another machine that has been silent for this many milliseconds is no longer assumed
/// to be alive.
const SILENT: i64 = 60_000;

/// The state of a session's writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// The writer is running.
    Alive,
    /// Unknown, or the writer exists but does nothing.
    Stale,
    /// The writer died with the session open.
    Crashed,
    /// The writer closed the session.
    Idle,
}

impl Liveness {
    /// Its name in output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Stale => "stale",
            Self::Crashed => "crashed",
            Self::Idle => "idle",
        }
    }
}

/// The observed state of a session's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LockObservation {
    /// A process holds it.
    Held,
    /// No process holds it.
    Free,
    /// It does not exist or cannot be inspected.
    Unknown,
}

/// The observed state of the process that a lock names, on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessObservation {
    /// No process has this id.
    Gone,
    /// It is running.
    Lives,
    /// It is stopped.
    Stopped,
    /// Another process has its id now.
    Another,
    /// It cannot be inspected.
    Unknown,
}

impl ProcessObservation {
    const fn lives(self) -> bool {
        matches!(self, Self::Lives | Self::Stopped)
    }
}

/// Everything observed about a session's writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LivenessEvidence {
    /// The state of the lock.
    pub lock: LockObservation,
    /// The current or last known holder.
    pub holder: Option<WriterHolder>,
    /// The state of its process, if it is on this machine.
    pub process: ProcessObservation,
    /// The name of this machine.
    pub host: String,
    /// The boot id of this machine.
    pub boot: Option<String>,
    /// When this was observed.
    pub now: Timestamp,
    /// The journal has an opened writer that was not closed.
    pub writing: bool,
    /// The recorded status of the session.
    pub status: SessionStatus,
}

/// Where the holder runs, seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HolderOrigin {
    /// On this machine, in its current boot.
    Here,
    /// On this machine, before it was restarted.
    Before,
    /// On another machine.
    Elsewhere,
}

/// Why a session is alive, stale, crashed or idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LivenessReason {
    /// The lock is held, and nothing contradicts its holder.
    Held,
    /// A writer on another machine gave a recent sign of life.
    Heard,
    /// The process is running; whether it holds the session is unknown.
    ProcessLives,
    /// The lock is held, but the named process does not exist here.
    HeldUnseen,
    /// The lock is held, but names a process from before the machine was restarted.
    HeldFromBefore,
    /// The process is stopped.
    Stopped,
    /// The writer is on another machine and has been silent for too long.
    Silent,
    /// The process is running but released the session without closing it.
    LetGo,
    /// The session was not closed, and no holder is recorded.
    Nobody,
    /// The process cannot be inspected; or neither it nor the lock can be seen, but it gave a
    /// recent sign of life.
    Unseen,
    /// The process is gone.
    ProcessGone,
    /// The process is gone, and another one has its id.
    ProcessReplaced,
    /// The machine was restarted since.
    Restarted,
    /// The session was closed.
    Closed,
    /// The session is over, whatever happened to its writer.
    Over,
}

impl LivenessEvidence {
    /// The verdict and its reason.
    #[must_use]
    pub fn judge(&self) -> (Liveness, LivenessReason) {
        use LivenessReason as Reason;
        if self.lock == LockObservation::Held {
            return self.judge_held();
        }
        if matches!(self.status, SessionStatus::Completed | SessionStatus::Failed) {
            return (Liveness::Idle, Reason::Over);
        }
        if !self.writing {
            return (Liveness::Idle, Reason::Closed);
        }
        // If the lock cannot be inspected, a sign of life outweighs a process that cannot be seen:
        // it may run in a container.
        let heard = self.lock == LockObservation::Unknown && self.is_heard();
        match (self.origin(), self.process) {
            (None, _) => (Liveness::Stale, Reason::Nobody),
            (Some(HolderOrigin::Elsewhere), _) => self.judge_elsewhere(),
            (Some(HolderOrigin::Before), _) if heard => (Liveness::Stale, Reason::Unseen),
            (Some(HolderOrigin::Before), _) => (Liveness::Crashed, Reason::Restarted),
            (Some(HolderOrigin::Here), process) if process.lives() => match self.lock {
                LockObservation::Unknown => (Liveness::Alive, Reason::ProcessLives),
                LockObservation::Held | LockObservation::Free => (Liveness::Stale, Reason::LetGo),
            },
            (Some(HolderOrigin::Here), _) if heard => (Liveness::Stale, Reason::Unseen),
            (Some(HolderOrigin::Here), ProcessObservation::Another) => {
                (Liveness::Crashed, Reason::ProcessReplaced)
            }
            (Some(HolderOrigin::Here), ProcessObservation::Gone) => {
                (Liveness::Crashed, Reason::ProcessGone)
            }
            (Some(HolderOrigin::Here), _) => (Liveness::Stale, Reason::Unseen),
        }
    }

    /// The holder of the lock is alive. It remains to decide whether it is the named process, and
    /// whether it does anything.
    fn judge_held(&self) -> (Liveness, LivenessReason) {
        use LivenessReason as Reason;
        match (self.origin(), self.process) {
            (Some(HolderOrigin::Elsewhere), _) => self.judge_elsewhere(),
            (Some(HolderOrigin::Before), _) => (Liveness::Stale, Reason::HeldFromBefore),
            (Some(HolderOrigin::Here), ProcessObservation::Gone | ProcessObservation::Another) => {
                (Liveness::Stale, Reason::HeldUnseen)
            }
            (Some(HolderOrigin::Here), ProcessObservation::Stopped) if !self.is_heard() => {
                (Liveness::Stale, Reason::Stopped)
            }
            _ => (Liveness::Alive, Reason::Held),
        }
    }

    fn judge_elsewhere(&self) -> (Liveness, LivenessReason) {
        match (self.is_heard(), self.lock) {
            (true, LockObservation::Held) => (Liveness::Alive, LivenessReason::Held),
            (true, _) => (Liveness::Alive, LivenessReason::Heard),
            (false, _) => (Liveness::Stale, LivenessReason::Silent),
        }
    }

    fn origin(&self) -> Option<HolderOrigin> {
        let holder = self.holder.as_ref()?;
        Some(match (&holder.boot, &self.boot) {
            // A boot id identifies the machine, whatever its host name is.
            (Some(its), Some(this)) if its == this => HolderOrigin::Here,
            _ if holder.host != self.host => HolderOrigin::Elsewhere,
            (Some(_), Some(_)) => HolderOrigin::Before,
            _ => HolderOrigin::Here,
        })
    }

    /// Did the holder give a recent sign of life?
    fn is_heard(&self) -> bool {
        self.holder.as_ref().is_some_and(|holder| {
            let heard = holder.beat.unwrap_or(holder.since).max(holder.since);
            self.now.as_millis().saturating_sub(heard.as_millis()) < SILENT
        })
    }

    /// The reason as a clause that follows the name of the session.
    #[must_use]
    pub fn explain(&self, reason: LivenessReason) -> String {
        LivenessExplanation { evidence: self, reason }.to_string()
    }
}

struct LivenessExplanation<'a> {
    evidence: &'a LivenessEvidence,
    reason: LivenessReason,
}

impl fmt::Display for LivenessExplanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use LivenessReason as Reason;
        let unnamed = WriterHolder { program: "?".to_owned(), ..WriterHolder::default() };
        let holder = self.evidence.holder.as_ref().unwrap_or(&unnamed);
        let WriterHolder { process, program, host, .. } = holder;
        let heard = holder.beat.unwrap_or(holder.since);
        match self.reason {
            Reason::Held if self.evidence.holder.is_none() => write!(f, "its lock is held"),
            Reason::Held if host != &self.evidence.host => {
                write!(f, "{program} has it open (process {process} on {host})")
            }
            Reason::Held => write!(f, "{program} has it open (process {process})"),
            Reason::Heard => write!(f, "{program} on {host} was heard of at {heard}"),
            Reason::ProcessLives => write!(f, "its process {process} is running"),
            Reason::HeldUnseen => {
                write!(f, "its lock is held, but process {process} does not exist here")
            }
            Reason::HeldFromBefore => write!(
                f,
                "its lock is held, but names process {process} from before the machine was restarted"
            ),
            Reason::Stopped => {
                write!(f, "its process {process} was stopped (`kill -CONT` resumes it)")
            }
            Reason::Silent => write!(f, "{program} on {host} was last heard of at {heard}"),
            Reason::LetGo => {
                write!(f, "process {process} had it last, is still running and did not close it")
            }
            Reason::Nobody => write!(f, "it was not closed, and its last writer is unknown"),
            Reason::Unseen if self.evidence.process != ProcessObservation::Unknown => write!(
                f,
                "its lock cannot be inspected, and process {process}, which cannot be seen \
                 here, was heard of at {heard}"
            ),
            Reason::Unseen => write!(f, "its process {process} cannot be inspected"),
            Reason::ProcessGone => write!(f, "its process {process} is gone"),
            Reason::ProcessReplaced => {
                write!(f, "its process {process} is gone; another process has its id now")
            }
            Reason::Restarted => write!(f, "the machine has been restarted since"),
            Reason::Closed => write!(f, "it was closed"),
            Reason::Over => write!(f, "it is over"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const NOW: i64 = 1_763_169_600_000;

    /// Where the holder is said to be.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Named {
        Nobody,
        Here,
        /// With a boot id that was not recorded.
        Old,
        Renamed,
        Before,
        Elsewhere,
        Unboxed,
    }

    const NAMED: [Named; 7] = [
        Named::Nobody,
        Named::Here,
        Named::Old,
        Named::Renamed,
        Named::Before,
        Named::Elsewhere,
        Named::Unboxed,
    ];
    const LOCKS: [LockObservation; 3] =
        [LockObservation::Held, LockObservation::Free, LockObservation::Unknown];
    const PROCESSES: [ProcessObservation; 5] = [
        ProcessObservation::Gone,
        ProcessObservation::Lives,
        ProcessObservation::Stopped,
        ProcessObservation::Another,
        ProcessObservation::Unknown,
    ];

    fn evidence(
        named: Named,
        lock: LockObservation,
        process: ProcessObservation,
        ago: i64,
    ) -> LivenessEvidence {
        let (host, boot) = match named {
            Named::Nobody | Named::Here => ("here", Some("this")),
            Named::Old => ("here", None),
            Named::Renamed => ("a box on it", Some("this")),
            Named::Before => ("here", Some("earlier")),
            Named::Elsewhere => ("there", Some("other")),
            Named::Unboxed => ("there", None),
        };
        let holder = WriterHolder {
            process: 123,
            program: "agent".to_owned(),
            host: host.to_owned(),
            user: None,
            boot: boot.map(str::to_owned),
            started: Some(5),
            since: Timestamp::from_millis(NOW - 3_600_000),
            beat: Some(Timestamp::from_millis(NOW - ago)),
        };
        LivenessEvidence {
            lock,
            holder: (named != Named::Nobody).then_some(holder),
            process,
            host: "here".to_owned(),
            boot: Some("this".to_owned()),
            now: Timestamp::from_millis(NOW),
            writing: true,
            status: SessionStatus::Running,
        }
    }

    const FRESH: i64 = SILENT - 1;
    const OLD: i64 = SILENT;

    #[test]
    fn every_case_is_decided_as_the_table_says() {
        use Liveness::{Alive, Crashed, Stale};
        use LivenessReason as R;
        use LockObservation::{Free, Held, Unknown};
        use ProcessObservation as P;
        let here = [Named::Here, Named::Old, Named::Renamed];
        let elsewhere = [Named::Elsewhere, Named::Unboxed];
        let mut table = Vec::new();
        for ago in [FRESH, OLD] {
            for process in PROCESSES {
                table.push((Named::Nobody, Held, process, ago, Alive, R::Held));
                table.push((Named::Nobody, Free, process, ago, Stale, R::Nobody));
                table.push((Named::Nobody, Unknown, process, ago, Stale, R::Nobody));
                table.push((Named::Before, Held, process, ago, Stale, R::HeldFromBefore));
                table.push((Named::Before, Free, process, ago, Crashed, R::Restarted));
                let before =
                    if ago == FRESH { (Stale, R::Unseen) } else { (Crashed, R::Restarted) };
                table.push((Named::Before, Unknown, process, ago, before.0, before.1));
                for named in elsewhere {
                    for lock in LOCKS {
                        let (liveness, reason) = match (ago, lock) {
                            (FRESH, Held) => (Alive, R::Held),
                            (FRESH, _) => (Alive, R::Heard),
                            _ => (Stale, R::Silent),
                        };
                        table.push((named, lock, process, ago, liveness, reason));
                    }
                }
            }
            for named in here {
                let stopped = if ago == FRESH { (Alive, R::Held) } else { (Stale, R::Stopped) };
                let (gone, another) = if ago == FRESH {
                    ((Stale, R::Unseen), (Stale, R::Unseen))
                } else {
                    ((Crashed, R::ProcessGone), (Crashed, R::ProcessReplaced))
                };
                table.extend([
                    (named, Held, P::Gone, ago, Stale, R::HeldUnseen),
                    (named, Held, P::Another, ago, Stale, R::HeldUnseen),
                    (named, Held, P::Lives, ago, Alive, R::Held),
                    (named, Held, P::Unknown, ago, Alive, R::Held),
                    (named, Held, P::Stopped, ago, stopped.0, stopped.1),
                    (named, Free, P::Gone, ago, Crashed, R::ProcessGone),
                    (named, Free, P::Another, ago, Crashed, R::ProcessReplaced),
                    (named, Free, P::Lives, ago, Stale, R::LetGo),
                    (named, Free, P::Stopped, ago, Stale, R::LetGo),
                    (named, Free, P::Unknown, ago, Stale, R::Unseen),
                    (named, Unknown, P::Gone, ago, gone.0, gone.1),
                    (named, Unknown, P::Another, ago, another.0, another.1),
                    (named, Unknown, P::Lives, ago, Alive, R::ProcessLives),
                    (named, Unknown, P::Stopped, ago, Alive, R::ProcessLives),
                    (named, Unknown, P::Unknown, ago, Stale, R::Unseen),
                ]);
            }
        }
        assert_eq!(table.len(), NAMED.len() * LOCKS.len() * PROCESSES.len() * 2, "all of them");
        for (named, lock, process, ago, liveness, reason) in table {
            let seen = evidence(named, lock, process, ago);
            assert_eq!(seen.judge(), (liveness, reason), "{seen:?}");
            assert!(!seen.explain(reason).is_empty());
        }
    }

    #[test]
    fn what_was_closed_or_is_over_is_idle_unless_somebody_has_it() {
        for (named, lock, process) in NAMED
            .into_iter()
            .flat_map(|named| LOCKS.map(|lock| (named, lock)))
            .flat_map(|(named, lock)| PROCESSES.map(|process| (named, lock, process)))
        {
            let seen = evidence(named, lock, process, OLD);
            let closed = LivenessEvidence { writing: false, ..seen.clone() };
            let over = [SessionStatus::Completed, SessionStatus::Failed]
                .map(|status| LivenessEvidence { status, ..seen.clone() });
            for seen in [closed].iter().chain(&over) {
                let idle = seen.judge().0 == Liveness::Idle;
                assert_eq!(idle, lock != LockObservation::Held, "{seen:?}");
            }
        }
    }

    /// A lock file of an earlier version says neither the boot nor the beat.
    #[test]
    fn an_old_lock_file_is_read() {
        let json =
            r#"{"process":7,"program":"abide","host":"h","since":"2026-11-15T01:20:00.000Z"}"#;
        let holder: WriterHolder = serde_json::from_str(json).unwrap();
        assert_eq!(
            (holder.process, holder.boot, holder.started, holder.beat),
            (7, None, None, None)
        );
    }

    proptest! {
        #[test]
        fn one_that_may_live_is_never_called_crashed(
            named in select(NAMED.to_vec()),
            lock in select(LOCKS.to_vec()),
            process in select(PROCESSES.to_vec()),
            ago in -2 * SILENT..3 * SILENT,
            writing: bool,
            status in select(vec![
                SessionStatus::Pending, SessionStatus::Running, SessionStatus::Idle,
                SessionStatus::Interrupted, SessionStatus::Completed, SessionStatus::Failed,
            ]),
            boot in select(vec![Some("this".to_owned()), None]),
        ) {
            let seen = LivenessEvidence { writing, status, boot, ..evidence(named, lock, process, ago) };
            let (liveness, _) = seen.judge();
            let other_machine = matches!(named, Named::Elsewhere | Named::Unboxed);
            let earlier = named == Named::Before && seen.boot.is_some();
            let may_live = lock == LockObservation::Held
                || (other_machine && ago < SILENT)
                || (lock == LockObservation::Unknown && ago < SILENT)
                || (!other_machine && !earlier && named != Named::Nobody && process.lives());
            if may_live {
                prop_assert_ne!(liveness, Liveness::Crashed);
            }
            if liveness == Liveness::Crashed {
                prop_assert!(writing && !other_machine && named != Named::Nobody);
            }
            if lock == LockObservation::Held {
                prop_assert_ne!(liveness, Liveness::Idle);
            }
        }
    }
}
