//! `abide save`, `abide saves`, `abide diff`, and `abide checkpoint` with all that can be asked of
//! checkpoints.

mod cat;
mod create;
mod diff;
mod every;
mod files;
mod list;
mod show;
mod summary;

pub(crate) use create::SaveArgs;
pub(crate) use diff::DiffArgs;
pub(crate) use list::SavesArgs;

use crate::command_context::CommandContext;
use crate::error::CommandError;

/// Make, list and compare checkpoints
#[derive(Debug, clap::Args)]
pub(crate) struct CheckpointArgs {
    #[command(subcommand)]
    command: CheckpointSubcommand,
}

#[derive(Debug, clap::Subcommand)]
enum CheckpointSubcommand {
    Create(create::CheckpointCreateArgs),
    Every(every::CheckpointEveryArgs),
    List(list::CheckpointListArgs),
    Show(show::CheckpointShowArgs),
    Summary(summary::CheckpointSummaryArgs),
    Diff(diff::CheckpointDiffArgs),
    Files(files::CheckpointFilesArgs),
    Cat(cat::CheckpointCatArgs),
}

impl CheckpointArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        match self.command {
            CheckpointSubcommand::Create(create) => create.run(surroundings),
            CheckpointSubcommand::Every(every) => every.run(surroundings),
            CheckpointSubcommand::List(list) => list.run(surroundings),
            CheckpointSubcommand::Show(show) => show.run(surroundings),
            CheckpointSubcommand::Summary(summary) => summary.run(surroundings),
            CheckpointSubcommand::Diff(diff) => diff.run(surroundings),
            CheckpointSubcommand::Files(files) => files.run(surroundings),
            CheckpointSubcommand::Cat(cat) => cat.run(surroundings),
        }
    }
}
