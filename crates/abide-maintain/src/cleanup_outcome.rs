//! What a cleanup did.

use abide_journal::CollectionSummary;

use crate::segment_sealing::SealOutcome;
use crate::session_removal::SessionRemoval;

/// What a cleanup did.
#[derive(Debug, Clone, Default)]
pub struct CleanupOutcome {
    /// The sessions that were removed.
    pub sessions: Vec<SessionRemoval>,
    /// How many checkpoints were removed.
    pub checkpoints: u64,
    /// The objects that were removed.
    pub objects: CollectionSummary,
    /// The segments that were compressed.
    pub sealed: SealOutcome,
    /// What could not be done, and why.
    pub notes: Vec<String>,
}
