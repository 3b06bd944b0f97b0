//! Requests without an answer so far, and what to do with the answer.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use crate::deadlines::Deadline;
use crate::line_worker::LineWorker;
use crate::live_session::LiveSession;
use crate::rpc_message::{RpcOutcome, RpcRequestId};

/// A client's request that was sent to the agent.
pub(crate) struct PendingRequest {
    /// Its method.
    pub(crate) method: String,
    /// What its answer is for.
    pub(crate) purpose: Purpose,
    /// When the proxy gives up on it.
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
    /// `session/load` of a recorded session.
    Load(Arc<LiveSession>),
    /// `session/resume` of a recorded session.
    Resume(Arc<LiveSession>),
    /// `session/load` or `session/resume` of a session that only the agent knows so far.
    Adopt(Arc<LiveSession>),
    /// `session/prompt`.
    Prompt(Arc<LiveSession>),
    /// Setting a mode or an option: the method and its params.
    Configure(Arc<LiveSession>, String, String),
    /// `session/list`.
    List,
    /// `session/close`.
    Close(String),
    /// `session/delete`: it carries no directory.
    Delete(String),
    /// Anything else.
    Other,
}

/// A request of the proxy's own that was sent to the agent.
pub(crate) struct OwnRequest {
    /// Who waits for the answer.
    pub(crate) answer: SyncSender<RpcOutcome<String>>,
    /// The session that the agent's new session is for: updates right after the answer belong to
    /// it.
    pub(crate) opens: Option<Arc<LiveSession>>,
}

/// An agent's request that was sent to the client.
pub(crate) struct PendingAgentRequest {
    /// The agent's id of the request, as it was written.
    pub(crate) id: String,
    /// The session it belongs to.
    pub(crate) live: Option<Arc<LiveSession>>,
}

/// Everything that is under way.
#[derive(Default)]
pub(crate) struct RequestTable {
    /// The client's requests to the agent.
    pub(crate) pending: HashMap<RpcRequestId, PendingRequest>,
    /// The agent's requests to the client, by the id that the client knows.
    pub(crate) asked: HashMap<RpcRequestId, PendingAgentRequest>,
    /// Requests of an agent that is gone; the client may still answer them.
    pub(crate) stale: RecentRequestIds,
    /// The proxy's own requests to the agent.
    pub(crate) own: HashMap<RpcRequestId, OwnRequest>,
    /// Requests that were given up; their answers are dropped.
    pub(crate) given_up: RecentRequestIds,
    /// The open sessions, by the client's ids.
    pub(crate) sessions: HashMap<String, Arc<LiveSession>>,
    /// The open sessions, by the agent's ids.
    pub(crate) inner: HashMap<String, Arc<LiveSession>>,
    /// Sessions of subagents by the agent's ids, with the session whose lanes they are.
    pub(crate) children: HashMap<String, Arc<LiveSession>>,
    /// The workers that handle each session's messages.
    pub(crate) workers: HashMap<String, Arc<LineWorker>>,
}

/// The most recent ids.
#[derive(Debug, Default)]
pub(crate) struct RecentRequestIds(VecDeque<RpcRequestId>);

impl RecentRequestIds {
    const MOST: usize = 4096;

    pub(crate) fn put(&mut self, id: RpcRequestId) {
        if self.0.len() >= Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back(id);
    }

    pub(crate) fn has(&self, id: &RpcRequestId) -> bool {
        self.0.contains(id)
    }

    pub(crate) fn take(&mut self, id: &RpcRequestId) -> bool {
        let place = self.0.iter().position(|one| one == id);
        place.is_some_and(|place| self.0.remove(place).is_some())
    }
}
