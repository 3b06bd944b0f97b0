//! A store on local files.
//!
//! A [`LocalStore`] is a directory, `.abide/`, found by searching upward from the current
//! directory, as git does. Each session in it is a directory with its journal (the source of
//! truth), its watermark, its lock, and files derived from the journal.
//!
//! ```
//! use abide_local::{LocalOptions, LocalStore};
//! use abide_model::{AnomalyPolicy, Durability, NewEvent, NewSession, Store};
//!
//! # let dir = tempfile::tempdir()?;
//! let store = LocalStore::init(dir.path(), LocalOptions::default())?;
//! let session = store.create(NewSession::titled("a session"))?;
//! let writer = store.write(session.id, std::time::Duration::ZERO)?;
//! let hello = NewEvent::parse(r#"{"kind":"message.added","data":{"role":"user","content":"hello"}}"#)?;
//! writer.append(vec![hello], Durability::Synced, AnomalyPolicy::Keep)?.wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod derived;
mod error;
mod include_setting;
mod jobs;
mod layout;
mod maintain;
mod parents;
mod place;
mod relay;
mod sessions;
mod shield;
mod small_file;
mod store_finder;
mod trust;
mod user_config;
mod user_dirs;

pub use abide_journal::CollectionSummary;
pub use abide_journal::Environment;
pub use abide_journal::{Access, Disk, Storage, StorageFile, read_full, write_full};
pub use abide_journal::{
    BUNDLE_VERSION, BundleError, BundleFault, BundleHeader, BundleReader, ExportError, ImportError,
    ImportOutcome, ImportedBundle,
};
pub use abide_model::doing::{ActiveTask, OpenCall, OpenTurn, OrphanProcess, SessionLiveness};
pub use abide_model::{CreatedSession, DeleteError};
pub use config::{
    Config, ContextConfig, HeldProjects, ProjectConfig, STORE_VERSION, TranscriptPolicy,
    holds_many_projects,
};
pub use derived::index::{IndexProgress, IndexProgressCallback, StoreIndex};
pub use maintain::cleanup::{
    Cleaner, CleanupOutcome, CleanupPlan, CleanupRules, ClockJump, DailyCleanup,
    DroppedCheckpoints, SessionRemoval,
};
pub use maintain::collect::{CollectError, Collector};
pub use maintain::disk_use::{DiskUse, ProjectUse, SessionUse};
pub use maintain::doctor::{
    ConsideredStrategy, Doctor, Examination, FinishedRepair, RecordedLosses, RepairAction,
    RepairAftermath, RepairPlan, RepairRequest, RepairStrategy, UndoPlan,
};
pub use maintain::erase::plan::{
    EraseLine, ErasePlan, EventPart, FileMatch, FileMatches, TextMatches,
};
pub use maintain::erase::{EraseError, EraseOutcome, Eraser, Leftovers};
pub use maintain::export::Exporter;
pub use maintain::import::Importer;
pub use maintain::removal::SessionRemover;
pub use maintain::sealing::UnsealedSegments;
pub use parents::make_parents;
pub use place::{
    SessionScope, StoreLocation, StorePlace, StorePlaceError, check_directory, check_not_root,
    find_checkout, find_git_root, find_project, find_store, has_store, linked_worktree,
    store_of_named, store_of_project,
};
pub use relay::{HeldWriters, LocalChildSocket, write_through_holder};
pub use sessions::find::SessionFinder;
pub use sessions::fork::Forker;
pub use sessions::liveness::LivenessChecker;
pub use sessions::objects::LocalObjects;
pub use sessions::reader::LocalReader;
pub use sessions::sealer::SealOutcome;
pub use sessions::store::{LocalOptions, LocalStore, Upkeep};
pub use sessions::writer::LocalWriter;
pub use small_file::read_small_file;
pub use store_finder::StoreFinder;
pub use trust::TrustPolicy;
pub use user_config::{SummarizerType, UserConfig, UserContextConfig};
pub use user_dirs::UserDirs;
