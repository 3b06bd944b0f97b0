//! Refuses an agent whose program is not there, before a session or a store is made for it.

use std::path::Path;

use abide::locate::near_names;
use abide_runner::{AgentKind, RunError, check_agent_program};

use super::configured::own_run_config;
use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::shell_word::shell_quoted;

/// Refuses a command whose program is not there, with a tip what may be meant.
pub(crate) fn check_program(
    command: &[String],
    directory: &Path,
    surroundings: &CommandContext,
) -> Result<(), CommandError> {
    match check_agent_program(command, directory) {
        Err(error @ RunError::Start { .. }) => {
            let tip = command.first().and_then(|program| program_tip(program, surroundings));
            let error = CommandError::because(error);
            Err(error.with_hint(tip.unwrap_or_else(|| {
                "is it installed, and on the PATH? Nothing was started or recorded".to_owned()
            })))
        }
        checked => Ok(checked?),
    }
}

/// What may be meant by the name of a program that is not there.
fn program_tip(program: &str, surroundings: &CommandContext) -> Option<String> {
    if program.split_whitespace().count() > 1 {
        let prompt = shell_quoted(program);
        return Some(format!("the agent's program comes first: abide run AGENT -p {prompt}"));
    }
    let config = own_run_config(surroundings).unwrap_or_default();
    if config.agents.contains_key(program) {
        return Some(format!(
            "your configuration defines an agent of this name: abide run --agent {program}"
        ));
    }
    let known = AgentKind::all()
        .map(AgentKind::as_str)
        .filter(|name| AgentKind::started_by(&[(*name).to_owned()]).is_some() && *name != program);
    let near = near_names(program, known);
    near.first().map(|near| format!("did you mean `{near}`?"))
}
