//! Shows long text on a terminal through the user's pager.

use std::io::{ErrorKind, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::command_output::CommandOutput;
use crate::error::CommandError;

/// Writes text for people. The text must already be escaped for a terminal.
pub(crate) enum PagedOutput {
    /// Directly to stdout.
    Plain(CommandOutput),
    /// To a pager, until the user quits it.
    Pager { child: Child, input: Option<ChildStdin> },
}

impl PagedOutput {
    /// Starts the named pager, else `less`, as git does: a shell runs it if it is more than words,
    /// and `less` lets colours through and ends at once if all fits on the screen, unless `LESS`
    /// says otherwise. Writes directly to stdout if that is not a terminal or the pager cannot be
    /// started.
    pub(crate) fn start(pager: Option<&str>) -> Self {
        let out = CommandOutput::stdout();
        if !out.is_terminal() {
            return Self::Plain(out);
        }
        let pager = pager.unwrap_or("less");
        let mut words = pager.split_whitespace();
        let Some(program) = words.next().filter(|program| *program != "cat") else {
            return Self::Plain(out);
        };
        let mut command = if pager.contains(|c: char| "|&;<>()$`\\\"' \t\n*?[#~=%".contains(c)) {
            let mut shell = Command::new("sh");
            shell.args(["-c", pager]);
            shell
        } else {
            Command::new(program)
        };
        for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        match command.stdin(Stdio::piped()).spawn() {
            Ok(mut child) => {
                let input = child.stdin.take();
                Self::Pager { child, input }
            }
            Err(_) => Self::Plain(out),
        }
    }

    /// Writes text. Returns `false` once nobody wants more.
    pub(crate) fn write(&mut self, text: &str) -> Result<bool, CommandError> {
        match self {
            Self::Plain(out) => out.bytes(text.as_bytes()).map(|()| true),
            Self::Pager { input, .. } => {
                let Some(pipe) = input else { return Ok(false) };
                match pipe.write_all(text.as_bytes()) {
                    Ok(()) => Ok(true),
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                        *input = None;
                        Ok(false)
                    }
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Ends the output and waits until the user has read it.
    pub(crate) fn finish(self) -> Result<(), CommandError> {
        match self {
            Self::Plain(mut out) => out.flush(),
            Self::Pager { mut child, input } => {
                drop(input);
                child.wait()?;
                Ok(())
            }
        }
    }
}
