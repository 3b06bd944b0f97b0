//! `abide completions`: prints shell completions.

use clap_complete::Shell;

use crate::command_output::CommandOutput;
use crate::error::CommandError;

/// Print a script that teaches your shell to complete abide's commands and options
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide completions bash > ~/.local/share/bash-completion/completions/abide
  abide completions zsh > \"${fpath[1]}/_abide\"
  abide completions fish > ~/.config/fish/completions/abide.fish")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) fn run(self, mut whole: clap::Command) -> Result<(), CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut whole, "abide", &mut script);
        let mut out = CommandOutput::stdout();
        out.bytes(&script)?;
        out.flush()
    }
}
