//! When a session was last used and how large it is, told by its own lines.

use abide_journal::JournalLine;
use abide_model::{ActivitySpan, Fact, Kind, Seq, SessionId, SessionStatus, Timestamp};

/// Maintenance events, which do not count as use of a session.
const UPKEEP: [Kind; 5] = [
    Kind::WRITER_OPENED,
    Kind::WRITER_CLOSED,
    Kind::CHECKPOINT_THINNED,
    Kind::PAYLOAD_ERASED,
    Kind::SOURCE_READ,
];

/// What the lines of a session come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTally {
    /// The last event.
    pub last: Seq,
    /// The time of the last event that is not of maintenance; at first, of its creation. Where its
    /// events say when they happened, that of its last activity.
    pub last_used: Timestamp,
    /// The bytes of its payloads and what its checkpoints stored.
    pub bytes: u64,
    activity: ActivitySpan,
}

impl SessionTally {
    /// The tally of a session before its first line.
    #[must_use]
    pub fn new(session: SessionId) -> Self {
        Self {
            last: Seq::ZERO,
            last_used: session.created(),
            bytes: 0,
            activity: ActivitySpan::default(),
        }
    }

    /// Adds a line.
    pub fn line(&mut self, line: &JournalLine<'_>) {
        self.last = line.seq;
        let Some(head) = line.head() else { return };
        if !UPKEEP.contains(&head.kind) {
            self.last_used = self.last_used.max(head.at);
            self.activity.add(&head.kind, head.at, head.occurred);
            if let Some((_, last)) = self.activity.dated() {
                self.last_used = last;
            }
        }
        for object in line.objects() {
            self.bytes = self.bytes.saturating_add(object.size);
        }
        if head.kind == Kind::CHECKPOINT_CREATED
            && let Some(Ok(Fact::Checkpoint(fact))) = line.event().map(|event| event.fact())
        {
            let stored = fact.workspace.map_or(0, |workspace| workspace.stored.1);
            self.bytes = self.bytes.saturating_add(stored);
        }
    }
}

/// Whether a line counts as use of its session.
#[must_use]
pub fn is_session_use(line: &JournalLine<'_>) -> bool {
    line.head().is_some_and(|head| !UPKEEP.contains(&head.kind))
}

/// The status by which a cleanup judges a session: one whose writer is gone and did not close it was
/// interrupted.
#[must_use]
pub fn status_at_cleanup(status: SessionStatus, writing: bool, at_rest: bool) -> SessionStatus {
    if at_rest && (writing || status == SessionStatus::Running) {
        SessionStatus::Interrupted
    } else {
        status
    }
}
