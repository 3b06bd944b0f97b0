//! The tasks of a state in the order of creation, by index.

use std::collections::HashMap;

use crate::{SessionState, TaskId, TaskState};

/// The created tasks, in order.
pub(super) struct CreatedTasks<'a> {
    pub(super) tasks: Vec<(&'a str, &'a TaskState)>,
    places: HashMap<&'a str, usize>,
}

impl<'a> CreatedTasks<'a> {
    pub(super) fn new(state: &'a SessionState) -> Self {
        let mut tasks: Vec<_> = state.tasks.iter().filter(|(_, task)| task.known).collect();
        tasks.sort_by_key(|(id, task)| (task.order, *id));
        let places = tasks.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
        Self { tasks, places }
    }

    /// The index of a created task.
    pub(super) fn place(&self, id: &TaskId) -> Option<usize> {
        self.places.get(id.as_str()).copied()
    }

    /// The id at an index.
    pub(super) fn id(&self, place: usize) -> &'a str {
        self.tasks.get(place).map(|(id, _)| *id).unwrap_or_default()
    }
}
