//! The agent's process: started in a group of its own, its output read as it comes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::event::Stream;
use crate::terminal;

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// What a child's threads tell.
pub(crate) enum Happening {
    /// It printed something.
    Printed { job: u64, stream: Stream, bytes: Vec<u8> },
    /// It will print no more there.
    Closed { job: u64, stream: Stream },
    /// It is gone.
    Exited { job: u64, status: std::io::Result<ExitStatus>, at: Instant },
}

/// What is to be started.
pub(crate) struct ChildPlan {
    pub(crate) command: Vec<String>,
    pub(crate) directory: PathBuf,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) stdin: Input,
}

/// What a child reads.
pub(crate) enum Input {
    Nothing,
    Inherited,
    Text(String),
    /// A pseudo-terminal, joined with the terminal of this process.
    Terminal,
}

/// A child that was started.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) id: u32,
    /// It was not waited for yet, so that its number is its own.
    alive: bool,
    /// It has a terminal, where stdout and stderr are one.
    pub(crate) terminal: bool,
}

impl Child {
    /// Starts a child; what happens to it is told under the number of its job.
    pub(crate) fn start(
        plan: ChildPlan,
        job: u64,
        tell: &SyncSender<Happening>,
    ) -> std::io::Result<Self> {
        let (program, arguments) = plan.command.split_first().ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::InvalidInput, "there is no command")
        })?;
        if matches!(plan.stdin, Input::Terminal) {
            let (child, terminal) = terminal::start(program, arguments, &plan)?;
            let id = child.id();
            read(terminal, job, Stream::Out, tell.clone());
            wait(child, job, tell.clone());
            return Ok(Self { id, alive: true, terminal: true });
        }
        let mut command = Command::new(program);
        // A run within a run has lanes of its own.
        command.args(arguments).env_remove("ABIDE_LANE");
        command.current_dir(&plan.directory).envs(&plan.environment);
        // Ctrl-C in the terminal is for us; we tell the agent.
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        match plan.stdin {
            Input::Nothing => {
                command.stdin(Stdio::null());
            }
            Input::Inherited | Input::Terminal => {}
            Input::Text(text) => {
                command.stdin(whole(&text)?);
            }
        }
        let mut child = command.spawn()?;
        let id = child.id();
        if let Some(stdout) = child.stdout.take() {
            read(stdout, job, Stream::Out, tell.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            read(stderr, job, Stream::Err, tell.clone());
        }
        wait(child, job, tell.clone());
        Ok(Self { id, alive: true, terminal: false })
    }

    /// It was waited for: its number may be another's.
    pub(crate) const fn is_gone(&mut self) {
        self.alive = false;
    }

    /// Tells it, and all of its group, to end.
    pub(crate) fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.id).ok().and_then(Pid::from_raw);
        if let (true, Some(group)) = (self.alive, group) {
            // It may be gone in this very moment.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// A text to be read from a file that has no name: it is there whole, whatever becomes of us. An
/// agent at the end of a pipe that breaks off would take a part of its task for the whole.
fn whole(text: &str) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

fn wait(mut child: std::process::Child, job: u64, tell: SyncSender<Happening>) {
    std::thread::spawn(move || {
        let status = child.wait();
        let _ = tell.send(Happening::Exited { job, status, at: Instant::now() });
    });
}

fn read(
    mut from: impl Read + Send + 'static,
    job: u64,
    stream: Stream,
    tell: SyncSender<Happening>,
) {
    std::thread::spawn(move || {
        let mut chunk = vec![0; CHUNK];
        loop {
            match from.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => {
                    let bytes = chunk.get(..count).unwrap_or_default().to_vec();
                    if tell.send(Happening::Printed { job, stream, bytes }).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = tell.send(Happening::Closed { job, stream });
    });
}
