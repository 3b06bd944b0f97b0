//! To-do lists and plans of agents.

use super::arguments::CallArguments;
use super::{CallView, CallViewBlock};
use crate::short::short_count;

/// An item of a to-do list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TodoItem {
    /// Its state.
    pub(crate) state: TodoState,
    /// What is to be done.
    pub(crate) text: String,
}

/// The state of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TodoState {
    /// Not begun.
    Open,
    /// Being worked on.
    Active,
    /// Done.
    Done,
    /// Given up.
    Dropped,
}

impl TodoState {
    fn named(name: &str) -> Self {
        match name {
            "in_progress" | "active" | "doing" | "running" => Self::Active,
            "completed" | "complete" | "done" => Self::Done,
            "cancelled" | "canceled" | "dropped" => Self::Dropped,
            _ => Self::Open,
        }
    }

    /// Its mark in a list.
    pub(crate) const fn mark(self) -> &'static str {
        match self {
            Self::Open => "[ ]",
            Self::Active => "[~]",
            Self::Done => "[x]",
            Self::Dropped => "[-]",
        }
    }
}

/// The items of a call that keeps a to-do list.
pub(super) fn todo_items(arguments: &CallArguments) -> Option<Vec<TodoItem>> {
    let items = ["todos", "plan", "entries"].iter().find_map(|name| arguments.list(name))?;
    items
        .iter()
        .map(|item| {
            let text = item.any(&["content", "step", "description", "text", "title"])?;
            let state = item.any(&["status", "state"]).unwrap_or_default();
            Some(TodoItem { state: TodoState::named(&state), text })
        })
        .collect()
}

pub(super) fn todo_view(view: &mut CallView, arguments: &CallArguments, output: &str) {
    let items = todo_items(arguments).unwrap_or_default();
    let done = items.iter().filter(|item| item.state == TodoState::Done).count();
    view.facts.push(format!(
        "{done} of {} done",
        short_count(u64::try_from(items.len()).unwrap_or(u64::MAX), "item")
    ));
    if let Some(why) = arguments.text("explanation").filter(|why| !why.is_empty()) {
        view.blocks.push(CallViewBlock::Prose(why));
    }
    view.blocks.push(CallViewBlock::Todo(items));
    view.output_if_failed(output);
}
