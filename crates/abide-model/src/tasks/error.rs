//! Why a change of tasks failed.

use crate::{TaskId, TaskStatus};

/// Why a change of tasks failed. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// No such task.
    #[error("there is no task {task}")]
    Unknown {
        /// The task.
        task: TaskId,
    },
    /// The task already exists.
    #[error("task {task} already exists")]
    Exists {
        /// The task.
        task: TaskId,
    },
    /// Invalid length of an id.
    #[error("a task id must have 1 to {limit} bytes; this one has {bytes}")]
    BadId {
        /// Its length in bytes.
        bytes: usize,
        /// The maximum in bytes.
        limit: usize,
    },
    /// The parent does not exist.
    #[error("task {task} cannot be a part of {parent}, which does not exist")]
    UnknownParent {
        /// The task.
        task: TaskId,
        /// Its parent.
        parent: TaskId,
    },
    /// A dependency does not exist.
    #[error("task {task} cannot depend on {dependency}, which does not exist")]
    UnknownDependency {
        /// The task.
        task: TaskId,
        /// The dependency.
        dependency: TaskId,
    },
    /// The status cannot follow the current one.
    #[error("task {task} is {} and cannot become {}", from.as_str(), to.as_str())]
    IllegalTransition {
        /// The task.
        task: TaskId,
        /// Its status.
        from: TaskStatus,
        /// The new status.
        to: TaskStatus,
    },
    /// A task cannot be complete before its parts are.
    #[error("task {task} cannot be complete: {open} of its parts are not done, {first} among them")]
    OpenParts {
        /// The task.
        task: TaskId,
        /// The number of parts that are not done.
        open: u64,
        /// The first of them.
        first: TaskId,
    },
    /// Tasks would wait for each other. A part waits for what its parent waits for, and a parent is
    /// done when its parts are.
    #[error("tasks would wait for each other: {}", task_path_in_error(path))]
    Cycle {
        /// The cycle, from a task back to itself.
        path: Vec<TaskId>,
    },
}

/// Maximum number of tasks named in a cycle.
const NAMED: usize = 12;

fn task_path_in_error(path: &[TaskId]) -> String {
    let mut names: Vec<&str> = path.iter().map(TaskId::as_str).collect();
    if names.len() > NAMED {
        names.splice(NAMED / 2..names.len() - NAMED / 2, ["…"]);
    }
    names.join(" → ")
}
