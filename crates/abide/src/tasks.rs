//! A session's tasks, to be changed in batches.
//!
//! What is asked for is checked against the tree at once and refused when it is illegal; what is
//! taken in is recorded by [`Tasks::flush`], many changes in one durable write. Until that has
//! succeeded everything is kept, each event with a key of its own, so that it can be written again
//! without being recorded twice.

use std::sync::Arc;

use abide_model::{
    Acknowledged, AppendError, Durability, Fact, InputError, Kind, Limits, NewEvent, OddEvents,
    Seq, TaskChange, TaskCreated, TaskError, TaskId, TaskStatus, TaskStatusChange, TaskTree,
};

use crate::{Error, Session, SessionView};

/// The most events in one write. Fewer than the keys that a session remembers, so that what a
/// failed write left behind is known again.
const MOST: usize = 8192;

/// What a pending event was asked for as.
#[derive(Debug, Clone)]
enum Wish {
    Create(TaskCreated),
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

/// What was not recorded when the session was let go.
#[derive(Debug, Clone)]
pub struct PendingTasks(Vec<Waiting>);

/// What a flush wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Flushed {
    /// How many events.
    pub items: u64,
    /// How many writes fewer than with one for each.
    pub writes_saved: u64,
}

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
        let id = task.task.clone();
        let event = checked(NewEvent::try_from(task.clone())?.for_task(id.as_str()))?;
        let follows = self.tree.insert(&task)?;
        self.push(event, Wish::Create(task));
        self.push_follows(follows)
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

    /// Records all that is pending, in one durable write. Where that fails everything that is not
    /// known to be durable is kept, and the next flush tries again; a session whose writer has
    /// stopped must be opened anew first, see [`Tasks::into_pending`]. Only an event that can never be
    /// recorded is let go; the error names it.
    pub fn flush(&mut self) -> Result<Flushed, Error> {
        let mut flushed = Flushed::default();
        while !self.pending.is_empty() {
            let count = self.pending.len().min(MOST);
            let events = self.pending.iter().take(count).map(|waiting| waiting.event.clone());
            let written = self
                .session
                .append_with(events.collect(), Durability::Synced, OddEvents::Keep)
                .and_then(|ticket| Ok(ticket.wait()?));
            let written = written.inspect_err(|error| self.drop_refused(error))?;
            for (waiting, done) in self.pending.drain(..count).zip(written) {
                place(&mut self.tree, &waiting.wish, done);
            }
            flushed.items += count as u64;
            flushed.writes_saved += count as u64 - 1;
        }
        if std::mem::take(&mut self.stale) {
            self.refresh()?;
        }
        Ok(flushed)
    }

    /// Reads the session's tasks anew, when others wrote to it. What is pending is kept on top where
    /// it is still legal; gives why for what is let go.
    pub fn refresh(&mut self) -> Result<Vec<TaskError>, Error> {
        let state = self.session.state()?;
        self.tree = TaskTree::of(&state.tasks);
        let mut refused = Vec::new();
        for Waiting { event, wish } in std::mem::take(&mut self.pending) {
            // What a failed write left behind is in the tree already.
            if event.key.as_deref().is_some_and(|key| state.key(key).is_some()) {
                continue;
            }
            let follows = match &wish {
                Wish::Create(created) => self.tree.insert(created),
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

    /// An event that no session takes would be in the way of all others.
    fn drop_refused(&mut self, error: &Error) {
        if let Error::Append(AppendError::Input { index, .. }) = error
            && *index < self.pending.len()
        {
            self.pending.remove(*index);
        }
    }
}

impl SessionView {
    /// The tasks as of the last event that can be read.
    pub fn tasks(&self) -> Result<TaskTree, Error> {
        Ok(TaskTree::of(&self.state()?.tasks))
    }
}

/// What no session takes is refused before the tree takes it in.
fn checked(event: NewEvent) -> Result<NewEvent, InputError> {
    event.check(&Limits::default())?;
    Ok(event)
}

fn apply_change(tree: &mut TaskTree, change: &TaskChange) -> Result<(), TaskError> {
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

/// Notes where a fact was recorded. A task that is gone by now needs no note.
fn place(tree: &mut TaskTree, wish: &Wish, done: Acknowledged) {
    let seq = done.seq;
    let _ = match wish {
        Wish::Create(created) => {
            let id = created.task.as_str();
            tree.set_created(id, seq).and_then(|()| {
                if created.details.is_some() {
                    tree.set_details(id, seq)?;
                }
                if created.documents.is_empty() {
                    return Ok(());
                }
                tree.set_documents(id, Some(seq))
            })
        }
        Wish::Change(change) => {
            let id = change.task.as_str();
            let details = if change.details.is_some() { tree.set_details(id, seq) } else { Ok(()) };
            details.and_then(|()| match &change.documents {
                Some(documents) => tree.set_documents(id, (!documents.is_empty()).then_some(seq)),
                None => Ok(()),
            })
        }
        Wish::Set(change) if change.result.is_some() => tree.set_result(change.task.as_str(), seq),
        Wish::Set(_) | Wish::Follow | Wish::Other => Ok(()),
    };
}
