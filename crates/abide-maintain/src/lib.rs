//! What maintaining a store has in common in all stores: plans of erasures and repairs, what an
//! examination looks at, which objects are still named, and searches for a text in files.

mod checked_rules;
mod checkpoint_numbers;
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

pub use checked_rules::CheckedRules;
pub use checkpoint_numbers::CheckpointNumbers;
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
