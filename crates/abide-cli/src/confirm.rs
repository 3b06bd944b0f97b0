//! Asking before something is deleted, or obeyed that somebody else wrote.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::error::CommandError;
use crate::output::status;

/// How often it is looked whether the user would rather end it.
const PAUSE: Duration = Duration::from_millis(50);

/// Asks on the terminal. Without one, only a `--yes` that was given counts. Where Ctrl-C only sets
/// a flag, that flag means no.
pub(crate) fn confirm(
    question: &str,
    yes: bool,
    interrupted: Option<&AtomicBool>,
) -> Result<(), CommandError> {
    let interrupted = || interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed));
    if interrupted() {
        return refused();
    }
    if yes {
        return Ok(());
    }
    if !on_terminal() {
        return Err(CommandError::failed("there is no terminal to ask on, and nothing was done")
            .with_hint("`--yes` does it without asking, `--dry-run` only shows it"));
    }
    let _ = write!(io::stderr(), "{question} [y/N] ");
    // A read goes on after a signal. So it has a thread, which a process that ends leaves behind.
    let (sender, answers) = channel();
    std::thread::spawn(move || {
        let mut answer = String::new();
        let _ = sender.send(io::stdin().read_line(&mut answer).map(|_| answer));
    });
    let answer = loop {
        match answers.recv_timeout(PAUSE) {
            Ok(answer) => break answer?,
            Err(RecvTimeoutError::Timeout) if !interrupted() => {}
            Err(_) => {
                let _ = writeln!(io::stderr());
                return refused();
            }
        }
    };
    if !interrupted() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    refused()
}

/// Is there somebody to ask?
pub(crate) fn on_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn refused() -> Result<(), CommandError> {
    status("Nothing was done");
    Err(CommandError::Cancelled)
}
