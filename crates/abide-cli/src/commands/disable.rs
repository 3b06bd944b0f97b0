//! `abide disable`: takes abide out of agents.

use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::plugin_changes::{PluginChange, PluginChangeArgs};

/// Take abide out of your agents again
///
/// Everything that `abide enable` put there is removed, with what the agents' own removal leaves behind.
/// Hooks and settings of others are left as they are, and so is what was recorded. It also finishes what
/// was interrupted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide disable                every agent
  abide disable --dry-run      only show what would be done
  abide disable --project      only this project's settings")]
pub(crate) struct DisableArgs {
    #[command(flatten)]
    change: PluginChangeArgs,
}

impl DisableArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        self.change.run(PluginChange::Disable, surroundings)
    }
}
