//! Changes a session's tasks in batches.
//!
//! Each change is checked against the task tree at once and refused if it is illegal.
//! [`SessionTasks::flush`] records the accepted changes, many in one durable write. Until that succeeds
//! everything is kept. Each event has its own key, so it can be written again without being
//! recorded twice.

pub use crate::plan_document::{
    PLAN_LABEL, PLAN_TASKS_LABEL, PLAN_WRITTEN_LABEL, TaskListDocument, TaskListMatch,
};
pub use crate::plan_file::PlanFile;
pub use abide_model::{
    DependencyType, DependencyTypes, TaskChange, TaskCreated, TaskError, TaskId, TaskListRecord,
    TaskNode, TaskProgress, TaskState, TaskStatusChange, TaskTree,
};
pub use abide_plan::{
    ANSWER_SCHEMA, DocumentTask, MAX_ANSWER_BYTES, TaskList, TaskListDelta, TaskListError,
    TaskListFault, TaskListForm, delta as plan_delta,
};

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use abide_model::{
    EventLimits, EventRange, Fact, InputError, Kind, NewEvent, Seq, TaskStatus, is_check,
};

use crate::{Error, Session, SessionView};

mod history;
mod tasks_flush;

pub use history::{CheckRecord, TaskHistory, TaskTry, UNCHECKED};
pub use tasks_flush::FlushReport;

/// Finds a free id for a subtask, or for a top-level task.
pub type NextId = fn(&TaskTree, Option<&TaskId>) -> TaskId;

/// The request behind a pending event.
#[derive(Debug, Clone)]
enum TaskIntent {
    Create(TaskCreated),
    /// With a generated id.
    CreateNext(TaskCreated, NextId),
    Change(TaskChange),
    Set(TaskStatusChange),
    /// A consequence of the request before it.
    Follow,
    Other,
}

#[derive(Debug, Clone)]
struct PendingTaskEvent {
    event: NewEvent,
    wish: TaskIntent,
}

impl PendingTaskEvent {
    /// Returns true if the event is about this task or refers to it.
    fn names(&self, task: &TaskId) -> bool {
        let spoken_of = match &self.wish {
            TaskIntent::Create(created) | TaskIntent::CreateNext(created, _) => {
                created.parent.as_ref() == Some(task) || created.depends.contains(task)
            }
            TaskIntent::Change(change) => {
                change.depends.as_ref().is_some_and(|depends| depends.contains(task))
            }
            TaskIntent::Set(_) | TaskIntent::Follow | TaskIntent::Other => false,
        };
        spoken_of || self.event.task.as_ref() == Some(task)
    }
}

/// The documents of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskDocuments {
    /// Their names: paths or URLs.
    pub names: Vec<String>,
    /// The texts of those that are stored with the task, by their names.
    pub texts: BTreeMap<String, String>,
}

impl TaskDocuments {
    /// Adds a document with its text, or replaces its text.
    pub fn store(&mut self, name: impl Into<String>, text: impl Into<String>) {
        let name = name.into();
        if !self.names.contains(&name) {
            self.names.push(name.clone());
        }
        self.texts.insert(name, text.into());
    }
}

/// What was not yet recorded when the session was released.
#[derive(Debug, Clone)]
pub struct PendingTasks(Vec<PendingTaskEvent>);

/// A session's tasks, including changes that are not recorded yet.
#[derive(Debug)]
pub struct SessionTasks {
    session: Arc<Session>,
    tree: TaskTree,
    pending: Vec<PendingTaskEvent>,
    /// Prefix of the keys of this instance's events.
    key: String,
    keys: u64,
    /// True if task events were added without updating the tree.
    stale: bool,
}

impl SessionTasks {
    /// Opens the tasks of a session.
    pub fn open(session: Arc<Session>) -> Result<Self, Error> {
        let tree = TaskTree::of(&session.state()?.tasks);
        let key = session.store().new_checkpoint_id();
        Ok(Self { session, tree, pending: Vec::new(), key, keys: 0, stale: false })
    }

