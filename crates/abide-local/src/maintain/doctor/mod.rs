//! The doctor: finds what is wrong with a store and its sessions, and repairs it.
//!
//! Examining is read-only. A repair is planned, shown, then applied: what it replaces is first
//! copied to the quarantine, and what it adds is appended, so that it can be undone.

mod journal_survey;
mod past;
mod quarantine;
mod repair;
mod repair_plan;
mod session;
mod source;
mod store;
mod undo;

use std::fmt;

use abide_model::{SessionId, StoreError, ValidationRule, standard_rules};

use crate::sessions::local_store::LocalStore;

pub(crate) use quarantine::Quarantine;
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
