//! The tasks of a session as a tree: what can be begun, in which order, and how far it is.
//!
//! [`TaskTree`] is built once from a state's tasks and then kept up with each change, so that one
//! change costs its neighbours and its ancestors and no more, however many tasks there are.
//!
//! The fold tolerates what nobody should record: a parent that was never created, dependencies in a
//! circle. So does the tree, which never waits for ever and never panics over it; what a caller
//! asks it to take in is refused when it is illegal.

mod build;
mod change;
mod cycle;
mod error;
mod node;
mod progress;
mod slot;
#[cfg(test)]
mod tests;
mod tree;

pub use error::TaskError;
pub use node::TaskNode;
pub use progress::TaskProgress;
pub use tree::TaskTree;
