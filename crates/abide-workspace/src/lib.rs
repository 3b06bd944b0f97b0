//! Snapshots of a workspace's files: taken, compared, and put back.
//!
//! A snapshot is a tree of objects: each directory is an object that names its entries by hash
//! ([`Tree`]), each file is an object or, when it is large, a list of chunks ([`Chunks`]). Two
//! snapshots share what they have in common, and what did not change is neither read nor stored.

mod base;
mod cache;
mod chunks;
mod clock;
mod completion;
mod content;
mod diff;
mod error;
mod file;
mod found;
mod listing;
mod lookup;
mod memory;
mod node;
mod plan;
mod policy;
mod queue;
mod reach;
mod record;
mod rename;
mod reserved;
mod restore;
mod root;
mod rules;
#[cfg(test)]
mod sample;
mod scan;
mod sink;
mod snapshot;
mod stat;
mod tree;
mod unified;
mod walk;
mod watch;
mod worker;
mod workspace;
mod write;

pub use chunks::Chunks;
pub use content::ContentError;
pub use diff::{Change, Changed, diff};
pub use error::WorkspaceError;
pub use memory::MemoryObjects;
pub use plan::{Action, Kept, Plan, Step, plan};
pub use policy::Policy;
pub use reach::{Reach, ReachError, ReadObject};
pub use restore::{RestoreError, RestoreWatch, Restored, restore, restore_all};
pub use snapshot::{Omission, OmissionReason, Snapshot};
pub use tree::{Entry, EntryKind, Tree, TreeError};
pub use unified::{DiffStat, FileDiff, stat, unified};
pub use watch::{Progress, Watch};
pub use workspace::{Taken, Workspace};
