//! What a repair has done.

use abide_model::{Finding, Timestamp};

use crate::examination::Examination;

/// The result of a repair.
#[derive(Debug, Clone)]
pub struct FinishedRepair {
    /// Its id, by which it is undone.
    pub id: String,
    /// Where the replaced files are kept.
    pub quarantine: String,
    /// The session or the store after the repair.
    pub after: RepairAftermath,
    /// Whether `abide undo --repair` can undo it.
    pub undoable: bool,
}

/// What an examination after a repair found.
#[derive(Debug, Clone)]
pub enum RepairAftermath {
    /// The session, examined again.
    Session(Box<Examination>),
    /// The store's own files, examined again.
    Store(Vec<Finding>),
}

impl FinishedRepair {
    /// Whether a person should look at the session.
    #[must_use]
    pub fn requires_validation(&self) -> bool {
        matches!(&self.after, RepairAftermath::Session(examined) if examined.requires_validation)
    }
}

/// An id for a repair that is made now.
#[must_use]
pub fn new_repair_id(now: Timestamp, random: [u8; 4]) -> String {
    let at: String = now.to_string().replace(':', "-").chars().take(19).collect();
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{at}-{random}")
}
