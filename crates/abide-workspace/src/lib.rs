//! Snapshots of a workspace's files: taken, compared, and put back.
//!
//! A snapshot is a tree of objects: each directory is an object that names its entries by hash
//! ([`Tree`]), each file is an object or, when it is large, a list of chunks ([`Chunks`]). Two
//! snapshots share what they have in common, and what did not change is neither read nor stored.

mod chunks;
mod diff;
mod plan;
mod read;
mod rename;
mod reserved;
mod restore;
mod root;
#[cfg(test)]
mod sample;
mod snapshot;
mod tree;
mod unified;
mod walk;

pub use chunks::Chunks;
pub use diff::{Change, Changed, diff};
pub use plan::{Action, Kept, Plan, Step, plan};
pub use read::ReadError;
pub use restore::{RestoreError, RestoreWatch, Restored, restore, restore_all};
pub use snapshot::{Omission, OmissionReason, Snapshot};
pub use tree::{Entry, EntryKind, Tree, TreeError};
pub use unified::{DiffStat, FileDiff, stat, unified};
