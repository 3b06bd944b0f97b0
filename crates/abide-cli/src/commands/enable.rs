//! `abide enable`: puts abide into the agents that a person uses.

use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::plugin_changes::{HookTrustChoice, PluginChange, PluginChangeArgs};

/// Record every session of your agents from now on, however they start
///
/// abide puts a plugin of its own into each agent, by the agent's own commands where it has some. From
/// then on every session is recorded, with the files as they were before and after each turn. Hooks and
/// settings of others are left as they are. What is written and run is shown first. `abide disable` takes
/// it all out again.
///
/// Some agents run hooks only if you trust them. You are asked for each of these agents, with the commands
/// that it would run; --yes does not answer that, --trust does.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide enable                 every agent that is installed
  abide enable --dry-run       only show what would be done
  abide enable --project       only for this project, where the agent can
  abide doctor                 whether it works, agent by agent")]
pub(crate) struct EnableArgs {
    #[command(flatten)]
    change: PluginChangeArgs,
    /// Trust the hooks without being asked, in agents that need it
    #[arg(long)]
    trust: bool,
}

impl EnableArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let trust = if self.trust { HookTrustChoice::Given } else { HookTrustChoice::Asked };
        self.change.run(PluginChange::Enable(trust), surroundings)
    }
}
