//! `abide tasks`: shows and changes the tasks of a session.

mod add;
mod depend;
mod document;
mod export;
mod format;
mod import;
mod list;
mod set;
mod show;
mod writing;

use crate::command_context::CommandContext;
use crate::error::CommandError;

/// Show and change the tasks of a session
///
/// Without a command, the tasks are shown as a tree in the order in which they will be done: by
/// priority, then by creation. `[ ]` is planned, `[~]` in progress, `[x]` complete, `[!]` failed,
/// `[#]` blocked, `[-]` obsolete.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  abide tasks                            the tree
  abide tasks --ready                    tasks that can be started now
  abide tasks --scope P1.M2 --status failed
  abide tasks show P1.M2                 everything about one task
  abide tasks add \"Write the parser\" --parent P1.M1 --depends P1.M1.T1
  abide tasks set P1.M1.T2 complete --result '{\"commit\":\"1a2b3c\"}'
  abide tasks set P1.T1=complete P1.T2=obsolete
  abide tasks depend P1.T3 --on P1.T2 --soft P1.T1
  abide tasks import plan.md --dry-run   what an import would change
  abide tasks export --format markdown"
)]
pub(crate) struct TasksArgs {
    #[command(subcommand)]
    command: Option<TasksSubcommand>,
    #[command(flatten)]
    list: list::TasksListArgs,
}

#[derive(Debug, clap::Subcommand)]
enum TasksSubcommand {
    Add(add::TasksAddArgs),
    Set(set::TasksSetArgs),
    Depend(depend::TasksDependArgs),
    Show(show::TasksShowArgs),
    Document(document::TasksDocumentArgs),
    Import(import::TasksImportArgs),
    Export(export::TasksExportArgs),
}

impl TasksArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        match self.command {
            None => self.list.run(surroundings),
            Some(TasksSubcommand::Add(add)) => add.run(surroundings),
            Some(TasksSubcommand::Set(set)) => set.run(surroundings),
            Some(TasksSubcommand::Depend(depend)) => depend.run(surroundings),
            Some(TasksSubcommand::Show(show)) => show.run(surroundings),
            Some(TasksSubcommand::Document(document)) => document.run(surroundings),
            Some(TasksSubcommand::Import(import)) => import.run(surroundings),
            Some(TasksSubcommand::Export(export)) => export.run(surroundings),
        }
    }
}
