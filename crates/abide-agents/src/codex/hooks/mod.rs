//! How this agent tells of its work while it works.

mod payload;
mod plugin;
#[cfg(test)]
mod tests;

use crate::AgentHooks;

/// Its hooks.
pub(super) const HOOKS: AgentHooks =
    AgentHooks { reader: payload::read, plugin: plugin::PLUGIN_OF_CODEX };
