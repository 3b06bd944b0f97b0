//! An erasure that has begun: what its next run needs to finish it.

use abide_model::{ObjectHash, Seq, SessionId};
use serde::{Deserialize, Serialize};

use crate::erase_error::EraseError;
use crate::erase_plan::ErasePlan;

/// An erasure that is in progress or was interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingErasure {
    /// The session.
    pub session: SessionId,
    /// The events whose payloads are erased.
    pub events: Vec<Seq>,
    /// Payloads and snapshots that they name.
    pub objects: Vec<ObjectHash>,
    /// Rewinds whose files are erased.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewinds: Vec<Seq>,
    /// All that is reached from these objects and rewinds, files of snapshots too, once it is known:
    /// when a snapshot is gone, nothing else tells its files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<ObjectHash>,
    /// Why, as it is recorded.
    pub reason: Option<String>,
}

impl PendingErasure {
    /// The erasure that a plan describes.
    #[must_use]
    pub fn of(plan: &ErasePlan, reason: Option<&str>) -> Self {
        let objects = plan.lines.iter().flat_map(|line| line.objects.iter().chain(&line.snapshot));
        Self {
            session: plan.session,
            events: plan.lines.iter().map(|line| line.seq).collect(),
            objects: objects.copied().collect(),
            rewinds: plan.rewinds.clone(),
            reached: Vec::new(),
            reason: reason.map(str::to_owned),
        }
    }

    /// Whether there is more to erase than lines of the journal.
    #[must_use]
    pub fn has_objects(&self) -> bool {
        !self.objects.is_empty() || !self.rewinds.is_empty()
    }

    /// A sentence for people: why it is not finished.
    #[must_use]
    pub fn note(&self, error: &EraseError) -> String {
        let mut note = format!("an erasure in session {} is not finished: {error}", self.session);
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            note.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        note
    }
}
