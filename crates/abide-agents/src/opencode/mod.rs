//! opencode. It prints text.

mod invocation;
#[cfg(test)]
mod tests;

use crate::command;
use crate::invocation::AgentProgram;
use crate::limits::LimitTexts;
use crate::profile::{AgentProfile, Output};

pub(crate) static PROFILE: AgentProfile = AgentProfile {
    name: "opencode",
    programs: &[AgentProgram::named("opencode"), AgentProgram::named("opencode-ai")],
    prints_events: |_| false,
    resume: |_, _| None,
    prompt: invocation::prompt,
    input: invocation::input,
    output: Output::Text(command::text_output),
    reports_exit: false,
    limits: LimitTexts::NONE,
};
