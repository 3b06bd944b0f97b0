//! Shows long text on a terminal through the user's pager.

use std::io::{ErrorKind, Write};
use std::path::Path;
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
    /// Starts the named pager, else `less`. Writes directly to stdout if that is not a terminal or
    /// the pager cannot be started.
    pub(crate) fn start(pager: Option<&str>) -> Self {
        let out = CommandOutput::stdout();
        if !out.is_terminal() {
            return Self::Plain(out);
        }
        let mut words = pager.unwrap_or("less").split_whitespace();
        let Some(program) = words.next().filter(|program| *program != "cat") else {
            return Self::Plain(out);
        };
        let arguments: Vec<_> = words.collect();
        let mut command = Command::new(program);
        command.args(&arguments).stdin(Stdio::piped());
        if arguments.is_empty() && Path::new(program).ends_with("less") {
            // Let colours through, and do not page what fits on the screen.
            command.arg("-FRX");
        }
        match command.spawn() {
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