    /// The session.
    #[must_use]
    pub const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Returns the session. Pending changes are discarded.
    #[must_use]
    pub fn into_session(self) -> Arc<Session> {
        self.session
    }

    /// Releases the session, so that it can be opened again, and keeps the pending changes; see
    /// [`SessionTasks::resume`].
    #[must_use]
    pub fn into_pending(self) -> PendingTasks {
        PendingTasks(self.pending)
    }

    /// The tasks, including pending changes.
    #[must_use]
    pub const fn tree(&self) -> &TaskTree {
        &self.tree
    }

    /// Adds a task. The resulting changes to its parents are recorded with it.
    pub fn create(&mut self, task: TaskCreated) -> Result<(), Error> {
        let (event, task) = self.recorded_creation(task)?;
        let follows = self.tree.insert(&task)?;
        self.push(event, TaskIntent::Create(task));
        self.push_follows(follows)
    }

    /// Adds a task with the next free id and returns that id. If somebody else takes the id before
    /// the flush, the task gets another one; so refer to it only after the flush.
    pub fn create_next(&mut self, task: TaskCreated, next: NextId) -> Result<TaskId, Error> {
        let id = next(&self.tree, task.parent.as_ref());
        let (event, task) = self.recorded_creation(TaskCreated { task: id, ..task })?;
        let id = task.task.clone();
        let follows = self.tree.insert(&task)?;
        self.push(event, TaskIntent::CreateNext(task, next));
        self.push_follows(follows)?;
        Ok(id)
    }

    /// Changes a task.
    pub fn change(&mut self, change: TaskChange) -> Result<(), Error> {
        let (event, change) = self.recorded(change, |fact| match fact {
            Fact::TaskChanged(change) => Some(change),
            _ => None,
        })?;
        let event = checked_task_event(event.for_task(change.task.as_str()))?;
        apply_change(&mut self.tree, &change)?;
        self.push(event, TaskIntent::Change(change));
        Ok(())
    }

    /// Sets a task's status. The resulting changes to its parents are recorded with it.
    pub fn set(&mut self, change: TaskStatusChange) -> Result<(), Error> {
        let (event, change) = self.recorded(change, |fact| match fact {
            Fact::TaskStatus(change) => Some(change),
            _ => None,
        })?;
        self.tree.check_status(change.task.as_str(), change.status)?;
        let event = checked_task_event(event.for_task(change.task.as_str()))?;
        let follows = apply_status(&mut self.tree, &change);
        self.push(event, TaskIntent::Set(change));
        self.push_follows(follows)
    }

    /// Adds another event to the batch, in this position. For task events use the methods that
    /// check them.
    pub fn also(&mut self, event: NewEvent) {
        if event.kind == Kind::AGENT_OBSERVED {
            if let (Some(task), Ok(Fact::AgentObserved(seen))) =
                (&event.task, Fact::decode(&event.kind, &event.data))
            {
                // An observation about an unknown task does not affect the tree.
                let _ = self.tree.set_agent_session(task.as_str(), seen.session);
            }
        } else if [Kind::TASK_CREATED, Kind::TASK_CHANGED, Kind::TASK_STATUS].contains(&event.kind)
        {
            self.stale = true;
        }
        self.push(event, TaskIntent::Other);
    }

    /// Number of events not recorded yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// These events, in the order in which they will be recorded.
    pub fn pending_events(&self) -> impl Iterator<Item = &NewEvent> {
        self.pending.iter().map(|waiting| &waiting.event)
    }

