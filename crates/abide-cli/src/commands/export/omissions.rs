//! What an export leaves out.

use abide::{Seq, event::ReadFinding};
use abide_wire::WireError;

/// What could not be exported.
#[derive(Default)]
pub(super) struct ExportOmissions {
    /// What could not be read.
    pub(super) notes: Vec<ReadFinding>,
    /// Events that the format cannot represent, and why.
    pub(super) refused: Vec<(Seq, WireError)>,
}
