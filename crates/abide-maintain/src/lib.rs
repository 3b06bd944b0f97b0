//! What erasing and collecting objects have in common in all stores: plans, which objects are
//! still named, and searches for a text in files. Reads through what it is given; changes nothing.

mod checkpoint_numbers;
mod erase_error;
mod erase_plan;
mod file_search;
mod live_objects;
mod named_snapshots;
mod pending_erasure;

pub use checkpoint_numbers::CheckpointNumbers;
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
