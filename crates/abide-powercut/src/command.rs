//! Other programs, each with an end to its time.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};

/// A child that takes longer than this many seconds hangs.
const SECONDS: &str = "120";

/// What a program left.
#[derive(Debug)]
pub(crate) struct Done {
    /// `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) errors: String,
}

impl Done {
    pub(crate) const fn succeeded(&self) -> bool {
        matches!(self.code, Some(0))
    }

    /// Was it ended because it took too long?
    pub(crate) const fn hung(&self) -> bool {
        matches!(self.code, None | Some(137))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).trim().to_owned()
    }
}

/// A command that is killed when it takes too long.
pub(crate) fn limited(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", SECONDS]).arg(program);
    command
}

/// Runs a command to its end with this input.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Result<Done, String> {
    let program = command.get_program().to_owned();
    let told = |error: std::io::Error| format!("{program:?}: {error}");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Err(told(error)),
    };
    let stdin = child.stdin.take();
    let done = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A command that needs no input may be gone already.
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(input);
            }
        });
        child.wait_with_output()
    });
    let done = done.map_err(told)?;
    Ok(Done {
        code: done.status.code(),
        out: done.stdout,
        errors: String::from_utf8_lossy(&done.stderr).into_owned(),
    })
}

/// Runs a tool that must succeed, and gives what it prints.
pub(crate) fn tool(program: &str, args: &[&OsStr]) -> Result<String, String> {
    let mut command = limited(program);
    command.args(args);
    let done = run(command, b"")?;
    if done.succeeded() {
        return Ok(done.text());
    }
    Err(format!("{program}: {}", done.errors.trim()))
}
