//! What the examination of a session found.

use abide_model::{
    CallId, Finding, FindingPlace, FindingType, NewEvent, ObjectHash, Repair, Seq, SessionId,
    SessionState, SessionStatus, Severity,
};
use serde::Serialize;

/// What was found in a session.
#[derive(Debug, Clone)]
pub struct Examination {
    /// The session.
    pub session: SessionId,
    /// The number of its own events.
    pub events: u64,
    /// The bytes of their lines.
    pub bytes: u64,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
    /// What earlier repairs could not bring back.
    pub missing: RecordedLosses,
    /// A repair asks for a person to look at it.
    pub requires_validation: bool,
    /// What a repair needs to know.
    pub facts: ExaminationFacts,
}

impl Examination {
    /// Of a session that is not examined yet.
    #[must_use]
    pub fn of(session: SessionId) -> Self {
        Self {
            session,
            events: 0,
            bytes: 0,
            findings: Vec::new(),
            missing: RecordedLosses::default(),
            requires_validation: false,
            facts: ExaminationFacts::default(),
        }
    }
}

/// Permanent losses that the journal names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RecordedLosses {
    /// Events: first and last of each range.
    pub events: Vec<(Seq, Seq)>,
    /// Objects.
    pub objects: Vec<ObjectHash>,
    /// Calls with an unknown outcome.
    pub calls: Vec<CallId>,
}

/// Facts from an examination that are not findings.
#[derive(Debug, Clone, Default)]
pub struct ExaminationFacts {
    /// The state at the end; `None` if it could not be folded.
    pub state: Option<SessionState>,
    /// Lost events that no repair has named: first and last of each range.
    pub lost: Vec<(Seq, Seq)>,
    /// Rows of a table that are there and cannot be read: first and last event of each range.
    pub unreadable: Vec<(Seq, Seq)>,
    /// Events that a splice calls lost and no recovery has named.
    pub unnamed: Vec<(Seq, Seq)>,
    /// Parts of the journal cannot be read, whether or not they cost an event.
    pub damaged: bool,
    /// Missing objects that something names and that no repair has named as lost.
    pub lost_objects: Vec<ObjectHash>,
    /// The events that end calls without a result.
    pub closing: Vec<NewEvent>,
    /// The calls that those end.
    pub unknown: Vec<CallId>,
    /// No writer has the session open.
    pub at_rest: bool,
}

impl ExaminationFacts {
    /// Whether nobody is working on the session. Between two hooks of an agent nobody has it open,
    /// but its tools run on.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let over = |state: &SessionState| {
            let ended =
                [SessionStatus::Interrupted, SessionStatus::Completed, SessionStatus::Failed];
            state.core.writing || ended.contains(&state.core.status)
        };
        self.at_rest && self.state.as_ref().is_some_and(over)
    }
}

/// A finding that costs nothing recorded.
#[must_use]
pub fn doctor_warning(
    rule: &'static str,
    r#type: FindingType,
    place: FindingPlace,
    message: impl Into<String>,
    repair: Repair,
) -> Finding {
    Finding::new(rule, r#type, Severity::Warning, place, message, repair)
}

/// A finding that something recorded cannot be read.
#[must_use]
pub fn doctor_error(
    rule: &'static str,
    r#type: FindingType,
    place: FindingPlace,
    message: impl Into<String>,
    repair: Repair,
) -> Finding {
    Finding::new(rule, r#type, Severity::Error, place, message, repair)
}

/// Checks, with the lock held by us, whether the session was left running.
#[must_use]
pub fn session_left_running(state: &SessionState) -> Option<Finding> {
    let left = state.core.writing && state.core.status == SessionStatus::Running;
    left.then(|| {
        interrupted_session(FindingPlace::event(state.core.seq), "the session was not closed")
    })
}

/// A finding that the writer of a session died.
#[must_use]
pub fn interrupted_session(place: FindingPlace, why: &str) -> Finding {
    doctor_warning(
        "interrupted-session",
        FindingType::BusinessLogic,
        place,
        format!("its writer died and left it running: {why}"),
        Repair::automatic("its status is set to `interrupted`"),
    )
}
