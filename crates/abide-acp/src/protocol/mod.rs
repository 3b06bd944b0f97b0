//! The protocol's messages, as far as this crate reads and writes them.
//!
//! Required members decide whether something is an update or a block of content; an optional one
//! that cannot be read counts as absent. That is how the protocol's schema reads them, and the
//! tests compare the two.

mod block;
mod session;
#[cfg(test)]
mod tests;
mod tool;
mod update;

pub(crate) use block::is_block;
pub use session::SessionInfo;
pub(crate) use tool::{CallStatus, is_tool_kind};
pub(crate) use update::{EntryStatus, PlanEntry, Priority, Update, UpdateKind};
