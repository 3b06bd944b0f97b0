//! What is about to be done to an agent, step by step.

use std::fmt;
use std::path::PathBuf;

use abide_agents::{AgentKind, PluginParts, PluginSite};

use super::agent_program::shown_command;

/// What is to be done to put a plugin into an agent, or to take it out.
#[derive(Debug)]
pub struct PluginPlan {
    /// The agent.
    pub agent: AgentKind,
    /// The steps, in order; none where there is nothing to do.
    pub steps: Vec<PluginStep>,
    pub(super) goal: PluginGoal,
    pub(super) site: PluginSite,
    pub(super) parts: PluginParts,
    /// The agent's program, if it is there.
    pub(super) program: Option<PathBuf>,
}

/// What a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PluginGoal {
    Enable,
    Disable,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginStep {
    /// Writes a file.
    Write(PathBuf),
    /// Runs a command of the agent's.
    Run {
        /// The agent's program.
        program: PathBuf,
        /// Its arguments.
        arguments: Vec<String>,
    },
    /// Removes a file, a directory or a setting.
    Remove(String),
}

impl fmt::Display for PluginStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(path) => write!(out, "write {}", path.display()),
            Self::Run { program, arguments } => {
                write!(out, "run `{}`", shown_command(program, arguments))
            }
            Self::Remove(what) => write!(out, "remove {what}"),
        }
    }
}
