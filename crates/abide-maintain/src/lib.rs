//! What maintaining a store has in common in all stores: plans of erasures, cleanups and repairs,
//! what an examination looks at, which objects are still named, and searches for a text in files.

mod checked_rules;
mod checkpoint_numbers;
mod cleanup_outcome;
mod cleanup_plan;
mod cleanup_rules;
mod erase_error;
mod erase_plan;
mod examination;
mod examined_lines;
mod examined_objects;
mod file_search;
mod finished_repair;
mod live_objects;
mod named_snapshots;
mod pending_erasure;
mod repair_events;
mod repair_plan;
mod segment_sealing;
mod session_removal;
mod session_tally;

pub use checked_rules::CheckedRules;
pub use checkpoint_numbers::CheckpointNumbers;
pub use cleanup_outcome::CleanupOutcome;
pub use cleanup_plan::{CleanupPlan, ClockJump, StoredSession};
pub use cleanup_rules::{CleanupRules, config_named_for};
pub use erase_error::{CollectError, EraseError, EraseOutcome, Leftovers};
pub use erase_plan::{
    EraseLine, ErasePlan, EventPart, FileMatch, FileMatches, TextMatches, erase_text_occurs,
    rewinds_to_erase,
};
pub use examination::{
    Examination, ExaminationFacts, RecordedLosses, doctor_error, doctor_warning,
    interrupted_session, session_left_running,
};
pub use examined_lines::{CheckpointSnapshot, ExaminedLines, note_recovery};
pub use examined_objects::ExaminedObjects;
pub use file_search::FileSearch;
pub use finished_repair::{FinishedRepair, RepairAftermath, new_repair_id};
pub use live_objects::{
    NamedObjects, ObjectAccess, ObjectsThereFn, object_names_in, reached_from, recorded_recovery,
};
pub use named_snapshots::{NamedBy, NamedSnapshot, NamedSnapshots};
pub use pending_erasure::PendingErasure;
pub use repair_events::{RepairEvents, repair_event};
pub use repair_plan::{
    ConsideredStrategy, ReconstructionSource, RepairAction, RepairPlan, RepairRequest,
    RepairStrategy, is_contradiction,
};
pub use segment_sealing::{SealOutcome, UnsealedSegments};
pub use session_removal::SessionRemoval;
pub use session_tally::{SessionTally, is_session_use, status_at_cleanup};
