//! Takes, compares and restores snapshots of a workspace's files.
//!
//! A snapshot is a tree of objects. Each directory is an object that lists its entries by hash
//! ([`Tree`]). Each file is an object or, when it is large, a list of chunks ([`ChunkList`]).
//! Snapshots share whatever they have in common, and unchanged files are neither read nor stored
//! again.
//!
//! ```
//! use abide_workspace::{MemoryObjects, Policy, Watch, Workspace};
//!
//! let place = tempfile::tempdir()?;
//! let root = place.path().join("project");
//! std::fs::create_dir(&root)?;
//! std::fs::write(root.join("notes.txt"), "hello")?;
//!
//! let objects = MemoryObjects::new();
//! let policy = Policy { min_free_bytes: 0, ..Policy::default() };
//! let workspace = Workspace::open(&root, &place.path().join("stat-cache"), policy)?;
//! let first = workspace.snapshot(&objects, &Watch::default())?;
//! let second = workspace.snapshot(&objects, &Watch::default())?;
//! assert_eq!(first.snapshot.files, 1);
//! assert!(second.unchanged && second.hash == first.hash);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chunks;
mod compare;
mod error;
mod file_system;
mod losses;
mod memory_objects;
mod owner;
mod policy;
mod reach;
mod reserved;
mod restore;
#[cfg(test)]
mod sample;
mod snapshot;
mod take;
mod tree;
mod watch;
mod workspace;

pub use chunks::ChunkList;
pub use compare::diff::{ChangeKind, ChangedPath, diff};
pub use compare::find::{content_objects, find_entry};
pub use compare::read::{ReadError, read_content};
pub use compare::unified::{DiffStat, FileDiff, stat, unified};
pub use error::WorkspaceError;
pub use losses::{Losses, ReadableObjects};
pub use memory_objects::MemoryObjects;
pub use policy::{Policy, PolicyOverrides, SECRET_FILE_NAMES, SecretFiles, is_secret_file_name};
pub use reach::{Reach, ReachError, ReadObjectFn};
pub use restore::restore_plan::{KeptPath, RestoreAction, RestorePlan, RestoreStep, plan};
pub use restore::restore_sync::sync;
pub use restore::{RestoreError, RestoreReport, RestoreWatch, restore, restore_all};
pub use snapshot::{Omission, OmissionReason, Snapshot};
pub use tree::{EntryKind, Tree, TreeEntry, TreeError};
pub use watch::{SnapshotProgress, Watch};
pub use workspace::{TakenSnapshot, Workspace};
