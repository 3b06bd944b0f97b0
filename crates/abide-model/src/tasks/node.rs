//! One task of the tree.

use crate::{Seq, TaskId, TaskState, TaskStatus};

/// A task, as a scheduler and a view need it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskNode {
    /// Its id.
    pub id: TaskId,
    /// Created; otherwise another task only depends on it, and it never gets done.
    pub known: bool,
    /// Its title, at most 200 characters of it.
    pub title: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// The word another system uses for that.
    pub foreign: Option<String>,
    /// The task it is a part of, as it was recorded.
    pub parent: Option<TaskId>,
    /// What must be done before, by id.
    pub depends: Vec<TaskId>,
    /// Greater goes first.
    pub priority: i64,
    /// Its place in the order of creation.
    pub order: u64,
    /// How often it was begun.
    pub attempts: u64,
    /// How often it came to nothing.
    pub failures: u64,
    /// Where it was created. [`Seq::ZERO`] as long as that is not recorded; so are the places below.
    pub created: Seq,
    /// Where its result is.
    pub result: Option<Seq>,
    /// Where it is told at length what is to be done.
    pub details: Option<Seq>,
    /// Where its documents are named.
    pub documents: Option<Seq>,
    /// The agent's own name for the session in which it last worked on this.
    pub agent_session: Option<String>,
}

impl TaskNode {
    pub(super) fn of(id: &str, task: &TaskState) -> Self {
        Self {
            id: id.into(),
            known: task.known,
            title: task.title.clone(),
            status: task.status,
            foreign: task.foreign.clone(),
            parent: task.parent.clone(),
            depends: task.depends.clone(),
            priority: task.priority,
            order: task.order,
            attempts: task.attempts,
            failures: task.failures,
            created: task.created,
            result: task.result,
            details: task.details,
            documents: task.documents,
            agent_session: task.agent_session.clone(),
        }
    }

    /// Is it over, so that nothing waits for it?
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.known && self.status.is_done()
    }
}
