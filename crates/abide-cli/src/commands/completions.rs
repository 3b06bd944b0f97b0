//! `abide completions`: prints shell completions.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::error::CommandError;
use crate::output::Output;

/// Print a script that teaches your shell to complete abide's commands and options
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide completions bash > ~/.local/share/bash-completion/completions/abide
  abide completions zsh > \"${fpath[1]}/_abide\"
  abide completions fish > ~/.config/fish/completions/abide.fish")]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), CommandError> {
        let mut script = Vec::new();
        let mut command = crate::Arguments::command();
        clap_complete::generate(self.shell, &mut command, "abide", &mut script);
        let mut out = Output::stdout();
        out.bytes(&script)?;
        out.flush()
    }
}
