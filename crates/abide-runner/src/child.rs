//! The agent's process: started in its own process group, its output read as it comes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::run_event::Stream;
use crate::terminal;
use crate::typed_input::TypedEcho;

/// The most bytes read at once.
const CHUNK: usize = 64 << 10;

/// What a child's threads report.
pub(crate) enum ChildEvent {
    /// It printed something.
    Printed { job: u64, stream: Stream, bytes: Vec<u8> },
    /// The person at its terminal typed something. Told before the agent gets it.
    Typed { job: u64, bytes: Vec<u8>, echo: TypedEcho },
    /// It closed the stream.
    Closed { job: u64, stream: Stream },
    /// It has exited.
    Exited { job: u64, status: std::io::Result<ExitStatus>, at: Instant },
}

/// What to start.
pub(crate) struct ChildPlan {
    pub(crate) command: Vec<String>,
    pub(crate) directory: PathBuf,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) stdin: ChildInput,
}

/// The stdin of a child.
pub(crate) enum ChildInput {
    Nothing,
    Inherited,
    Text(String),
    /// This file, from its beginning.
    File(Arc<File>),
    /// A pseudo-terminal, connected to the terminal of this process.
    Terminal,
}

/// A running child.
#[derive(Debug)]
pub(crate) struct AgentChild {
    pub(crate) id: u32,
    /// It was not waited for yet, so its process id cannot have been reused.
    alive: bool,
    /// It has a terminal, where stdout and stderr are one stream.
    pub(crate) terminal: bool,
}

impl AgentChild {
    /// Starts a child; its events carry the number of its job.
    pub(crate) fn start(
        plan: ChildPlan,
        job: u64,
        tell: &SyncSender<ChildEvent>,
    ) -> std::io::Result<Self> {
        let (program, arguments) = plan.command.split_first().ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::InvalidInput, "there is no command")
        })?;
        if matches!(plan.stdin, ChildInput::Terminal) {
            let (child, terminal) = terminal::start(program, arguments, &plan, job, tell)?;
            let id = child.id();
            read(terminal, job, Stream::Out, tell.clone());
            wait(child, job, tell.clone());
            return Ok(Self { id, alive: true, terminal: true });
        }
        let mut command = Command::new(program);
        // A run within a run has lanes and tasks of its own.
        command.args(arguments).env_remove("ABIDE_LANE").env_remove("ABIDE_TASK");
        command.current_dir(&plan.directory).envs(&plan.environment);
        // In its own group: Ctrl-C at the terminal reaches this process, which then tells the
        // agent.
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        match plan.stdin {
            ChildInput::Nothing => {
                command.stdin(Stdio::null());
            }
            ChildInput::Inherited | ChildInput::Terminal => {}
            ChildInput::Text(text) => {
                command.stdin(whole(&text)?);
            }
            ChildInput::File(file) => {
                let mut again = file.try_clone()?;
                again.rewind()?;
                command.stdin(again);
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

    /// One that has ended already.
    #[cfg(test)]
    pub(crate) const fn ended() -> Self {
        Self { id: 0, alive: false, terminal: false }
    }

    /// Notes that it was waited for: its process id may be reused.
    pub(crate) const fn is_gone(&mut self) {
        self.alive = false;
    }

    /// Sends a signal to its whole process group.
    pub(crate) fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.id).ok().and_then(Pid::from_raw);
        if let (true, Some(group)) = (self.alive, group) {
            // It may exit at this very moment.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// An unnamed file with a text. Unlike a pipe it holds the whole text even if this process dies;
/// from a broken pipe an agent would take part of its task for the whole.
fn whole(text: &str) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

fn wait(mut child: std::process::Child, job: u64, tell: SyncSender<ChildEvent>) {
    std::thread::spawn(move || {
        let status = child.wait();
        let _ = tell.send(ChildEvent::Exited { job, status, at: Instant::now() });
    });
}

fn read(
    mut from: impl Read + Send + 'static,
    job: u64,
    stream: Stream,
    tell: SyncSender<ChildEvent>,
) {
    std::thread::spawn(move || {
        let mut chunk = vec![0; CHUNK];
        loop {
            match from.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => {
                    let bytes = chunk.get(..count).unwrap_or_default().to_vec();
                    if tell.send(ChildEvent::Printed { job, stream, bytes }).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = tell.send(ChildEvent::Closed { job, stream });
    });
}
