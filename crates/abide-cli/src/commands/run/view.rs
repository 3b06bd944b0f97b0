//! What a run looks like while it runs.

use std::sync::Arc;

use abide::Session;
use abide_runner::{RunEvent, RunOptions};

use super::json::Json;
use super::plain::Plain;
use super::raw::Through;
use super::tree::Tree;

/// The kind of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
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
pub(super) trait View {
    fn show(&mut self, event: &RunEvent);
}

pub(super) fn of(shown: Shown, session: &Arc<Session>, options: &RunOptions) -> Box<dyn View> {
    match shown {
        Shown::Tree => Box::new(Tree::new(session.clone(), options)),
        Shown::Plain => Box::new(Plain::new(options)),
        Shown::Json => Box::new(Json::default()),
        Shown::Through => Box::new(Through),
    }
}
