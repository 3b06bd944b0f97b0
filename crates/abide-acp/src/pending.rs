//! Requests that are under way, and what is to be done with their answers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use crate::deadlines::Deadline;
use crate::live::Live;
use crate::message::{Outcome, RequestId};
use crate::worker::Worker;

/// A client's request that the agent has.
pub(crate) struct Pending {
    /// What it was.
    pub(crate) method: String,
    /// What its answer is for.
    pub(crate) purpose: Purpose,
    /// When it is given up.
    pub(crate) deadline: Option<Deadline>,
}

/// What the answer to a client's request is for.
pub(crate) enum Purpose {
    /// `initialize`.
    Greet,
    /// `authenticate`, with its params.
    Authenticate(String),
    /// `session/new`, with its params.
    Open(String),
    /// `session/fork` of a session, with its params.
    Fork(String, String),
    /// `session/load` of a session that is recorded.
    Load(Arc<Live>),
    /// `session/resume` of one.
    Resume(Arc<Live>),
    /// `session/load` or `resume` of one that only the agent knows so far.
    Adopt(Arc<Live>),
    /// `session/prompt`.
    Prompt(Arc<Live>),
    /// A mode or an option is set: the method and its params.
    Configure(Arc<Live>, String, String),
    /// `session/list`.
    List,
    /// `session/close`.
    Close(String),
    /// `session/delete`: the directory is not told.
    Delete(String),
    /// Anything else.
    Other,
}

/// A request of our own that the agent has.
pub(crate) struct Own {
    /// Who waits for the answer.
    pub(crate) answer: SyncSender<Outcome<String>>,
    /// The session that the agent's new one is for: what it says in it right behind its answer is
    /// this session's.
    pub(crate) opens: Option<Arc<Live>>,
}

/// An agent's request that the client has.
pub(crate) struct Asked {
    /// The agent's id for it, as it wrote it.
    pub(crate) id: String,
    /// The session.
    pub(crate) live: Option<Arc<Live>>,
}

/// Everything that is under way.
#[derive(Default)]
pub(crate) struct Table {
    /// The client's requests at the agent.
    pub(crate) pending: HashMap<RequestId, Pending>,
    /// The agent's requests at the client, by the id that the client knows.
    pub(crate) asked: HashMap<RequestId, Asked>,
    /// Ids of an agent that is gone, which the client may still answer.
    pub(crate) stale: Few,
    /// Our own requests at the agent.
    pub(crate) own: HashMap<RequestId, Own>,
    /// Requests that were given up: their answers are for nobody.
    pub(crate) given_up: Few,
    /// The open sessions by the client's ids.
    pub(crate) sessions: HashMap<String, Arc<Live>>,
    /// The open sessions by the agent's ids.
    pub(crate) inner: HashMap<String, Arc<Live>>,
    /// Sessions of subagents by the agent's ids: whose lane they are.
    pub(crate) children: HashMap<String, Arc<Live>>,
    /// Who takes what concerns a session.
    pub(crate) workers: HashMap<String, Arc<Worker>>,
}

/// The last ids of many.
#[derive(Debug, Default)]
pub(crate) struct Few(VecDeque<RequestId>);

impl Few {
    const MOST: usize = 4096;

    pub(crate) fn put(&mut self, id: RequestId) {
        if self.0.len() >= Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back(id);
    }

    pub(crate) fn has(&self, id: &RequestId) -> bool {
        self.0.contains(id)
    }

    pub(crate) fn take(&mut self, id: &RequestId) -> bool {
        let place = self.0.iter().position(|one| one == id);
        place.is_some_and(|place| self.0.remove(place).is_some())
    }
}
