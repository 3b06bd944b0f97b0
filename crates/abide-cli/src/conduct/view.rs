//! What shows a run while it runs.

use abide_runner::RunEvent;

/// Shows the events of a run. A view has no errors: if nobody watches any more, the run goes on.
pub(super) trait RunView {
    fn show(&mut self, event: &RunEvent);
}
