//! What agents tell through their hooks while they work, payload by payload. Pure.
//!
//! A reader never fails: a payload that names a session is a [`HookReport`], whatever else is in it.

pub(crate) mod payload_fields;
pub(crate) mod plugin;
pub(crate) mod plugin_template;
mod report_identity;

use std::path::PathBuf;

use abide_model::LaneId;

use self::plugin::AgentPlugin;

/// How an agent tells of its work while it works.
#[derive(Debug)]
pub struct AgentHooks {
    /// Reads the payload of a hook; `None` if it names no session.
    pub reader: fn(payload: &str) -> Option<HookReport>,
    /// How the hooks come into it.
    pub plugin: AgentPlugin,
}

/// What a hook of an agent reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookReport {
    /// The agent's own id of the session.
    pub session: String,
    /// The session that started this one, where a subagent is a session of its own.
    pub parent: Option<String>,
    /// The file in which the agent keeps the session, by its own word. It need not exist.
    pub file: Option<PathBuf>,
    /// The directory that the agent works in.
    pub directory: Option<PathBuf>,
    /// The model.
    pub model: Option<String>,
    /// The subagent that reports; `None` for the agent itself.
    pub lane: Option<LaneId>,
    /// The agent's own id of the turn or of its prompt.
    pub turn: Option<String>,
    /// What happened.
    pub step: HookStep,
}

/// What happened in an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookStep {
    /// A session began or goes on.
    SessionStarted,
    /// A turn begins with a prompt.
    Prompted {
        /// The prompt.
        text: String,
        /// A person wrote it, and not a machine.
        by_person: bool,
    },
    /// A call of a tool has ended.
    CallFinished {
        /// The agent's id of the call.
        call: String,
        /// The tool.
        tool: String,
        /// Its arguments as JSON.
        arguments: String,
        /// What it returned: a text, or else JSON.
        result: String,
        /// It did not fail, as far as is known.
        ok: bool,
    },
    /// The turn is over.
    TurnFinished {
        /// How it ended.
        ending: TurnEnding,
        /// The last message of the agent.
        message: Option<String>,
    },
    /// A subagent is done.
    SubagentFinished {
        /// The file in which the agent keeps the subagent's part, by its own word.
        file: Option<PathBuf>,
    },
    /// The session is over, or no one works in it now.
    SessionEnded,
    /// Anything else.
    Other,
}

/// How a turn of an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnding {
    /// It is done.
    Completed,
    /// A person stopped it.
    Interrupted,
    /// An error ended it.
    Failed,
}
