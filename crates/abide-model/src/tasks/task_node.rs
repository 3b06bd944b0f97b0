//! A task of the tree.

use crate::fact::{DependencyType, DependencyTypes};
use crate::{Seq, TaskId, TaskState, TaskStatus};

/// A task, as a scheduler and a view need it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskNode {
    /// Its id.
    pub id: TaskId,
    /// Whether it was created. If not, another task only depends on it, and it is never done.
    pub known: bool,
    /// Its title, at most 200 characters.
    pub title: String,
    /// Its status.
    pub status: TaskStatus,
    /// Another system's word for the status.
    pub foreign: Option<String>,
    /// The task it is part of, as recorded.
    pub parent: Option<TaskId>,
    /// The tasks it depends on.
    pub depends: Vec<TaskId>,
    /// The types of these dependencies, where they do not just block.
    pub dependency_types: DependencyTypes,
    /// Its priority; higher goes first.
    pub priority: i64,
    /// Its position in the order of creation.
    pub order: u64,
    /// How often it was started.
    pub attempts: u64,
    /// How often it failed.
    pub failures: u64,
    /// The event that created it. [`Seq::ZERO`] until that is recorded; the same holds for the seqs
    /// below.
    pub created: Seq,
    /// The event with its result.
    pub result: Option<Seq>,
    /// The event with its description.
    pub details: Option<Seq>,
    /// The event that names its documents.
    pub documents: Option<Seq>,
    /// The event with its check.
    pub check: Option<Seq>,
    /// The agent's own id of the session in which it last worked on this.
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
            dependency_types: task.dependency_types.clone(),
            priority: task.priority,
            order: task.order,
            attempts: task.attempts,
            failures: task.failures,
            created: task.created,
            result: task.result,
            details: task.details,
            documents: task.documents,
            check: task.check,
            agent_session: task.agent_session.clone(),
        }
    }

    /// Its dependencies that can keep it from starting.
    pub(super) fn hard_depends(&self) -> Vec<TaskId> {
        let hard = |id: &&TaskId| self.dependency_types.of(id) != DependencyType::Soft;
        self.depends.iter().filter(hard).cloned().collect()
    }

    /// Does its dependency on `need` keep it from starting?
    #[must_use]
    pub fn is_held_by(&self, need: &Self) -> bool {
        let kind = self.dependency_types.of(&need.id);
        !kind.is_met_by(need.known.then_some(need.status))
    }

    /// Is it over, so that nothing waits for it?
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.known && self.status.is_done()
    }
}
