//! Snapshots of a workspace's files: taken, compared, and put back.
//!
//! A snapshot is a tree of objects: each directory is an object that names its entries by hash
//! ([`Tree`]), each file is an object or, when it is large, a list of chunks ([`Chunks`]). Two
//! snapshots share what they have in common, and what did not change is neither read nor stored.
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

mod base;
mod cache;
mod chunks;
mod clock;
mod completion;
mod content;
mod error;
mod gathering;
mod listing;
mod lookup;
mod memory;
mod node;
mod policy;
mod queue;
mod record;
mod rules;
mod scan;
mod sink;
mod snapshot;
mod stat;
mod tree;
mod watch;
mod worker;
mod workspace;

pub use chunks::Chunks;
pub use error::WorkspaceError;
pub use memory::MemoryObjects;
pub use policy::Policy;
pub use snapshot::{Omission, OmissionReason, Snapshot};
pub use tree::{Entry, EntryKind, Tree, TreeError};
pub use watch::{Progress, Watch};
pub use workspace::{Taken, Workspace};
