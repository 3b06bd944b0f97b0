//! Claude Code.

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
    name: "claude",
    programs: &[
        AgentProgram::named("claude"),
        AgentProgram::named("claude-code"),
        AgentProgram::within("/claude-code/", "cli"),
    ],
    prints_events: invocation::claude_prints_events,
    event_arguments: Some("--output-format stream-json --verbose"),
    resume: invocation::resume_claude,
    prompt: invocation::prompt,
    input: invocation::input,
    output: Output::Events(|before| Box::new(output::ClaudeOutput::told(before.prompt))),
    reports_exit: true,
    kept: Some(&kept::KEPT),
    hooks: Some(&hooks::HOOKS),
    limits: limits::TEXTS,
};
