//! `abide checkpoint`: creates, lists and compares checkpoints.

mod create;
mod diff;
mod every;
mod list;
mod show;
mod summary;

use crate::error::CommandError;
use crate::store::Surroundings;

/// Make, list and compare checkpoints: places in a session to go back to, files and all
#[derive(Debug, clap::Args)]
pub(crate) struct Checkpoint {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Create(create::Create),
    Every(every::Every),
    List(list::List),
    Show(show::Show),
    Summary(summary::Summary),
    Diff(diff::Diff),
}

impl Checkpoint {
    pub(crate) fn run(self, surroundings: &Surroundings) -> Result<(), CommandError> {
        match self.command {
            Command::Create(create) => create.run(surroundings),
            Command::Every(every) => every.run(surroundings),
            Command::List(list) => list.run(surroundings),
            Command::Show(show) => show.run(surroundings),
            Command::Summary(summary) => summary.run(surroundings),
            Command::Diff(diff) => diff.run(surroundings),
        }
    }
}
