//! How the proxy is to go.

use std::path::PathBuf;
use std::time::Duration;

/// When the files of the workspace are kept, so that one can go back to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckpointWhen {
    /// At each prompt.
    #[default]
    Turn,
    /// Never.
    Off,
}

/// How the proxy is to go.
#[derive(Debug, Clone)]
pub struct ProxyOptions {
    /// The store of all sessions; where none is named, each is in the store of its directory.
    pub store: Option<PathBuf>,
    /// When the files of the workspace are kept.
    pub checkpoint: CheckpointWhen,
    /// The agent's program and its arguments.
    pub command: Vec<String>,
    /// So long the agent has for an answer, prompts and logins left aside.
    pub timeout: Duration,
    /// So long an agent may take to end a prompt that was cancelled.
    pub cancel_grace: Duration,
}

impl ProxyOptions {
    /// For this agent, with the defaults.
    #[must_use]
    pub fn new(command: Vec<String>) -> Self {
        Self {
            store: None,
            checkpoint: CheckpointWhen::default(),
            command,
            timeout: Duration::from_secs(300),
            cancel_grace: Duration::from_secs(10),
        }
    }
}
