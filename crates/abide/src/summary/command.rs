//! Summaries made by a program.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::summary_line::SummaryLine;
use super::{Summarizer, SummaryError, SummaryRequest, fitted_summary, summary_on_one_line};

/// Default time limit.
const DEFAULT_TIME: Duration = Duration::from_secs(120);
/// Default limit on its output in bytes.
const DEFAULT_BYTES: u64 = 1 << 20;
/// How often to check whether the program has ended.
const GLANCE: Duration = Duration::from_millis(25);
/// How long a pipe is still read after the program ended: whoever holds it open has left its
/// process group.
const GRACE: Duration = Duration::from_millis(500);
/// Bytes of stderr that are kept.
const STDERR_KEPT: usize = 8 << 10;
/// Bytes of stderr that are shown.
const STDERR_TOLD: usize = 600;

/// Summarizes with a program of the user's.
///
/// The program is run by `sh -c` in its own process group. It gets the conversation on stdin, as
/// lines of JSON ([`SummaryLine`]), and writes the summary to stdout. It need not read its stdin.
/// It inherits the environment of this process. If it exceeds a limit, the whole group is killed;
/// so is whatever it leaves running in its group when it ends. Ctrl-C in a terminal does not reach
/// the group, so if this process ends first, for whatever reason, a small shell that waits for that
/// kills the group.
///
/// A summary that is too long is cut at the end.
#[derive(Clone)]
pub struct SummaryCommand {
    command: String,
    directory: Option<PathBuf>,
    time: Duration,
    most_bytes: u64,
}

impl SummaryCommand {
    /// The shell command.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        let command = command.into();
        Self { command, directory: None, time: DEFAULT_TIME, most_bytes: DEFAULT_BYTES }
    }

    /// Sets the time limit; by default two minutes.
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// Sets the limit on stdout; by default one mebibyte.
    #[must_use]
    pub fn at_most_bytes(self, most_bytes: u64) -> Self {
        Self { most_bytes, ..self }
    }

    /// Sets the working directory; by default that of this process.
    #[must_use]
    pub fn in_directory(self, directory: impl Into<PathBuf>) -> Self {
        Self { directory: Some(directory.into()), ..self }
    }

    fn run(&self, input: &[u8]) -> Result<String, SummaryError> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.command).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let deadline = Instant::now().checked_add(self.time);
        let child = command.spawn().map_err(summary_command_failure)?;
        let mut running = RunningCommand { pid: summary_command_pid(&child), child, guard: None };
        running.guard =
            running.pid.map(CommandKillGuard::of).transpose().map_err(summary_command_failure)?;
        let mut pipes =
            CommandPipes::of(&mut running.child, input).map_err(summary_command_failure)?;
        let mut ended: Option<Instant> = None;
        while pipes.are_open() {
            let now = Instant::now();
            if let Some(ended) = ended {
                if now.duration_since(ended) >= GRACE {
                    break;
                }
            } else if deadline.is_some_and(|deadline| now >= deadline) {
                return Err(SummaryError::TimeOut { after: self.time, stderr: pipes.last_words() });
            } else if running.has_ended() {
                running.kill();
                ended = Some(now);
                continue;
            }
            pipes.step().map_err(summary_command_failure)?;
            if pipes.stdout.len() as u64 > self.most_bytes {
                return Err(SummaryError::TooLong { most_bytes: self.most_bytes });
            }
        }
        while !running.has_ended() {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(SummaryError::TimeOut { after: self.time, stderr: pipes.last_words() });
            }
            std::thread::sleep(GLANCE);
        }
        running.kill();
        let status = running.child.wait().map_err(summary_command_failure)?;
        if !status.success() {
            return Err(SummaryError::Failed { status, stderr: pipes.last_words() });
        }
        let stderr = pipes.last_words();
        let text = String::from_utf8(pipes.stdout).map_err(|_| SummaryError::NotText)?;
        if text.trim().is_empty() {
            return Err(SummaryError::Empty { stderr });
        }
        Ok(text)
    }
}

impl Summarizer for SummaryCommand {
    /// The program's name if the command starts with a plain one. Anything else may be secret.
    fn name(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
        let word = self.command.split_whitespace().next().filter(|word| word.chars().all(plain));
        let program = word.and_then(|word| word.rsplit('/').find(|part| !part.is_empty()));
        match program {
            Some(program) => format!("command: {}", summary_on_one_line(program, 80)),
            None => "command".to_owned(),
        }
    }

    fn summarize(&self, request: &SummaryRequest<'_>) -> Result<String, SummaryError> {
        if request.most_tokens == 0 {
            return Err(SummaryError::NoRoom);
        }
        let mut input = Vec::new();
        for line in SummaryLine::all(request) {
            serde_json::to_writer(&mut input, &line)
                .map_err(|error| summary_command_failure(error.into()))?;
            input.push(b'\n');
        }
        Ok(fitted_summary(&self.run(&input)?, request.most_bytes()))
    }
}

