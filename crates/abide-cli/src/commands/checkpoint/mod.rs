//! `abide checkpoint`: creates, lists and compares checkpoints.

mod cat;
mod create;
mod diff;
mod every;
mod files;
mod list;
mod show;
mod summary;

use abide::{
    SessionView,
    backend::Objects,
    checkpoint::{CheckpointEntry, Snapshot},
};

use crate::context::CommandContext;
use crate::error::CommandError;

/// Make, list and compare checkpoints: places in a session to go back to, files and all
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

/// The checkpoint with this number, label or id; without a name the newest.
fn find_checkpoint(
    view: &SessionView,
    name: Option<&str>,
) -> Result<CheckpointEntry, CommandError> {
    let all = view.all_checkpoints()?;
    let entry = match name {
        Some(name) => {
            let at = view.resolve(name)?;
            all.into_iter().find(|entry| entry.seq == at.seq)
        }
        None => all.into_iter().rfind(|entry| entry.live && !entry.thinned),
    };
    entry.ok_or_else(|| {
        CommandError::failed("there is no such checkpoint")
            .with_hint("`abide checkpoint list` shows those that there are")
    })
}

/// The snapshot of a checkpoint.
fn snapshot_of(entry: &CheckpointEntry, objects: &dyn Objects) -> Result<Snapshot, CommandError> {
    let number = entry.number;
    let Some(hash) = entry.checkpoint.snapshot else {
        return Err(CommandError::failed(format!("checkpoint {number} was made without files"))
            .with_hint("`abide checkpoint list` shows how many files each has"));
    };
    let bytes = objects.read(hash).map_err(abide::Error::from)?;
    let read = bytes.and_then(|bytes| Snapshot::read(&bytes).ok());
    read.ok_or_else(|| {
        if entry.thinned {
            return CommandError::failed(format!(
                "retention has let the files of checkpoint {number} go"
            ));
        }
        let reason = "it is missing from the store or damaged".to_owned();
        abide::Error::Snapshot { hash, reason }.into()
    })
}
