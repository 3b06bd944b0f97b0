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
mod hooks_config;
mod maintain;
mod parents;
mod relay;
mod run_config;
mod secrets_config;
mod sessions;
mod shield;
mod small_file;
mod store_finder;
mod store_jobs;
mod store_layout;
mod store_place;
mod trust_policy;
mod user_config;
mod user_dirs;
mod workspace_setting;

pub use abide_journal::CollectionSummary;
pub use abide_journal::{Access, Disk, Storage, StorageFile, read_full, write_full};
pub use abide_journal::{
    BUNDLE_VERSION, BundleError, BundleFault, BundleHeader, BundleReader, BundleRecord,
    BundleScreen, ExportError, ImportError, ImportOutcome, ImportedBundle,
};
pub use abide_journal::{Environment, FillingPolicy};
pub use abide_maintain::{
    CleanupOutcome, CleanupPlan, CleanupRules, ClockJump, CollectError, ConsideredStrategy,
    EraseError, EraseLine, EraseOutcome, ErasePlan, EventPart, Examination, FileMatch, FileMatches,
    FinishedRepair, Leftovers, RecordedLosses, RepairAction, RepairAftermath, RepairPlan,
    RepairRequest, RepairStrategy, SealOutcome, SessionRemoval, TextMatches, UnsealedSegments,
};
pub use abide_model::doing::{ActiveTask, OpenCall, OpenTurn, OrphanProcess, SessionLiveness};
pub use abide_model::{CreatedSession, DeleteError};
pub use config::{
    Config, ContextConfig, HeldProjects, ProjectConfig, STORE_VERSION, TranscriptPolicy,
    holds_many_projects,
};
pub use derived::index::{IndexProgress, IndexProgressCallback, StoreIndex};
pub use hooks_config::HooksConfig;
pub use maintain::cleanup::{Cleaner, DailyCleanup, DroppedCheckpoints};
pub use maintain::collector::Collector;
pub use maintain::disk_use::{DiskUse, ProjectUse, SessionUse};
pub use maintain::doctor::{Doctor, UndoPlan};
pub use maintain::erase::Eraser;
pub use maintain::export::Exporter;
pub use maintain::import::Importer;
pub use maintain::session_remover::SessionRemover;
pub use parents::make_parents;
pub use relay::{LocalChildSocket, write_through_holder};
pub use run_config::{
    AgentConfig, CheckpointSwitch, PROJECT_CONFIG, RunConfig, RunDefaults, WorkRules,
};
pub use secrets_config::{SecretRecording, SecretsConfig};
pub use sessions::forker::Forker;
pub use sessions::liveness_checker::LivenessChecker;
pub use sessions::local_objects::LocalObjects;
pub use sessions::local_reader::LocalReader;
pub use sessions::local_store::{LocalOptions, LocalStore, Upkeep};
pub use sessions::local_writer::LocalWriter;
pub use sessions::session_finder::SessionFinder;
pub use small_file::read_small_file;
pub use store_finder::StoreFinder;
pub use store_place::{
    SessionScope, StoreLocation, StorePlace, StorePlaceError, check_directory, check_not_root,
    find_checkout, find_git_root, find_project, find_store, has_store, linked_worktree,
    store_of_named, store_of_project,
};
pub use trust_policy::TrustPolicy;
pub use user_config::{SummarizerType, UserConfig, UserContextConfig};
pub use user_dirs::UserDirs;
