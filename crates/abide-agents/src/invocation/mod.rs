//! The commands that start agents: which agent it is, and how it goes on in its own session.

pub(crate) mod arguments;
mod program;
mod prompt_input;
mod prompt_slot;

pub(crate) use program::AgentProgram;
pub use prompt_input::PromptInput;
pub use prompt_slot::PromptSlot;

use crate::agent_kind::AgentKind;

/// The agent that this command starts, where it prints events then.
pub(crate) fn detect_invocation(command: &[String]) -> Option<AgentKind> {
    let found = program::find_program(command)?;
    let arguments = command.get(found.arguments..).unwrap_or_default();
    (found.kind.profile().prints_events)(arguments).then_some(found.kind)
}

/// The agent that this command starts, whatever it prints.
pub(crate) fn started(command: &[String]) -> Option<AgentKind> {
    program::find_program(command).map(|found| found.kind)
}

/// The place of the prompt in a command of this agent's.
pub(crate) fn prompt_slot(kind: AgentKind, command: &[String]) -> Option<PromptSlot> {
    let program = program::find_program(command).filter(|program| program.kind == kind)?;
    let (before, arguments) = command.split_at_checked(program.arguments)?;
    Some((kind.profile().prompt)(arguments)?.behind(before))
}

/// What an agent makes of a text on the stdin of this command of its.
pub(crate) fn prompt_input(kind: AgentKind, command: &[String]) -> Option<PromptInput> {
    let program = program::find_program(command).filter(|program| program.kind == kind)?;
    (kind.profile().input)(command.get(program.arguments..)?)
}

pub(crate) fn resume_invocation(
    kind: AgentKind,
    command: &[String],
    session: &str,
) -> Option<Vec<String>> {
    // It was printed by the agent, or by whatever could print in its stead.
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
    let sound = !session.is_empty() && session.len() <= 256 && session.chars().all(plain);
    if !sound || session.starts_with('-') {
        return None;
    }
    let program = program::find_program(command).filter(|program| program.kind == kind)?;
    let (before, arguments) = command.split_at_checked(program.arguments)?;
    let rest = (kind.profile().resume)(arguments, session)?;
    Some([before.to_vec(), rest].concat())
}
