//! Facts about runs: an agent works through its tasks under supervision.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::fact::SessionStatus;

/// `run.started`: includes what it takes to resume the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunStart {
    /// The agent's command and arguments, as given.
    pub command: Vec<String>,
    /// Its working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// How its output is read: the name of a kind of agent, or `text` for any other command.
    #[serde(default)]
    pub adapter: String,
    /// The agent is prompted with each task. Otherwise the command itself is the task.
    #[serde(default)]
    pub planned: bool,
    /// The agent is prompted with the conversation, and no task is recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub conversation: bool,
    /// The options of the run, in the runner's own form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Box<RawValue>>,
}

/// `run.finished`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunEnd {
    /// The final status.
    pub status: SessionStatus,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Figures about the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Box<RawValue>>,
}

/// `agent.observed`: what an agent reports about itself. The task is that of the event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentObservation {
    /// The agent's own session id, with which it can be resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}
