//! Codex.

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
    name: "codex",
    programs: &[AgentProgram::named("codex")],
    prints_events: invocation::codex_prints_events,
    event_arguments: Some("exec --json"),
    resume: invocation::resume_codex,
    prompt: invocation::prompt,
    input: invocation::input,
    output: Output::Events(|before| {
        Box::new(output::CodexOutput::resuming(before.used, before.calls))
    }),
    reports_exit: true,
    kept: Some(&kept::KEPT),
    hooks: Some(&hooks::HOOKS),
    limits: limits::TEXTS,
};
