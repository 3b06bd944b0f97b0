//! Is somebody at work on a session? A decision over what can be seen of its writer, and nothing
//! else: pure, so that every case can be gone through.
//!
//! The law: where anything speaks for a writer that lives, the session is never called crashed.

use std::fmt;

use serde::Serialize;

use crate::{SessionStatus, Timestamp, WriterHolder};

/// A writer of another machine that was not heard of for so long, in milliseconds, is no longer
/// taken for one that lives.
const SILENT: i64 = 60_000;

/// What became of the writer of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// It is there.
    Alive,
    /// It cannot be told, or it is there and does nothing.
    Stale,
    /// It died with the session open.
    Crashed,
    /// It closed the session.
    Idle,
}

impl Liveness {
    /// The name under which it is written.
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

/// What is seen of a session's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LockSeen {
    /// Somebody has it.
    Held,
    /// Nobody has it.
    Free,
    /// There is none, or it cannot be looked at.
    Unknown,
}

/// What is seen of the process that a lock names, on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessSeen {
    /// There is none of this number.
    Gone,
    /// It lives.
    Lives,
    /// It lives and was stopped.
    Stopped,
    /// Another one has its number now.
    Another,
    /// It cannot be looked at.
    Unknown,
}

impl ProcessSeen {
    const fn lives(self) -> bool {
        matches!(self, Self::Lives | Self::Stopped)
    }
}

/// All that can be seen of a session's writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LivenessEvidence {
    /// Its lock.
    pub lock: LockSeen,
    /// Who is named as its holder, now or the last time.
    pub holder: Option<WriterHolder>,
    /// The process that is named, where it is one of this machine.
    pub process: ProcessSeen,
    /// This machine.
    pub host: String,
    /// This run of it.
    pub boot: Option<String>,
    /// When this was seen.
    pub now: Timestamp,
    /// The journal says that a writer has opened the session and not that it has closed it.
    pub writing: bool,
    /// What was recorded of where the session stands.
    pub status: SessionStatus,
}

/// Where the holder is, seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// On this machine, as it runs now.
    Here,
    /// On this machine, before it was restarted.
    Before,
    /// On another machine.
    Elsewhere,
}

/// Why a session is said to be alive, stale, crashed or idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LivenessReason {
    /// The lock is held, and nothing speaks against its holder.
    Held,
    /// A writer of another machine was heard of a moment ago.
    Heard,
    /// The process lives; whether it has the session cannot be told.
    ProcessLives,
    /// The lock is held, and the process that is named is not there.
    HeldUnseen,
    /// The lock is held, and names a process from before the machine was restarted.
    HeldFromBefore,
    /// The process was stopped.
    Stopped,
    /// The writer is on another machine and was not heard of for long.
    Silent,
    /// The process lives and let the session go without closing it.
    LetGo,
    /// Nobody is named who had it.
    Nobody,
    /// The process cannot be looked at; or neither it nor the lock can be seen, and it was heard
    /// of a moment ago.
    Unseen,
    /// The process is gone.
    ProcessGone,
    /// The process is gone, and another one has its number.
    ProcessReplaced,
    /// The machine was restarted since.
    Restarted,
    /// It was closed.
    Closed,
    /// It is over, whatever became of its writer.
    Over,
}

impl LivenessEvidence {
    /// What follows from it.
    #[must_use]
    pub fn judge(&self) -> (Liveness, LivenessReason) {
        use LivenessReason as Reason;
        if self.lock == LockSeen::Held {
            return self.judge_held();
        }
        if matches!(self.status, SessionStatus::Completed | SessionStatus::Failed) {
            return (Liveness::Idle, Reason::Over);
        }
        if !self.writing {
            return (Liveness::Idle, Reason::Closed);
        }
        // Without a look at the lock a sign of life outweighs a process that is not to be seen: it
        // may be in a box of its own.
        let heard = self.lock == LockSeen::Unknown && self.is_heard();
        match (self.origin(), self.process) {
            (None, _) => (Liveness::Stale, Reason::Nobody),
            (Some(Origin::Elsewhere), _) => self.judge_elsewhere(),
            (Some(Origin::Before), _) if heard => (Liveness::Stale, Reason::Unseen),
            (Some(Origin::Before), _) => (Liveness::Crashed, Reason::Restarted),
            (Some(Origin::Here), process) if process.lives() => match self.lock {
                LockSeen::Unknown => (Liveness::Alive, Reason::ProcessLives),
                LockSeen::Held | LockSeen::Free => (Liveness::Stale, Reason::LetGo),
            },
            (Some(Origin::Here), _) if heard => (Liveness::Stale, Reason::Unseen),
            (Some(Origin::Here), ProcessSeen::Another) => {
                (Liveness::Crashed, Reason::ProcessReplaced)
            }
            (Some(Origin::Here), ProcessSeen::Gone) => (Liveness::Crashed, Reason::ProcessGone),
            (Some(Origin::Here), _) => (Liveness::Stale, Reason::Unseen),
        }
    }

