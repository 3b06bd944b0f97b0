//! Chooses what a run looks like while it runs.

use std::sync::Arc;

use abide::Session;
use abide_runner::RunOptions;

use super::json::JsonView;
use super::plain::PlainView;
use super::terminal::TerminalPassthrough;
use super::tree::TreeView;
use super::view::RunView;

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

/// The view of this kind.
pub(super) fn view_of_kind(
    shown: RunViewKind,
    session: &Arc<Session>,
    options: &RunOptions,
) -> Box<dyn RunView> {
    match shown {
        RunViewKind::Tree => Box::new(TreeView::new(session.clone(), options)),
        RunViewKind::Plain => Box::new(PlainView::new(options)),
        RunViewKind::Json => Box::new(JsonView::default()),
        RunViewKind::Through => Box::new(TerminalPassthrough),
    }
}
