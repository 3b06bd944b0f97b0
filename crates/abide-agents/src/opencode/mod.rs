//! opencode.

mod hooks;
mod invocation;
mod kept;
mod limits;
mod output;
#[cfg(test)]
mod tests;

use crate::invocation::AgentProgram;
use crate::profile::{AgentProfile, Output};

pub(crate) static PROFILE: AgentProfile = AgentProfile {
    name: "opencode",
    programs: &[AgentProgram::named("opencode"), AgentProgram::named("opencode-ai")],
    prints_events: invocation::opencode_prints_events,
    event_arguments: Some("run --format json"),
    resume: invocation::resume_opencode,
    prompt: invocation::prompt,
    input: invocation::input,
    output: Output::Events(|_| Box::<output::OpencodeOutput>::default()),
    reports_exit: true,
    kept: Some(&kept::KEPT),
    hooks: Some(&hooks::HOOKS),
    limits: limits::TEXTS,
};
