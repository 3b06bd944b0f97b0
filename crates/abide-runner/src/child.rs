//! The agent's process: started in a group of its own, its output read as it comes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::event::Stream;

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// What a child's threads tell.
pub(crate) enum Happening {
    /// It printed something.
    Printed { job: u64, stream: Stream, bytes: Vec<u8> },
    /// It will print no more there.
    Closed { job: u64, stream: Stream },
    /// It is gone.
    Exited { job: u64, status: std::io::Result<ExitStatus> },
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
}

/// A child that was started.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) id: u32,
    /// It was not waited for yet, so that its number is its own.
    alive: bool,
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
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&plan.directory).envs(&plan.environment);
        // Ctrl-C in the terminal is for us; we tell the agent.
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let text = match plan.stdin {
            Input::Nothing => {
                command.stdin(Stdio::null());
                None
            }
            Input::Inherited => None,
            Input::Text(text) => {
                command.stdin(Stdio::piped());
                Some(text)
            }
        };
        let mut child = command.spawn()?;
        let id = child.id();
        if let (Some(mut stdin), Some(text)) = (child.stdin.take(), text) {
            // One that does not read it holds nobody up.
            std::thread::spawn(move || stdin.write_all(text.as_bytes()));
        }
        if let Some(stdout) = child.stdout.take() {
            read(stdout, job, Stream::Out, tell.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            read(stderr, job, Stream::Err, tell.clone());
        }
        let tell = tell.clone();
        std::thread::spawn(move || {
            let _ = tell.send(Happening::Exited { job, status: child.wait() });
        });
        Ok(Self { id, alive: true })
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
