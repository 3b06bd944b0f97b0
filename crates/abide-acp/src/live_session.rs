//! A session that is open between a client and an agent.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use abide::{Seq, context::Compactor};

use crate::acp_recorder::AcpRecorder;
use crate::replay::ReplayCheck;
use crate::rpc_message::RpcRequestId;

/// An open session: the client knows it by one fixed id, the agent by one of its own.
pub(crate) struct LiveSession {
    /// The client's id.
    pub(crate) id: String,
    /// Its working directory.
    pub(crate) directory: PathBuf,
    /// The params of a `session/new` that would make the same session.
    setup: Mutex<String>,
    inner: Mutex<AgentSession>,
    book: Mutex<AcpRecorder>,
    prompts: Mutex<HashMap<RpcRequestId, OpenPrompt>>,
    /// Compacts its context, once a prompt has ended.
    compactor: Mutex<Option<Compactor>>,
}

/// The agent's side of a session.
#[derive(Debug, Default)]
pub(crate) struct AgentSession {
    /// The agent's id; `None` if the agent does not know the session yet.
    pub(crate) id: Option<String>,
    /// How the agent's updates are handled.
    pub(crate) updates: UpdateHandling,
    /// What the agent does not know yet; sent with the next prompt.
    pub(crate) prime: PrimeScope,
    /// The agent's id is recorded. It must not be before the agent knows the session.
    pub(crate) observed: bool,
    /// When the agent last replayed something.
    pub(crate) heard: Option<Instant>,
}

/// How the agent's updates are handled.
#[derive(Debug, Default)]
pub(crate) enum UpdateHandling {
    /// New: recorded and forwarded.
    #[default]
    News,
    /// A replay the client should see: compared with the record and forwarded.
    Shown(Box<ReplayCheck>),
    /// A replay the client already knows: compared with the record only.
    Hidden(Box<ReplayCheck>),
}

/// How much of a session the agent must be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PrimeScope {
    /// Nothing; it knows everything.
    #[default]
    Nothing,
    /// Everything.
    All,
    /// Everything from this event on.
    Since(Seq),
}

/// A prompt without an answer so far.
#[derive(Debug, Default)]
pub(crate) struct OpenPrompt {
    /// It was sent to the agent.
    pub(crate) sent: bool,
    /// The client cancelled it. Also cancels the checkpoint that is being made for it.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// The client's cancellation, for an agent that does not have the prompt yet.
    pub(crate) cancel: Option<String>,
}

fn lock_live_state<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LiveSession {
    pub(crate) fn new(id: String, directory: PathBuf, setup: String, book: AcpRecorder) -> Self {
        Self {
            id,
            directory,
            setup: Mutex::new(setup),
            inner: Mutex::default(),
            book: Mutex::new(book),
            prompts: Mutex::default(),
            compactor: Mutex::default(),
        }
    }

    pub(crate) fn setup(&self) -> MutexGuard<'_, String> {
        lock_live_state(&self.setup)
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, AgentSession> {
        lock_live_state(&self.inner)
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, AcpRecorder> {
        lock_live_state(&self.book)
    }

    /// A comparison of what the agent replays with what is recorded here.
    pub(crate) fn replay_check(&self) -> Box<ReplayCheck> {
        let session = self.book().session().cloned();
        let redactor = session.and_then(|session| session.redactor().cloned());
        Box::new(ReplayCheck::redacted_by(redactor))
    }

    pub(crate) fn compactor(&self) -> MutexGuard<'_, Option<Compactor>> {
        lock_live_state(&self.compactor)
    }

    pub(crate) fn prompts(&self) -> MutexGuard<'_, HashMap<RpcRequestId, OpenPrompt>> {
        lock_live_state(&self.prompts)
    }
}
