//! `abide pause`: keeps hooks of agents from recording for a while.

use std::time::Duration;

use abide_hooks::HookInbox;
use abide_transcript::format_duration;

use crate::command_context::CommandContext;
use crate::command_output::status;
use crate::duration::duration;
use crate::error::CommandError;

/// Record nothing of your agents for a while
///
/// Agents that `abide enable` put abide into are not recorded, and no checkpoints of their files are made,
/// until the time is over or `abide pause --end`. For one agent alone, start it with the variable ABIDE=off.
/// What an agent writes to its own file meanwhile is imported when the same session is recorded again.
/// `abide run`, `abide record` and `abide save` work all the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide pause                until `abide pause --end`
  abide pause 2h
  ABIDE=off AGENT            start one agent without being recorded")]
pub(crate) struct PauseArgs {
    /// How long (30m, 2h, 1d) [default: until it is ended]
    #[arg(value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
    /// Record again
    #[arg(long, conflicts_with = "length")]
    end: bool,
}

impl PauseArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_import_store()?;
        let root = opened.store.files("a pause")?.root().to_owned();
        let inbox = HookInbox::of_store(&root);
        if self.end {
            let was_paused = inbox.resume().map_err(CommandError::because)?;
            status(if was_paused { "Agents are recorded again" } else { "Nothing was paused" });
            return Ok(());
        }
        inbox.pause(self.length).map_err(CommandError::because)?;
        let until = match self.length {
            Some(length) => format!("for {}", format_duration(length)),
            None => "until `abide pause --end`".to_owned(),
        };
        status(format_args!("Agents are not recorded {until}"));
        Ok(())
    }
}
