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
