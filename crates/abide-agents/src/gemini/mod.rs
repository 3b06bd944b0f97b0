//! Gemini CLI.

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
    name: "gemini",
    programs: &[AgentProgram::named("gemini"), AgentProgram::named("gemini-cli")],
    prints_events: invocation::gemini_prints_events,
    event_arguments: Some("--output-format stream-json"),
    resume: invocation::resume_gemini,
    prompt: invocation::prompt,
    input: invocation::input,
    output: Output::Events(|before| Box::new(output::GeminiOutput::told(before.prompt))),
    reports_exit: false,
    kept: Some(&kept::KEPT),
    hooks: Some(&hooks::HOOKS),
    limits: limits::TEXTS,
};
