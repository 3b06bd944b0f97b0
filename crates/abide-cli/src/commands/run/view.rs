//! What a run looks like while it goes.

use std::sync::Arc;

use abide::Session;
use abide_runner::{RunEvent, RunOptions};

use super::json::Json;
use super::plain::Plain;
use super::raw::Through;
use super::tree::Tree;

/// Which view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// The tree of tasks, drawn anew as it changes.
    Tree,
    /// Lines.
    Plain,
    /// Lines of JSON.
    Json,
    /// What the agent shows, and nothing of ours.
    Through,
}

/// Shows what happens. Where nobody looks any more, the run goes on all the same: a view has no
/// errors.
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
