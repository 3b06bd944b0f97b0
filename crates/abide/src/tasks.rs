//! A session's tasks, to be changed in batches.
//!
//! What is asked for is checked against the tree at once and refused when it is illegal; what is
//! taken in is recorded by [`Tasks::flush`], many changes in one durable write. Until that has
//! succeeded everything is kept, each event with a key of its own, so that it can be written again
//! without being recorded twice.

use std::collections::VecDeque;
use std::sync::Arc;

use abide_model::{
    Fact, InputError, Kind, Limits, NewEvent, Seq, TaskChange, TaskCreated, TaskError, TaskId,
    TaskStatus, TaskStatusChange, TaskTree,
};

use crate::{Error, Session, SessionView};

mod flush;

pub use flush::Flushed;

/// Finds an id that is free for a part of a task, or for what is a part of nothing.
pub type NextId = fn(&TaskTree, Option<&TaskId>) -> TaskId;

/// What a pending event was asked for as.
#[derive(Debug, Clone)]
enum Wish {
    Create(TaskCreated),
    /// With an id that nobody asked for.
    CreateNext(TaskCreated, NextId),
    Change(TaskChange),
    Set(TaskStatusChange),
    /// What follows from the wish before it.
    Follow,
    Other,
}

#[derive(Debug, Clone)]
struct Waiting {
    event: NewEvent,
    wish: Wish,
}

impl Waiting {
    /// Is it about this task, or does it speak of it?
    fn names(&self, task: &TaskId) -> bool {
        let spoken_of = match &self.wish {
            Wish::Create(created) | Wish::CreateNext(created, _) => {
                created.parent.as_ref() == Some(task) || created.depends.contains(task)
            }
            Wish::Change(change) => {
                change.depends.as_ref().is_some_and(|depends| depends.contains(task))
            }
            Wish::Set(_) | Wish::Follow | Wish::Other => false,
        };
        spoken_of || self.event.task.as_ref() == Some(task)
    }
}

/// What was not recorded when the session was let go.
#[derive(Debug, Clone)]
pub struct PendingTasks(Vec<Waiting>);

/// A session's tasks, as they will be when all that is pending is recorded.
#[derive(Debug)]
pub struct Tasks {
    session: Arc<Session>,
    tree: TaskTree,
    pending: Vec<Waiting>,
    /// What the keys of this one's events begin with.
    key: String,
    keys: u64,
    /// Task facts came by another way than the tree.
    stale: bool,
}

impl Tasks {
    /// The tasks of a session.
    pub fn open(session: Arc<Session>) -> Result<Self, Error> {
        let tree = TaskTree::of(&session.state()?.tasks);
        let key = session.store().new_checkpoint_id();
        Ok(Self { session, tree, pending: Vec::new(), key, keys: 0, stale: false })
    }

    /// The session they are in.
    #[must_use]
    pub const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Lets the tasks go; what is pending is forgotten.
    #[must_use]
    pub fn into_session(self) -> Arc<Session> {
        self.session
    }

    /// Lets the session go, so that it can be opened anew, and keeps what is pending; see
    /// [`Tasks::resume`].
    #[must_use]
    pub fn into_pending(self) -> PendingTasks {
        PendingTasks(self.pending)
    }

    /// The tasks, with what is pending.
    #[must_use]
    pub const fn tree(&self) -> &TaskTree {
        &self.tree
    }

    /// A new task. What follows for those that it is a part of is recorded with it.
    pub fn create(&mut self, task: TaskCreated) -> Result<(), Error> {
        let event = checked(created(&task)?)?;
        let follows = self.tree.insert(&task)?;
        self.push(event, Wish::Create(task));
        self.push_follows(follows)
    }

    /// A new task with the next free id, which it gives. Where somebody else takes that id before
    /// the flush, the task gets the one that is free then; other wishes should name it only after
    /// the flush.
    pub fn create_next(&mut self, task: TaskCreated, next: NextId) -> Result<TaskId, Error> {
        let id = next(&self.tree, task.parent.as_ref());
        let task = TaskCreated { task: id.clone(), ..task };
        let event = checked(created(&task)?)?;
        let follows = self.tree.insert(&task)?;
        self.push(event, Wish::CreateNext(task, next));
        self.push_follows(follows)?;
        Ok(id)
    }

    /// Something about a task is otherwise.
    pub fn change(&mut self, change: TaskChange) -> Result<(), Error> {
        let event = checked(NewEvent::try_from(change.clone())?.for_task(change.task.as_str()))?;
        apply_change(&mut self.tree, &change)?;
        self.push(event, Wish::Change(change));
        Ok(())
    }

    /// A task's status. What follows for those that it is a part of is recorded with it.
    pub fn set(&mut self, change: TaskStatusChange) -> Result<(), Error> {
        self.tree.check_status(change.task.as_str(), change.status)?;
        let event = checked(NewEvent::try_from(change.clone())?.for_task(change.task.as_str()))?;
        let follows = apply_status(&mut self.tree, &change);
        self.push(event, Wish::Set(change));
        self.push_follows(follows)
    }

