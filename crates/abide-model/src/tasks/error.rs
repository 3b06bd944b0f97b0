//! Why tasks were not changed.

use crate::{TaskId, TaskStatus};

/// Why tasks were not changed. Nothing was taken in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// There is no such task.
    #[error("there is no task {task}")]
    Unknown {
        /// As it was asked for.
        task: TaskId,
    },
    /// There is one already.
    #[error("there is a task {task} already")]
    Exists {
        /// Which.
        task: TaskId,
    },
    /// Not an id.
    #[error("the id of a task has 1 to {limit} bytes; this one has {bytes}")]
    BadId {
        /// How many bytes it has.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// Its parent was never created.
    #[error("task {task} cannot be a part of {parent}, which does not exist")]
    UnknownParent {
        /// Which task.
        task: TaskId,
        /// Its parent.
        parent: TaskId,
    },
    /// What it depends on was never created.
    #[error("task {task} cannot depend on {dependency}, which does not exist")]
    UnknownDependency {
        /// Which task.
        task: TaskId,
        /// What it would depend on.
        dependency: TaskId,
    },
    /// A status that does not follow from the one before.
    #[error("task {task} is {}, and cannot become {}", from.as_str(), to.as_str())]
    IllegalTransition {
        /// Which task.
        task: TaskId,
        /// Where it stands.
        from: TaskStatus,
        /// Where it should stand.
        to: TaskStatus,
    },
    /// A task is complete when its parts are.
    #[error("task {task} cannot be complete: {open} of its parts are not done, {first} among them")]
    OpenParts {
        /// Which task.
        task: TaskId,
        /// How many parts are not done.
        open: u64,
        /// The first of them.
        first: TaskId,
    },
    /// Tasks would wait for each other. A part waits for what its parent waits for, and a parent
    /// is done when its parts are.
    #[error("tasks would wait for each other: {}", told(path))]
    Cycle {
        /// The way round, from a task back to itself.
        path: Vec<TaskId>,
    },
}

/// The most tasks of a circle that are named.
const NAMED: usize = 12;

fn told(path: &[TaskId]) -> String {
    let mut names: Vec<&str> = path.iter().map(TaskId::as_str).collect();
    if names.len() > NAMED {
        names.splice(NAMED / 2..names.len() - NAMED / 2, ["…"]);
    }
    names.join(" → ")
}
