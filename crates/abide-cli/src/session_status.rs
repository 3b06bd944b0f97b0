//! The status of a session now: what was recorded of it, and what is seen of its writer.

use abide::{
    SessionId, SessionStatus, Store,
    event::{Epoch, SessionCore},
    history::HistoryEntry,
};

/// What is seen of a session's writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriterTrace {
    /// Somebody has the session open.
    Here,
    /// It did not close the session, and is gone.
    Died,
    /// It closed the session.
    Left,
}

/// The status of a listed session now. A lock is looked at only for sessions that were not closed.
pub(crate) fn status_now(entry: &HistoryEntry, store: &Store) -> SessionStatus {
    let overview = &entry.overview;
    if overview.empty && !overview.writing {
        return overview.status;
    }
    with_writer(overview.status, trace(entry.id, overview.writing, store))
}

/// The same, of a session whose state is known.
pub(crate) fn status_of(id: SessionId, core: &SessionCore, store: &Store) -> SessionStatus {
    if core.epoch == Epoch::default() {
        return core.status;
    }
    with_writer(core.status, trace(id, core.writing, store))
}

fn trace(id: SessionId, writing: bool, store: &Store) -> WriterTrace {
    match writing {
        true if store.is_held(id) => WriterTrace::Here,
        true => WriterTrace::Died,
        false => WriterTrace::Left,
    }
}

const fn with_writer(recorded: SessionStatus, writer: WriterTrace) -> SessionStatus {
    match (writer, recorded) {
        (WriterTrace::Here, _) => SessionStatus::Running,
        (WriterTrace::Died, SessionStatus::Completed | SessionStatus::Failed) => recorded,
        (WriterTrace::Died, _) => SessionStatus::Interrupted,
        (WriterTrace::Left, SessionStatus::Pending | SessionStatus::Running) => SessionStatus::Idle,
        (WriterTrace::Left, _) => recorded,
    }
}

/// The recorded statuses of sessions that may have one of these statuses now. An empty list means
/// any.
pub(crate) fn recorded_statuses(now: &[SessionStatus]) -> Vec<SessionStatus> {
    const OPEN: [SessionStatus; 4] = [
        SessionStatus::Pending,
        SessionStatus::Running,
        SessionStatus::Idle,
        SessionStatus::Interrupted,
    ];
    // Whatever was recorded, a session that a process has open is running.
    if now.contains(&SessionStatus::Running) {
        return Vec::new();
    }
    let mut recorded = now.to_vec();
    if now.iter().any(|status| matches!(status, SessionStatus::Idle | SessionStatus::Interrupted)) {
        recorded.extend(OPEN);
    }
    recorded
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [SessionStatus; 6] = [
        SessionStatus::Pending,
        SessionStatus::Running,
        SessionStatus::Idle,
        SessionStatus::Interrupted,
        SessionStatus::Completed,
        SessionStatus::Failed,
    ];

    #[test]
    fn the_recorded_statuses_cover_every_status_now() {
        for recorded in ALL {
            for writer in [WriterTrace::Here, WriterTrace::Died, WriterTrace::Left] {
                for now in [with_writer(recorded, writer), recorded] {
                    let asked = recorded_statuses(&[now]);
                    assert!(asked.is_empty() || asked.contains(&recorded), "{recorded:?} {now:?}");
                }
            }
        }
    }
}