    /// Whoever has the lock lives. The question is whether it is the one that is named, and
    /// whether it does anything.
    fn judge_held(&self) -> (Liveness, LivenessReason) {
        use LivenessReason as Reason;
        match (self.origin(), self.process) {
            (Some(Origin::Elsewhere), _) => self.judge_elsewhere(),
            (Some(Origin::Before), _) => (Liveness::Stale, Reason::HeldFromBefore),
            (Some(Origin::Here), ProcessSeen::Gone | ProcessSeen::Another) => {
                (Liveness::Stale, Reason::HeldUnseen)
            }
            (Some(Origin::Here), ProcessSeen::Stopped) if !self.is_heard() => {
                (Liveness::Stale, Reason::Stopped)
            }
            _ => (Liveness::Alive, Reason::Held),
        }
    }

    fn judge_elsewhere(&self) -> (Liveness, LivenessReason) {
        match (self.is_heard(), self.lock) {
            (true, LockSeen::Held) => (Liveness::Alive, LivenessReason::Held),
            (true, _) => (Liveness::Alive, LivenessReason::Heard),
            (false, _) => (Liveness::Stale, LivenessReason::Silent),
        }
    }

    fn origin(&self) -> Option<Origin> {
        let holder = self.holder.as_ref()?;
        Some(match (&holder.boot, &self.boot) {
            // A run of a machine has an id of its own, whatever the machine is called.
            (Some(its), Some(this)) if its == this => Origin::Here,
            _ if holder.host != self.host => Origin::Elsewhere,
            (Some(_), Some(_)) => Origin::Before,
            _ => Origin::Here,
        })
    }

    /// Did the holder give a sign of life a moment ago?
    fn is_heard(&self) -> bool {
        self.holder.as_ref().is_some_and(|holder| {
            let heard = holder.beat.unwrap_or(holder.since).max(holder.since);
            self.now.as_millis().saturating_sub(heard.as_millis()) < SILENT
        })
    }

    /// Why, in words that follow the name of the session.
    #[must_use]
    pub fn explain(&self, reason: LivenessReason) -> String {
        Explained { evidence: self, reason }.to_string()
    }
}

struct Explained<'a> {
    evidence: &'a LivenessEvidence,
    reason: LivenessReason,
}

impl fmt::Display for Explained<'_> {
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
            Reason::ProcessLives => write!(f, "its process {process} lives"),
            Reason::HeldUnseen => {
                write!(f, "its lock is held, but process {process} is not to be seen here")
            }
            Reason::HeldFromBefore => write!(
                f,
                "its lock is held, but names process {process} from before the machine was restarted"
            ),
            Reason::Stopped => {
                write!(f, "its process {process} was stopped (`kill -CONT` lets it go on)")
            }
            Reason::Silent => write!(f, "{program} on {host} was last heard of at {heard}"),
            Reason::LetGo => {
                write!(f, "process {process}, which had it last, lives and did not close it")
            }
            Reason::Nobody => write!(f, "it was not closed, and nothing says who had it"),
            Reason::Unseen if self.evidence.process != ProcessSeen::Unknown => write!(
                f,
                "its lock cannot be looked at, and process {process}, which is not to be seen \
                 here, was heard of at {heard}"
            ),
            Reason::Unseen => write!(f, "its process {process} cannot be looked at"),
            Reason::ProcessGone => write!(f, "its process {process} is gone"),
            Reason::ProcessReplaced => {
                write!(f, "its process {process} is gone; another one has its number now")
            }
            Reason::Restarted => write!(f, "the machine was restarted since"),
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
    const LOCKS: [LockSeen; 3] = [LockSeen::Held, LockSeen::Free, LockSeen::Unknown];
    const PROCESSES: [ProcessSeen; 5] = [
        ProcessSeen::Gone,
        ProcessSeen::Lives,
        ProcessSeen::Stopped,
        ProcessSeen::Another,
        ProcessSeen::Unknown,
    ];

    fn evidence(named: Named, lock: LockSeen, process: ProcessSeen, ago: i64) -> LivenessEvidence {
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
        use LockSeen::{Free, Held, Unknown};
        use ProcessSeen as P;
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
                assert_eq!(idle, lock != LockSeen::Held, "{seen:?}");
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
            let may_live = lock == LockSeen::Held
                || (other_machine && ago < SILENT)
                || (lock == LockSeen::Unknown && ago < SILENT)
                || (!other_machine && !earlier && named != Named::Nobody && process.lives());
            if may_live {
                prop_assert_ne!(liveness, Liveness::Crashed);
            }
            if liveness == Liveness::Crashed {
                prop_assert!(writing && !other_machine && named != Named::Nobody);
            }
            if lock == LockSeen::Held {
                prop_assert_ne!(liveness, Liveness::Idle);
            }
        }
    }
}
