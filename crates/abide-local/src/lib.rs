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

mod changed;
mod cleanup;
mod collection;
mod config;
mod directory;
mod disk_use;
mod doctor;
mod erase;
mod erase_plan;
mod erasing;
mod error;
mod export;
mod file_search;
mod find;
mod fork;
mod heartbeat;
mod history;
mod import;
mod jobs;
mod keys;
mod layout;
mod liveness;
mod named_snapshots;
mod objects;
mod parents;
mod past;
mod person;
mod place;
mod reader;
mod recovery;
mod relay;
mod removal;
mod sealer;
mod settle;
mod shield;
mod small_file;
mod snapshot;
mod stage;
mod store;
mod store_finder;
mod store_id;
mod transcript;
mod trust;
mod user_config;
mod writer;

pub use abide_journal::CollectionSummary;
pub use abide_journal::Environment;
pub use abide_journal::{Access, Disk, Storage, StorageFile, read_full, write_full};
pub use abide_journal::{
    BUNDLE_VERSION, BundleError, BundleFault, BundleHeader, BundleReader, ExportError, ImportError,
    ImportOutcome, ImportedBundle,
};
pub use abide_model::doing::{ActiveTask, OpenCall, OpenTurn, OrphanProcess, SessionLiveness};
pub use abide_model::{CreatedSession, DeleteError};
pub use cleanup::{
    Cleaner, CleanupOutcome, CleanupPlan, CleanupRules, ClockJump, DailyCleanup, SessionRemoval,
};
pub use collection::{CollectError, Collector};
pub use config::{Config, HeldProjects, ProjectConfig, STORE_VERSION, holds_many_projects};
pub use disk_use::{DiskUse, ProjectUse, SessionUse};
pub use doctor::{
    ConsideredStrategy, Doctor, Examination, FinishedRepair, RecordedLosses, RepairAction,
    RepairAftermath, RepairPlan, RepairRequest, RepairStrategy, UndoPlan,
};
pub use erase::{EraseError, EraseOutcome, Eraser, Leftovers};
pub use erase_plan::{EraseLine, ErasePlan, EventPart, FileMatch, FileMatches, TextMatches};
pub use export::Exporter;
pub use find::SessionFinder;
pub use fork::Forker;
pub use history::{IndexProgress, IndexProgressCallback, StoreIndex};
pub use import::Importer;
pub use liveness::LivenessChecker;
pub use objects::LocalObjects;
pub use parents::make_parents;
pub use person::UserDirs;
pub use place::{
    SessionScope, StoreLocation, StorePlace, StorePlaceError, check_directory, check_not_root,
    find_checkout, find_git_root, find_project, find_store, has_store, linked_worktree,
    store_of_named, store_of_project,
};
pub use reader::LocalReader;
pub use relay::{HeldWriters, LocalChildSocket, write_as_child};
pub use removal::SessionRemover;
pub use small_file::read_small_file;
pub use store::{LocalOptions, LocalStore, Upkeep};
pub use store_finder::StoreFinder;
pub use trust::TrustPolicy;
pub use user_config::UserConfig;
pub use writer::LocalWriter;
