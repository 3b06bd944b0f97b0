//! The tasks of a session as a tree: what can be started, in which order, and the progress.
//!
//! [`TaskTree`] is built once from a state and then updated with each change, so that a change
//! costs only the task's neighbours and ancestors, however many tasks there are.
//!
//! The fold tolerates invalid records: a parent that was never created, cyclic dependencies. So
//! does the tree, which neither loops for ever nor panics; but it refuses illegal changes that a
//! caller asks for.

mod error;
mod task_node;
mod task_progress;
mod task_slot;
mod task_tree;
#[cfg(test)]
mod tests;
mod tree_build;
mod tree_change;
mod tree_cycle;

pub use error::TaskError;
pub use task_node::TaskNode;
pub use task_progress::TaskProgress;
pub use task_tree::TaskTree;
