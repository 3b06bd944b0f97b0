//! The agents that are known.

use crate::profile::AgentProfile;
use crate::{aider, claude, codex, command, gemini, opencode};

/// Every agent, in the order in which they are listed; the plain command is the last.
pub(crate) static PROFILES: &[&AgentProfile] = &[
    &claude::PROFILE,
    &codex::PROFILE,
    &gemini::PROFILE,
    &opencode::PROFILE,
    &aider::PROFILE,
    &command::PROFILE,
];
