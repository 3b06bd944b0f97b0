//! Facts about turns: one activation of one agent, or of an arbiter that chooses the next.

use serde::{Deserialize, Serialize};

use crate::{TurnNumber, Usage};

/// Who acts in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnRole {
    /// An agent at work.
    #[default]
    Agent,
    /// An arbiter that chooses the next agent.
    Arbiter,
}

/// `turn.started`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnStart {
    /// Its number; one more than the last where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnNumber>,
    /// Which agent.
    #[serde(default)]
    pub agent: String,
    /// Agent or arbiter.
    #[serde(default)]
    pub role: TurnRole,
}

/// `turn.decided`: whom the arbiter chose, or what else it decided, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ArbiterDecision {
    /// The turn it was decided in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnNumber>,
    /// The agent that is next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
    /// Or another decision: done, abort, ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `turn.finished`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnEnd {
    /// Which turn; the open one of the lane where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnNumber>,
    /// How it ended, in the agent's words.
    #[serde(default)]
    pub status: String,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}
