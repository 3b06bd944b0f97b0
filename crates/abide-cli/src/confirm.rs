//! Asking before something is deleted.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::error::CommandError;
use crate::output::status;

/// Asks on the terminal. Without one, only a `--yes` that was given counts.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), CommandError> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CommandError::failed("there is no terminal to ask on, and nothing was done")
            .with_hint("`--yes` does it without asking, `--dry-run` only shows it"));
    }
    let _ = write!(io::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    status("Nothing was done");
    Err(CommandError::Cancelled)
}
