//! The doctor: finds what is wrong with a store and its sessions, and repairs it.
//!
//! Examining is read-only. A repair is planned, shown, then applied: what it replaces is first
//! copied to the quarantine, and what it adds is appended, so that it can be undone.

mod journal_survey;
mod objects;
mod past;
mod quarantine;
mod repair;
mod repair_plan;
mod session;
mod source;
mod store;
mod undo;

use std::fmt;

use abide_model::{
    CallId, Finding, FindingPlace, FindingType, ObjectHash, Repair, Seq, SessionId, SessionState,
    SessionStatus, Severity, StoreError, ValidationRule, standard_rules,
};

use crate::sessions::local_store::LocalStore;

pub(crate) use quarantine::Quarantine;
pub use repair::{FinishedRepair, RepairAftermath};
pub use repair_plan::{
    ConsideredStrategy, RepairAction, RepairPlan, RepairRequest, RepairStrategy,
};
pub(crate) use session::note_recovery;
pub use undo::UndoPlan;

/// Makes the rules for one session.
type MakeRules<'a> = dyn Fn() -> Vec<Box<dyn ValidationRule>> + Sync + 'a;

/// Examines a store and its sessions, and repairs them.
pub struct Doctor<'a> {
    store: &'a LocalStore,
    rules: Box<MakeRules<'a>>,
}

impl fmt::Debug for Doctor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doctor").field("store", &self.store.root()).finish_non_exhaustive()
    }
}

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
    pub(crate) facts: ExaminationFacts,
}

impl Examination {
    fn of(session: SessionId) -> Self {
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
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
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
pub(crate) struct ExaminationFacts {
    /// The state at the end; `None` if it could not be folded.
    pub(crate) state: Option<SessionState>,
    /// Lost events that no repair has named: first and last of each range.
    pub(crate) lost: Vec<(Seq, Seq)>,
    /// Events that a splice calls lost and no recovery has named.
    pub(crate) unnamed: Vec<(Seq, Seq)>,
    /// Parts of the journal cannot be read, whether or not they cost an event.
    pub(crate) damaged: bool,
    /// Missing objects that something names and that no repair has named as lost.
    pub(crate) lost_objects: Vec<ObjectHash>,
    /// The events that end calls without a result.
    pub(crate) closing: Vec<abide_model::NewEvent>,
    /// The calls that those end.
    pub(crate) unknown: Vec<CallId>,
    /// No writer has the session open.
    pub(crate) at_rest: bool,
}

impl ExaminationFacts {
    /// Whether nobody is working on the session. Between two hooks of an agent nobody has it open,
    /// but its tools run on.
    fn is_over(&self) -> bool {
        let over = |state: &SessionState| {
            let ended =
                [SessionStatus::Interrupted, SessionStatus::Completed, SessionStatus::Failed];
            state.core.writing || ended.contains(&state.core.status)
        };
        self.at_rest && self.state.as_ref().is_some_and(over)
    }
}

impl<'a> Doctor<'a> {
    pub(crate) fn new(store: &'a LocalStore) -> Self {
        Self { store, rules: Box::new(standard_rules) }
    }

    /// Adds these rules to the standard ones.
    #[must_use]
    pub fn with_rules(self, own: impl Fn() -> Vec<Box<dyn ValidationRule>> + Sync + 'a) -> Self {
        let rules = self.rules;
        let both = move || rules().into_iter().chain(own()).collect();
        Self { store: self.store, rules: Box::new(both) }
    }

    /// Every session whose id can be read.
    pub fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        let all = self.store.directory().all().map_err(crate::error::store_error)?;
        let mut sessions: Vec<SessionId> = all.into_iter().map(|(id, _)| id).collect();
        sessions.sort_unstable_by(|a, b| b.cmp(a));
        Ok(sessions)
    }
}

/// A finding that costs nothing recorded.
fn doctor_warning(
    rule: &'static str,
    r#type: FindingType,
    place: FindingPlace,
    message: impl Into<String>,
    repair: Repair,
) -> Finding {
    Finding::new(rule, r#type, Severity::Warning, place, message, repair)
}

/// A finding that something recorded cannot be read.
fn doctor_error(
    rule: &'static str,
    r#type: FindingType,
    place: FindingPlace,
    message: impl Into<String>,
    repair: Repair,
) -> Finding {
    Finding::new(rule, r#type, Severity::Error, place, message, repair)
}
