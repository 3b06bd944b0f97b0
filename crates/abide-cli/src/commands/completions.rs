//! `abide completions`: prints the script by which a shell asks abide for completions.

use clap_complete::env::Shells;

use crate::command_output::CommandOutput;
use crate::completion_candidates::COMPLETION_VARIABLE;
use crate::error::CommandError;

/// Print the completion script for your shell
///
/// The script calls abide, which completes sessions and checkpoints too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide completions bash > ~/.local/share/bash-completion/completions/abide
  abide completions zsh > \"${fpath[1]}/_abide\"
  abide completions fish > ~/.config/fish/completions/abide.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

impl CompletionsArgs {
    pub(crate) fn run(self) -> Result<(), CommandError> {
        let shells = Shells::builtins();
        let Some(shell) = shells.completer(&self.shell) else {
            return Err(CommandError::Usage(format!("no completions for {}", self.shell)));
        };
        let mut script = Vec::new();
        shell.write_registration(COMPLETION_VARIABLE, "abide", "abide", "abide", &mut script)?;
        let mut out = CommandOutput::stdout();
        out.bytes(&script)?;
        out.flush()
    }
}
