//! abide as a process: the commands of the work and of the checks, in a place of their own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::command::{Done, limited, run};

/// The binary, and the mounted file system that it works on.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) binary: PathBuf,
    pub(crate) mounted: PathBuf,
}

impl Agent {
    pub(crate) fn project(&self) -> PathBuf {
        self.mounted.join("project")
    }

    fn isolate(&self, mut command: Command, session: Option<&str>) -> Command {
        command
            .env_clear()
            .env("HOME", self.mounted.join("home"))
            .env("TMPDIR", self.mounted.join("home"))
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "UTC")
            .env("PAGER", "cat")
            .current_dir(self.project());
        if let Some(session) = session {
            command.env("ABIDE_SESSION", session);
        }
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(
        &self,
        session: Option<&str>,
        args: &[&str],
        input: &[u8],
    ) -> Result<Done, String> {
        let mut command = self.isolate(limited(&self.binary), session);
        command.args(args);
        run(command, input)
    }

    /// Runs a command that must succeed.
    pub(crate) fn must(
        &self,
        session: Option<&str>,
        args: &[&str],
        input: &[u8],
    ) -> Result<Done, String> {
        let done = self.run(session, args, input)?;
        if done.succeeded() && !done.errors.contains("panicked") {
            return Ok(done);
        }
        Err(format!("abide {}: {:?}: {}{}", args.join(" "), done.code, done.errors, done.text()))
    }

    /// `abide record` with somebody at the other end of its pipes.
    pub(crate) fn converse(&self, session: &str) -> Result<Conversation, String> {
        let mut command = self.isolate(Command::new(&self.binary), Some(session));
        command.arg("record").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("abide record: {error}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("abide record: no pipes".to_owned());
        };
        Ok(Conversation { child, input: Some(input), output: BufReader::new(output) })
    }
}

/// The binary beside this one.
pub(crate) fn beside() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(own.parent().unwrap_or(Path::new(".")).join("abide"))
}

/// A writer under way.
#[derive(Debug)]
pub(crate) struct Conversation {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Conversation {
    pub(crate) fn send(&mut self, lines: &str) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("the input is closed")?;
        input.write_all(lines.as_bytes()).map_err(|error| format!("abide record: {error}"))
    }

    /// The next answer; `None` at the end. One that a kill cut short is none.
    pub(crate) fn receive(&mut self) -> Result<Option<()>, String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.map_err(|error| format!("abide record: {error}"))?;
        if !line.ends_with('\n') {
            return Ok(None);
        }
        let answer: serde_json::Value =
            serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
        if answer.get("seq").is_some() { Ok(Some(())) } else { Err(format!("refused: {line}")) }
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn end(mut self) -> Result<(), String> {
        self.input.take();
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("abide record: {status}")) }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.kill();
    }
}
