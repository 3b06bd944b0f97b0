//! Facts about turns. A turn is one activation of an agent, or of an arbiter that chooses the next
//! agent.

use serde::{Deserialize, Serialize};

use crate::{TurnNumber, Usage};

/// Who acts in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnRole {
    /// An agent that works.
    #[default]
    Agent,
    /// An arbiter that chooses the next agent.
    Arbiter,
}

/// `turn.started`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnStart {
    /// Its number; by default one more than the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnNumber>,
    /// The agent.
    #[serde(default)]
    pub agent: String,
    /// Agent or arbiter.
    #[serde(default)]
    pub role: TurnRole,
}

/// `turn.decided`: what the arbiter decided and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ArbiterDecision {
    /// The turn of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnNumber>,
    /// The next agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
    /// Another decision: done, abort, ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `turn.finished`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnEnd {
    /// The turn; by default the open turn of the lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnNumber>,
    /// How it ended, in the agent's words.
    #[serde(default)]
    pub status: String,
    /// Its usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}
