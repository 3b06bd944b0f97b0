//! `abide man`: prints manual pages.

use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

use crate::command_context::CommandContext;
use crate::command_output::{CommandOutput, status};
use crate::error::{CommandError, at};

/// Print a manual page, or write all of them
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide man rewind | man -l -
  abide man --all ~/.local/share/man/man1     then `man abide-rewind`")]
pub(crate) struct ManArgs {
    /// The command [default: abide itself]
    #[arg(value_name = "COMMAND", conflicts_with = "all")]
    command: Option<String>,
    /// Write the pages of all commands to this directory, which is created if needed
    #[arg(long, value_name = "DIR")]
    all: Option<PathBuf>,
}

impl ManArgs {
    pub(crate) fn run(
        self,
        surroundings: &CommandContext,
        mut whole: Command,
    ) -> Result<(), CommandError> {
        whole.build();
        if let Some(dir) = &self.all {
            return write_manual(&surroundings.absolute(dir), &whole);
        }
        let page = match &self.command {
            None => manual_page(whole, "abide".to_owned())?,
            Some(name) => {
                let Some(command) = whole.find_subcommand(name) else {
                    let name = abide_transcript::escape::text(name);
                    return Err(CommandError::failed(format!("there is no command `{name}`"))
                        .with_hint("`abide help` lists them"));
                };
                manual_page(command.clone(), format!("abide-{name}"))?
            }
        };
        let mut out = CommandOutput::stdout();
        out.bytes(&page)?;
        out.flush()
    }
}

fn manual_page(command: Command, name: String) -> Result<Vec<u8>, CommandError> {
    let mut page = Vec::new();
    Man::new(command.display_name(name)).render(&mut page)?;
    Ok(page)
}

/// Writes the page of each command that is not hidden.
fn write_manual(dir: &Path, whole: &Command) -> Result<(), CommandError> {
    std::fs::create_dir_all(dir).map_err(at("create", dir))?;
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set());
    let named = shown.map(|command| (command, format!("abide-{}", command.get_name())));
    let mut count = 0;
    for (command, name) in std::iter::once((whole, "abide".to_owned())).chain(named) {
        let file = dir.join(format!("{name}.1"));
        std::fs::write(&file, manual_page(command.clone(), name)?).map_err(at("write", &file))?;
        count += 1;
    }
    status(format_args!("Wrote {count} pages to {}", dir.display()));
    Ok(())
}