impl fmt::Debug for SummaryCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The command may contain a secret.
        f.debug_struct("SummaryCommand").field("name", &self.name()).finish_non_exhaustive()
    }
}

fn summary_command_failure(source: io::Error) -> SummaryError {
    SummaryError::Command { source }
}

fn summary_command_pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// A running program. On drop its group is killed and it is reaped.
struct RunningCommand {
    child: Child,
    pid: Option<Pid>,
    guard: Option<CommandKillGuard>,
}

/// A shell that kills a process group when this process is gone: its stdin then closes. It is in
/// another group, so that what ends this process does not end it.
struct CommandKillGuard(Child);

impl CommandKillGuard {
    fn of(group: Pid) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.arg("-c").arg("read -r line; kill -9 -\"$1\"").arg("sh");
        command.arg(group.as_raw_nonzero().to_string()).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self)
    }
}

impl Drop for CommandKillGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl RunningCommand {
    /// Returns true if it has ended. Does not reap it: while its id is reserved, its group can be
    /// killed without hitting another one.
    fn has_ended(&self) -> bool {
        let Some(pid) = self.pid else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None) | Err(rustix::io::Errno::INTR))
    }

    /// Kills the group, unless the program was reaped.
    fn kill(&mut self) {
        // Before the program is reaped, since its id may be reused afterwards.
        self.guard = None;
        if let Some(pid) = self.pid.take() {
            // It is fine if the group is gone.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// The three pipes of a program, all non-blocking.
struct CommandPipes<'a> {
    input: &'a [u8],
    to: Option<std::process::ChildStdin>,
    from: Option<std::process::ChildStdout>,
    errors: Option<std::process::ChildStderr>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl<'a> CommandPipes<'a> {
    fn of(child: &mut Child, input: &'a [u8]) -> io::Result<Self> {
        let (to, from, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if let Some(to) = &to {
            unblock_summary_pipe(to)?;
        }
        if let Some(from) = &from {
            unblock_summary_pipe(from)?;
        }
        if let Some(errors) = &errors {
            unblock_summary_pipe(errors)?;
        }
        Ok(Self { input, to, from, errors, stdout: Vec::new(), stderr: Vec::new() })
    }

    /// Returns true if more output may come.
    fn are_open(&self) -> bool {
        self.from.is_some() || self.errors.is_some()
    }

    /// Waits briefly for a pipe to be ready and transfers what it can.
    fn step(&mut self) -> io::Result<()> {
        let mut waited = Vec::with_capacity(3);
        if let Some(to) = &self.to {
            waited.push(PollFd::from_borrowed_fd(to.as_fd(), PollFlags::OUT));
        }
        if let Some(from) = &self.from {
            waited.push(PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN));
        }
        if let Some(errors) = &self.errors {
            waited.push(PollFd::from_borrowed_fd(errors.as_fd(), PollFlags::IN));
        }
        let glance = Timespec::try_from(GLANCE).ok();
        match poll(&mut waited, glance.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        drop(waited);
        self.write();
        pull_from_summary_command(&mut self.from, &mut self.stdout)?;
        pull_from_summary_command(&mut self.errors, &mut self.stderr)?;
        let too_many = self.stderr.len().saturating_sub(STDERR_KEPT);
        self.stderr.drain(..too_many);
        Ok(())
    }

    /// Writes what the program accepts. If it stops reading, that is not an error: its exit status
    /// says whether it succeeded.
    fn write(&mut self) {
        let Some(to) = &mut self.to else { return };
        while !self.input.is_empty() {
            match to.write(self.input) {
                Ok(count) if count > 0 => self.input = self.input.get(count..).unwrap_or(&[]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => break,
            }
        }
        self.to = None;
    }

    /// The end of stderr, on one line.
    fn last_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.stderr);
        let from = text.len().saturating_sub(STDERR_TOLD);
        let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        summary_on_one_line(text.get(from..).unwrap_or(""), STDERR_TOLD * 2)
    }
}

/// Reads once what is available; closes the pipe at its end.
fn pull_from_summary_command<R: Read>(from: &mut Option<R>, into: &mut Vec<u8>) -> io::Result<()> {
    let Some(pipe) = from else { return Ok(()) };
    let mut some = [0; 16 << 10];
    match pipe.read(&mut some) {
        Ok(0) => *from = None,
        Ok(count) => into.extend_from_slice(some.get(..count).unwrap_or(&[])),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn unblock_summary_pipe<F: AsFd>(pipe: &F) -> io::Result<()> {
    let flags = fcntl_getfl(pipe)?;
    Ok(fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?)
}

#[cfg(test)]
mod tests;