    /// Another event of the same batch, in its place. For facts about tasks there are methods that
    /// check them.
    pub fn also(&mut self, event: NewEvent) {
        if event.kind == Kind::AGENT_OBSERVED {
            if let (Some(task), Ok(Fact::AgentObserved(seen))) =
                (&event.task, Fact::decode(&event.kind, &event.data))
            {
                // An observation of no known task is nothing to the tree.
                let _ = self.tree.set_agent_session(task.as_str(), seen.session);
            }
        } else if [Kind::TASK_CREATED, Kind::TASK_CHANGED, Kind::TASK_STATUS].contains(&event.kind)
        {
            self.stale = true;
        }
        self.push(event, Wish::Other);
    }

    /// How many events are not recorded yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Those events, in the order in which they will be recorded.
    pub fn pending_events(&self) -> impl Iterator<Item = &NewEvent> {
        self.pending.iter().map(|waiting| &waiting.event)
    }

    /// Reads the session's tasks anew, when others wrote to it. What is pending is kept on top where
    /// it is still legal; gives why for what is let go.
    pub fn refresh(&mut self) -> Result<Vec<TaskError>, Error> {
        let state = self.session.state()?;
        self.tree = TaskTree::of(&state.tasks);
        let mut refused = Vec::new();
        let mut pending = VecDeque::from(std::mem::take(&mut self.pending));
        while let Some(Waiting { mut event, mut wish }) = pending.pop_front() {
            // What a failed write left behind is in the tree already.
            if event.key.as_deref().is_some_and(|key| state.key(key).is_some()) {
                continue;
            }
            if let Wish::CreateNext(task, next) = &mut wish
                && self.tree.get(task.task.as_str()).is_some()
                && !pending.iter().any(|other| other.names(&task.task))
            {
                task.task = next(&self.tree, task.parent.as_ref());
                event = NewEvent { key: event.key, ..created(task)? };
            }
            let follows = match &wish {
                Wish::Create(task) | Wish::CreateNext(task, _) => self.tree.insert(task),
                Wish::Change(change) => apply_change(&mut self.tree, change).map(|()| Vec::new()),
                Wish::Set(change) => self
                    .tree
                    .check_status(change.task.as_str(), change.status)
                    .map(|()| apply_status(&mut self.tree, change)),
                Wish::Follow => continue,
                Wish::Other => Ok(Vec::new()),
            };
            match follows {
                Ok(follows) => {
                    self.pending.push(Waiting { event, wish });
                    self.push_follows(follows)?;
                }
                Err(error) => refused.push(error),
            }
        }
        Ok(refused)
    }

    /// Goes on in the same session, opened anew after its writer had stopped, with what was pending
    /// then; gives why for what is not legal any more. What of it was recorded all the same, the
    /// failure notwithstanding, is known again.
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

    /// Takes in what follows for tasks from their parts and was never recorded, because a write was
    /// cut off; says for how many that is so. Looks at every task: for the beginning of a run.
    pub fn settle(&mut self) -> Result<usize, Error> {
        let follows = self.tree.settle();
        let count = follows.len();
        self.push_follows(follows)?;
        Ok(count)
    }

    fn push(&mut self, mut event: NewEvent, wish: Wish) {
        if event.key.is_none() {
            self.keys += 1;
            event.key = Some(format!("{}.{}", self.key, self.keys));
        }
        self.pending.push(Waiting { event, wish });
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
            self.push(NewEvent::try_from(event)?.for_task(id.as_str()), Wish::Follow);
        }
        Ok(())
    }
}

impl SessionView {
    /// The tasks as of the last event that can be read.
    pub fn tasks(&self) -> Result<TaskTree, Error> {
        Ok(TaskTree::of(&self.state()?.tasks))
    }
}

/// The event of a new task.
fn created(task: &TaskCreated) -> Result<NewEvent, InputError> {
    Ok(NewEvent::try_from(task.clone())?.for_task(task.task.as_str()))
}

/// What no session takes is refused before the tree takes it in.
fn checked(event: NewEvent) -> Result<NewEvent, InputError> {
    event.check(&Limits::default())?;
    Ok(event)
}

pub(crate) fn apply_change(tree: &mut TaskTree, change: &TaskChange) -> Result<(), TaskError> {
    let id = change.task.as_str();
    if let Some(depends) = &change.depends {
        tree.set_depends(id, depends.clone())?;
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
    if tree.get(id).is_none() {
        return Err(TaskError::Unknown { task: change.task.clone() });
    }
    Ok(())
}

fn apply_status(tree: &mut TaskTree, change: &TaskStatusChange) -> Vec<(TaskId, TaskStatus)> {
    let id = change.task.as_str();
    let follows = tree.set_status(id, change.status);
    // It was checked that the task is there.
    if change.foreign.is_some() {
        let _ = tree.set_foreign(id, change.foreign.clone());
    }
    if change.result.is_some() {
        let _ = tree.set_result(id, Seq::ZERO);
    }
    follows
}
