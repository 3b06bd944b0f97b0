//! Aider. It prints text.

mod invocation;
#[cfg(test)]
mod tests;

use crate::command;
use crate::invocation::AgentProgram;
use crate::limits::LimitTexts;
use crate::profile::{AgentProfile, Output};

pub(crate) static PROFILE: AgentProfile = AgentProfile {
    name: "aider",
    programs: &[AgentProgram::named("aider")],
    prints_events: |_| false,
    event_arguments: None,
    resume: |_, _| None,
    prompt: invocation::prompt,
    input: |_| None,
    output: Output::Text(command::text_output),
    reports_exit: false,
    kept: None,
    hooks: None,
    limits: LimitTexts::NONE,
};