    /// Reads the session's tasks again after others wrote to it. Pending changes are reapplied if
    /// they are still legal; returns the errors of those that were dropped.
    pub fn refresh(&mut self) -> Result<Vec<TaskError>, Error> {
        let state = self.session.state()?;
        self.tree = TaskTree::of(&state.tasks);
        let mut refused = Vec::new();
        let mut pending = VecDeque::from(std::mem::take(&mut self.pending));
        while let Some(PendingTaskEvent { mut event, mut wish }) = pending.pop_front() {
            // A failed write did record it: the tree has it already.
            let recorded = self.session.redacted(event.clone());
            if recorded.key.is_some_and(|key| state.key(&key).is_some()) {
                continue;
            }
            if let TaskIntent::CreateNext(task, next) = &mut wish
                && self.tree.get(task.task.as_str()).is_some()
                && !pending.iter().any(|other| other.names(&task.task))
            {
                task.task = next(&self.tree, task.parent.as_ref());
                event = NewEvent { key: event.key, ..task_created_event(task)? };
            }
            let follows = match &wish {
                TaskIntent::Create(task) | TaskIntent::CreateNext(task, _) => {
                    self.tree.insert(task)
                }
                TaskIntent::Change(change) => {
                    apply_change(&mut self.tree, change).map(|()| Vec::new())
                }
                TaskIntent::Set(change) => self
                    .tree
                    .check_status(change.task.as_str(), change.status)
                    .map(|()| apply_status(&mut self.tree, change)),
                TaskIntent::Follow => continue,
                TaskIntent::Other => Ok(Vec::new()),
            };
            match follows {
                Ok(follows) => {
                    self.pending.push(PendingTaskEvent { event, wish });
                    self.push_follows(follows)?;
                }
                Err(error) => refused.push(error),
            }
        }
        Ok(refused)
    }

    /// Continues in the same session, opened again after its writer stopped, with the pending
    /// changes from then. Changes that were recorded despite the failure are recognised. Returns
    /// the errors of those that are no longer legal.
    pub fn resume(
        session: Arc<Session>,
        pending: &PendingTasks,
    ) -> Result<(Self, Vec<TaskError>), Error> {
        let mut tasks = Self::open(session)?;
        tasks.pending.clone_from(&pending.0);
        let refused = tasks.refresh()?;
        tasks.settle()?;
        Ok((tasks, refused))
    }

    /// Adds status changes of parents that follow from their subtasks and were never recorded
    /// because a write was interrupted. Returns how many there are. Looks at every task; meant for
    /// the start of a run.
    pub fn settle(&mut self) -> Result<usize, Error> {
        let follows = self.tree.settle();
        let count = follows.len();
        self.push_follows(follows)?;
        Ok(count)
    }

    /// The event for a new task, and the task, both as they are recorded.
    fn recorded_creation(&self, task: TaskCreated) -> Result<(NewEvent, TaskCreated), Error> {
        let (event, task) = self.recorded(task, |fact| match fact {
            Fact::TaskCreated(task) => Some(task),
            _ => None,
        })?;
        Ok((checked_task_event(event.for_task(task.task.as_str()))?, task))
    }

    /// The event of a fact, and the fact, both as they are recorded: with marks in place of secrets, so
    /// that the tree is what the session will hold.
    fn recorded<F>(&self, fact: F, read: fn(Fact) -> Option<F>) -> Result<(NewEvent, F), InputError>
    where
        F: Clone,
        NewEvent: TryFrom<F, Error = InputError>,
    {
        let given = NewEvent::try_from(fact.clone())?;
        let event = self.session.redacted(given.clone());
        if event.data == given.data {
            return Ok((event, fact));
        }
        let recorded = Fact::decode(&event.kind, &event.data).ok().and_then(read);
        Ok((event, recorded.unwrap_or(fact)))
    }

    fn push(&mut self, mut event: NewEvent, wish: TaskIntent) {
        if event.key.is_none() {
            self.keys += 1;
            event.key = Some(format!("{}.{}", self.key, self.keys));
        }
        self.pending.push(PendingTaskEvent { event, wish });
    }

