//! What erasing, cleaning up and collecting objects have in common in all stores: plans, which
//! objects are still named, and searches for a text in files. Reads through what it is given;
//! changes nothing.

mod checkpoint_numbers;
mod cleanup_outcome;
mod cleanup_plan;
mod cleanup_rules;
mod erase_error;
mod erase_plan;
mod file_search;
mod live_objects;
mod named_snapshots;
mod pending_erasure;
mod segment_sealing;
mod session_removal;
mod session_tally;

pub use checkpoint_numbers::CheckpointNumbers;
pub use cleanup_outcome::CleanupOutcome;
pub use cleanup_plan::{CleanupPlan, ClockJump, StoredSession};
pub use cleanup_rules::{CleanupRules, config_named_for};
pub use erase_error::{CollectError, EraseError, EraseOutcome, Leftovers};
pub use erase_plan::{
    EraseLine, ErasePlan, EventPart, FileMatch, FileMatches, TextMatches, erase_text_occurs,
    rewinds_to_erase,
};
pub use file_search::FileSearch;
pub use live_objects::{
    NamedObjects, ObjectAccess, ObjectsThereFn, object_names_in, reached_from, recorded_recovery,
};
pub use named_snapshots::{NamedBy, NamedSnapshot, NamedSnapshots};
pub use pending_erasure::PendingErasure;
pub use segment_sealing::{SealOutcome, UnsealedSegments};
pub use session_removal::SessionRemoval;
pub use session_tally::{SessionTally, is_session_use, status_at_cleanup};
