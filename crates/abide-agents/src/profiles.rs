//! The agents that are known.

use crate::profile::AgentProfile;
use crate::{claude, codex, command, gemini};

/// Every agent, in the order in which they are listed; the plain command is the last.
pub(crate) static PROFILES: &[&AgentProfile] =
    &[&claude::PROFILE, &codex::PROFILE, &gemini::PROFILE, &command::PROFILE];
