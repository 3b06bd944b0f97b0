//! The types of dependencies between tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{TaskId, TaskStatus};

/// What a task wants of a task that it depends on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case", from = "String")]
pub enum DependencyType {
    /// The other task must be over: complete or obsolete.
    #[default]
    Blocks,
    /// The other task must be complete, because its result is used.
    NeedsResult,
    /// The other task is useful to know. Nothing waits for it.
    Soft,
}

impl DependencyType {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::Blocks, Self::NeedsResult, Self::Soft];

    /// Its name in the journal and in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::NeedsResult => "needs-result",
            Self::Soft => "soft",
        }
    }

    /// The type with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// May a task start whose dependency has this status? `None` for a task that was never created.
    #[must_use]
    pub fn is_met_by(self, status: Option<TaskStatus>) -> bool {
        match self {
            Self::Blocks => status.is_some_and(TaskStatus::is_done),
            Self::NeedsResult => status == Some(TaskStatus::Complete),
            Self::Soft => true,
        }
    }
}

/// A word of a later version blocks: the dependency is kept and nothing starts too early.
impl From<String> for DependencyType {
    fn from(name: String) -> Self {
        Self::named(&name).unwrap_or_default()
    }
}

impl fmt::Display for DependencyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The types of a task's dependencies. Those that it does not name are [`DependencyType::Blocks`],
/// which it never holds, so that equal types are equal values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DependencyTypes(BTreeMap<TaskId, DependencyType>);

impl DependencyTypes {
    /// The type of the dependency on this task.
    #[must_use]
    pub fn of(&self, task: &TaskId) -> DependencyType {
        self.0.get(task).copied().unwrap_or_default()
    }

    /// Sets the type of the dependency on this task.
    pub fn set(&mut self, task: TaskId, kind: DependencyType) {
        if kind == DependencyType::Blocks {
            self.0.remove(&task);
        } else {
            self.0.insert(task, kind);
        }
    }

    /// The same, of these dependencies only.
    #[must_use]
    pub fn among(&self, depends: &[TaskId]) -> Self {
        let mut types = Self::default();
        let depends: BTreeSet<&TaskId> = depends.iter().collect();
        for (task, kind) in self.iter().filter(|(task, _)| depends.contains(task)) {
            types.set(task.clone(), kind);
        }
        types
    }

    /// The dependencies that do not just block, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&TaskId, DependencyType)> {
        self.0.iter().map(|(task, kind)| (task, *kind))
    }

    /// Do all dependencies just block?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_says_which_status_lets_a_task_start() {
        let met = |kind: DependencyType| {
            let every = TaskStatus::ALL.into_iter();
            every.filter(|status| kind.is_met_by(Some(*status))).collect::<Vec<_>>()
        };
        assert_eq!(met(DependencyType::Blocks), [TaskStatus::Complete, TaskStatus::Obsolete]);
        assert_eq!(met(DependencyType::NeedsResult), [TaskStatus::Complete]);
        assert_eq!(met(DependencyType::Soft), TaskStatus::ALL);
        assert!(DependencyType::Soft.is_met_by(None));
        assert!(!DependencyType::Blocks.is_met_by(None));
        assert!(!DependencyType::NeedsResult.is_met_by(None));
    }

    #[test]
    fn an_unknown_type_blocks() {
        let types: DependencyTypes =
            serde_json::from_str(r#"{"a":"soft","b":"needs-result","c":"hopes-for"}"#).unwrap();
        let of = |id: &str| types.of(&id.into()).as_str();
        assert_eq!(
            [of("a"), of("b"), of("c"), of("d")],
            ["soft", "needs-result", "blocks", "blocks"]
        );
    }
}
