//! `abide project`: tells abide what it cannot see of projects.

use std::path::PathBuf;

use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::error::CommandError;

/// Tell abide that a project has moved
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide project move ~/notes ~/Documents/notes
  abide project move ../old .")]
pub(crate) struct ProjectArgs {
    #[command(subcommand)]
    command: ProjectSubcommand,
}

#[derive(Debug, clap::Subcommand)]
enum ProjectSubcommand {
    Move(ProjectMoveArgs),
}

/// Assign the sessions of one directory to the project of another
///
/// A git repository is identified by its remote and its first commit, so it can be moved, renamed
/// or cloned without this command. A directory without git, or a repository without a commit, is
/// identified by its path: run this command after moving it to keep its sessions, and also if a
/// repository was moved and its remote changed. The sessions themselves are unchanged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mv ~/notes ~/Documents/notes && abide project move ~/notes ~/Documents/notes")]
struct ProjectMoveArgs {
    /// The old path, which need not exist any more
    old: PathBuf,
    /// The new path
    new: PathBuf,
}

impl ProjectArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let ProjectSubcommand::Move(ProjectMoveArgs { old, new }) = self.command;
        let (old, new) = (surroundings.absolute(&old), surroundings.absolute(&new));
        if !new.is_dir() {
            return Err(CommandError::failed(format!("{} is not a directory", new.display()))
                .with_hint("give the old path first, then the new one"));
        }
        let place = surroundings.place_in(&new)?;
        let project = surroundings.projects_of_place(&place).moved(&old, &new)?;
        let mut out = CommandOutput::stdout();
        out.line(format_args!(
            "The sessions of {} now belong to {}",
            escape::text(&old.to_string_lossy()),
            escape::text(&project.name)
        ))?;
        out.flush()
    }
}
