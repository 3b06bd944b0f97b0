//! The protocol's messages, as far as this crate reads and writes them.
//!
//! Required members decide whether something is an update or a content block; an optional one that
//! cannot be read counts as absent. The protocol's schema reads them the same way, and tests
//! compare the two.

mod acp_update;
mod block;
mod session;
#[cfg(test)]
mod tests;
mod tool;

pub(crate) use acp_update::{AcpUpdate, EntryStatus, PlanUpdateEntry, Priority, UpdateKind};
pub(crate) use block::is_block;
pub use session::SessionInfo;
pub(crate) use tool::{AcpToolStatus, is_tool_kind};
