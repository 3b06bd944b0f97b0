//! A session that is open between a client and an agent.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use abide::Seq;

use crate::book::Book;
use crate::message::RequestId;
use crate::replay::Check;

/// One session: the client knows it by one id for ever, the agent by one of its own.
pub(crate) struct Live {
    /// The client's id for it.
    pub(crate) id: String,
    /// Its directory.
    pub(crate) directory: PathBuf,
    /// The params of a `session/new` that would make one like it.
    setup: Mutex<String>,
    inner: Mutex<Inner>,
    book: Mutex<Book>,
    prompts: Mutex<HashMap<RequestId, Prompt>>,
}

/// How the agent knows a session.
#[derive(Debug, Default)]
pub(crate) struct Inner {
    /// Its id for it; none where it must be told of it first.
    pub(crate) id: Option<String>,
    /// What its updates are.
    pub(crate) updates: Updates,
    /// What it does not know yet and is told with the next prompt.
    pub(crate) prime: Prime,
    /// The record knows its id. It must not before the agent knows the session.
    pub(crate) observed: bool,
    /// When it last replayed something.
    pub(crate) heard: Option<Instant>,
}

/// What the updates of an agent are.
#[derive(Debug, Default)]
pub(crate) enum Updates {
    /// News: recorded and passed on.
    #[default]
    News,
    /// What is recorded already, for the client to see: compared and passed on.
    Shown(Box<Check>),
    /// What is recorded already and the client knows: compared.
    Hidden(Box<Check>),
}

/// What an agent must be told of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Prime {
    /// It knows everything.
    #[default]
    Nothing,
    /// Everything.
    All,
    /// What is recorded from this event on.
    Since(Seq),
}

/// A prompt that is not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Prompt {
    /// The agent has it.
    pub(crate) sent: bool,
    /// The client does not want it any more. Ends the checkpoint that is being made for it.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// What the client said so with, for an agent that does not have it yet.
    pub(crate) cancel: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    pub(crate) fn new(id: String, directory: PathBuf, setup: String, book: Book) -> Self {
        Self {
            id,
            directory,
            setup: Mutex::new(setup),
            inner: Mutex::default(),
            book: Mutex::new(book),
            prompts: Mutex::default(),
        }
    }

    pub(crate) fn setup(&self) -> MutexGuard<'_, String> {
        lock(&self.setup)
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    pub(crate) fn prompts(&self) -> MutexGuard<'_, HashMap<RequestId, Prompt>> {
        lock(&self.prompts)
    }
}
