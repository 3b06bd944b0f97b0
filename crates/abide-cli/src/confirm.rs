//! Asks before something is deleted, or before obeying what somebody else wrote.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::command_output::status;
use crate::error::CommandError;

/// How often to check whether the user cancelled.
const PAUSE: Duration = Duration::from_millis(50);

/// Asks on the terminal. Without one, only `--yes` counts. Where Ctrl-C only sets a flag, the flag
/// means no.
pub(crate) fn confirm(
    question: &str,
    yes: bool,
    interrupted: Option<&AtomicBool>,
) -> Result<(), CommandError> {
    let answer = match begin_confirmation(yes, interrupted)? {
        ConfirmationNeed::Given => return Ok(()),
        ConfirmationNeed::Asked => ask_line(&format!("{question} [y/N] "), interrupted)?,
    };
    if matches!(answer.to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    confirmation_refused()
}

/// Whether a question has to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfirmationNeed {
    /// `--yes` answers it.
    Given,
    /// There is a terminal to ask on.
    Asked,
}

/// Whether to ask: not with `--yes`, and not without a terminal, which is an error.
pub(crate) fn begin_confirmation(
    yes: bool,
    interrupted: Option<&AtomicBool>,
) -> Result<ConfirmationNeed, CommandError> {
    if is_confirmation_interrupted(interrupted) {
        confirmation_refused()?;
    }
    if yes {
        return Ok(ConfirmationNeed::Given);
    }
    if !on_terminal() {
        return Err(CommandError::failed("there is no terminal to ask on; nothing was done")
            .with_hint("`--yes` proceeds without asking, `--dry-run` only shows the plan"));
    }
    Ok(ConfirmationNeed::Asked)
}

/// Reads an answer from the terminal. Where Ctrl-C only sets a flag, it ends the
/// command.
pub(crate) fn ask_line(
    question: &str,
    interrupted: Option<&AtomicBool>,
) -> Result<String, CommandError> {
    let answer = read_answer(question, interrupted, None)?;
    if is_confirmation_interrupted(interrupted) {
        confirmation_refused()?;
    }
    Ok(answer.unwrap_or_default())
}

/// Reads an answer from the terminal; `None` where Ctrl-C set the flag, the input has ended, or
/// nobody answers for so long.
pub(crate) fn read_answer(
    question: &str,
    interrupted: Option<&AtomicBool>,
    wait: Option<Duration>,
) -> Result<Option<String>, CommandError> {
    let until = wait.map(|wait| Instant::now() + wait);
    let _ = write!(io::stderr(), "{question}");
    // A signal does not interrupt the read, so a thread reads; it ends with the process.
    let (sender, answers) = channel();
    std::thread::spawn(move || {
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        let _ = sender.send(read.map(|read| (read > 0).then_some(answer)));
    });
    let answer = loop {
        match answers.recv_timeout(PAUSE) {
            Ok(answer) => break answer?,
            Err(RecvTimeoutError::Timeout)
                if !is_confirmation_interrupted(interrupted)
                    && until.is_none_or(|until| Instant::now() < until) => {}
            Err(_) => {
                let _ = writeln!(io::stderr());
                break None;
            }
        }
    };
    let is_answer = !is_confirmation_interrupted(interrupted);
    Ok(answer.filter(|_| is_answer).map(|answer| answer.trim().to_owned()))
}

/// Is it an answer that means no?
pub(crate) fn is_refusal(answer: &str) -> bool {
    matches!(answer.to_lowercase().as_str(), "n" | "no" | "q" | "quit")
}

fn is_confirmation_interrupted(interrupted: Option<&AtomicBool>) -> bool {
    interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// `--json` without `--yes` or `--dry-run`: there would be no plan to confirm.
pub(crate) fn unconfirmed_json_text() -> String {
    "`--json` shows no plan to confirm; add `--yes`, or `--dry-run` for the plan".to_owned()
}

/// Is there a terminal to ask on?
pub(crate) fn on_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Says that nothing was done, and ends the command.
pub(crate) fn confirmation_refused() -> Result<(), CommandError> {
    status("Nothing was done");
    Err(CommandError::Cancelled)
}