    fn push_follows(&mut self, follows: Vec<(TaskId, TaskStatus)>) -> Result<(), Error> {
        for (task, status) in follows {
            let reason = if status.is_done() {
                "all of its parts are done"
            } else {
                "a part of it is to be done"
            };
            let reason = Some(reason.to_owned());
            let id = task.0.clone();
            let event = TaskStatusChange { task, status, reason, ..TaskStatusChange::default() };
            self.push(NewEvent::try_from(event)?.for_task(id.as_str()), TaskIntent::Follow);
        }
        Ok(())
    }
}

impl SessionView {
    /// The tasks as of the last readable event.
    pub fn tasks(&self) -> Result<TaskTree, Error> {
        Ok(TaskTree::of(&self.state()?.tasks))
    }

    /// A task's own check: the shell command that decides whether it is done.
    pub fn check_of(&self, task: &TaskNode) -> Result<Option<String>, Error> {
        let Some(seq) = task.check else { return Ok(None) };
        let range = EventRange { first: seq, last: seq, ..EventRange::ALL };
        let event = self.page(range)?.events.pop();
        let check = match event.and_then(|event| event.fact().ok()) {
            Some(Fact::TaskCreated(created)) => created.check,
            Some(Fact::TaskChanged(change)) => change.check,
            _ => None,
        };
        Ok(check.filter(|check| is_check(check)))
    }
}

impl SessionView {
    /// A task's documents: their names, and the texts of those that are stored with it.
    pub fn documents_of(&self, task: &TaskNode) -> Result<TaskDocuments, Error> {
        let Some(seq) = task.documents else { return Ok(TaskDocuments::default()) };
        let range = EventRange { first: seq, last: seq, ..EventRange::ALL };
        let event = self.page(range)?.events.pop();
        let (names, mut texts) = match event.and_then(|event| event.fact().ok()) {
            Some(Fact::TaskCreated(created)) => (created.documents, created.document_texts),
            Some(Fact::TaskChanged(change)) => {
                (change.documents.unwrap_or_default(), change.document_texts)
            }
            _ => Default::default(),
        };
        texts.retain(|name, _| names.contains(name));
        Ok(TaskDocuments { names, texts })
    }
}

/// The event for a new task.
fn task_created_event(task: &TaskCreated) -> Result<NewEvent, InputError> {
    Ok(NewEvent::try_from(task.clone())?.for_task(task.task.as_str()))
}

/// Refuses an event that no session accepts, before it changes the tree.
fn checked_task_event(event: NewEvent) -> Result<NewEvent, InputError> {
    event.check(&EventLimits::default())?;
    Ok(event)
}

pub(crate) fn apply_change(tree: &mut TaskTree, change: &TaskChange) -> Result<(), TaskError> {
    let id = change.task.as_str();
    if let Some(depends) = &change.depends {
        tree.set_depends(id, depends, &change.dependency_types)?;
    }
    if let Some(priority) = change.priority {
        tree.set_priority(id, priority)?;
    }
    if let Some(title) = &change.title {
        tree.set_title(id, title)?;
    }
    if change.details.is_some() {
        tree.set_details(id, Seq::ZERO)?;
    }
    if let Some(documents) = &change.documents {
        tree.set_documents(id, (!documents.is_empty()).then_some(Seq::ZERO))?;
    }
    if let Some(check) = &change.check {
        tree.set_check(id, is_check(check).then_some(Seq::ZERO))?;
    }
    if tree.get(id).is_none() {
        return Err(TaskError::Unknown { task: change.task.clone() });
    }
    Ok(())
}

fn apply_status(tree: &mut TaskTree, change: &TaskStatusChange) -> Vec<(TaskId, TaskStatus)> {
    let id = change.task.as_str();
    let follows = tree.set_status(id, change.status);
    // The task was checked to exist.
    if change.foreign.is_some() {
        let _ = tree.set_foreign(id, change.foreign.clone());
    }
    if change.result.is_some() {
        let _ = tree.set_result(id, Seq::ZERO);
    }
    follows
}
