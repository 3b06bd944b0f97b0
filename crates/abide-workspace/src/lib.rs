//! Snapshots of a workspace's files: taken, compared, and put back.
//!
//! A snapshot is a tree of objects: each directory is an object that names its entries by hash
//! ([`Tree`]), each file is an object or, when it is large, a list of chunks ([`Chunks`]). Two
//! snapshots share what they have in common, and what did not change is neither read nor stored.

mod chunks;
mod memory;
mod reach;
mod snapshot;
mod tree;

pub use chunks::Chunks;
pub use memory::MemoryObjects;
pub use reach::{Reach, ReachError, ReadObject};
pub use snapshot::{Omission, OmissionReason, Snapshot};
pub use tree::{Entry, EntryKind, Tree, TreeError};
