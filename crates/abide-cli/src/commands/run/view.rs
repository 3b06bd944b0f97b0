//! What a run looks like while it runs.

use std::sync::Arc;

use abide::Session;
use abide_runner::{RunEvent, RunOptions};

use super::json::JsonView;
use super::plain::PlainView;
use super::raw::PassthroughView;
use super::tree::TreeView;

/// The kind of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunViewKind {
    /// A live tree of tasks.
    Tree,
    /// Plain lines.
    Plain,
    /// Lines of JSON.
    Json,
    /// Only the agent's own output.
    Through,
}

/// Shows the events of a run. A view has no errors: if nobody watches any more, the run goes on.
pub(super) trait RunView {
    fn show(&mut self, event: &RunEvent);
}

pub(super) fn of(
    shown: RunViewKind,
    session: &Arc<Session>,
    options: &RunOptions,
) -> Box<dyn RunView> {
    match shown {
        RunViewKind::Tree => Box::new(TreeView::new(session.clone(), options)),
        RunViewKind::Plain => Box::new(PlainView::new(options)),
        RunViewKind::Json => Box::new(JsonView::default()),
        RunViewKind::Through => Box::new(PassthroughView),
    }
}
