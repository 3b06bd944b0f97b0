//! Facts about runs: an agent, taken through its tasks under supervision.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::fact::SessionStatus;

/// `run.started`: with what it needs to go on later.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunStart {
    /// The agent's command and its arguments, as they were given.
    pub command: Vec<String>,
    /// The directory that it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// How its output is read: the name of a kind of agent, or `text` for any other command.
    #[serde(default)]
    pub adapter: String,
    /// Each task is told to the agent; otherwise the command itself is the task.
    #[serde(default)]
    pub planned: bool,
    /// How it is run, in the words of whoever runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Box<RawValue>>,
}

/// `run.finished`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunEnd {
    /// How.
    pub status: SessionStatus,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What came of it, in figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Box<RawValue>>,
}

/// `agent.observed`: what an agent says of itself. Its task is that of the event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentObservation {
    /// Its own name for the session that it works in, by which it can be resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Which agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Which model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}
