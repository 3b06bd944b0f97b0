//! The agent as a process: started when it is needed, ended when it misbehaves.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::port::AgentPort;
use crate::switch::Switch;

/// The longest line that is read, in bytes.
pub(crate) const MOST_LINE: usize = 64 << 20;
/// The most bytes queued for an agent that does not read.
const MOST_WAITING: usize = 64 << 20;

/// An agent's command and its running process.
pub(crate) struct AgentProcess {
    command: Vec<String>,
    /// How long the agent may take to exit when asked to.
    grace: Duration,
    state: Mutex<AgentProcessState>,
    ended: Condvar,
    heard: Mutex<Instant>,
}

#[derive(Default)]
struct AgentProcessState {
    /// The process, while it runs.
    running: Option<RunningAgent>,
    /// It has exited, and open requests are being settled.
    ending: bool,
    /// Why it was ended.
    why: Option<String>,
    /// No other process is started.
    closed: bool,
}

struct RunningAgent {
    pid: u32,
    input: Arc<AgentInput>,
}

impl AgentProcess {
    pub(crate) fn new(command: Vec<String>, grace: Duration) -> Arc<Self> {
        Arc::new(Self {
            command,
            grace,
            state: Mutex::default(),
            ended: Condvar::new(),
            heard: Mutex::new(Instant::now()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, AgentProcessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// Starts the process.
    pub(crate) fn start(self: &Arc<Self>, switch: &Arc<Switch>) -> io::Result<()> {
        let mut state = self.lock();
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or_else(|| io::Error::other("no agent command was given"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the agent has no pipes"));
        };
        let input = Arc::new(AgentInput::default());
        let (writer, agent) = (Arc::clone(&input), Arc::downgrade(self));
        std::thread::Builder::new().name("to-agent".into()).spawn(move || {
            // An agent that no longer reads is of no use.
            if writer.run(stdin).is_err()
                && let Some(agent) = agent.upgrade()
            {
                std::thread::sleep(agent.grace);
                agent.end("the agent was ended: it has closed its input");
            }
        })?;
        state.running = Some(RunningAgent { pid: child.id(), input });
        state.why = None;
        drop(state);
        let (agent, switch) = (Arc::clone(self), Arc::clone(switch));
        std::thread::Builder::new()
            .name("from-agent".into())
            .spawn(move || agent.read(child, stdout, &switch))?;
        Ok(())
    }

    /// Handles the agent's output until it ends.
    fn read(&self, mut child: Child, stdout: ChildStdout, switch: &Arc<Switch>) {
        let mut lines = AgentLines::new(stdout);
        loop {
            match lines.next() {
                Ok(Some(line)) => {
                    *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                    switch.from_agent(&line);
                }
                Ok(None) => break,
                Err(error) => {
                    self.end(&format!("the agent was ended: {error}"));
                    break;
                }
            }
        }
        let status = wait_for_agent_exit(&mut child, self.grace);
        let why = {
            let mut state = self.lock();
            // No other agent is started before everyone knows that this one is gone.
            state.ending = true;
            if let Some(running) = &state.running {
                running.input.close();
            }
            state.why.take()
        };
        let why = why.unwrap_or_else(|| {
            format!("the agent {}", describe_agent_exit(self.program(), status))
        });
        switch.agent_gone(&why);
        let mut state = self.lock();
        state.running = None;
        state.ending = false;
        drop(state);
        self.ended.notify_all();
    }

    /// Closes the agent's input and waits for it to exit. Ends it if it stays silent for `quiet`.
    pub(crate) fn close(&self, quiet: Duration, lost: &dyn Fn() -> bool) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let mut state = self.lock();
        state.closed = true;
        if let Some(running) = &state.running {
            running.input.close();
        }
        while let Some(pid) = state.running.as_ref().map(|running| running.pid) {
            let (again, _) = self
                .ended
                .wait_timeout(state, Duration::from_millis(100))
                .unwrap_or_else(PoisonError::into_inner);
            drop(again);
            let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            if heard.elapsed() > quiet || lost() {
                let mut processes = abide::process::descendant_processes(pid);
                processes.push(pid);
                abide::process::end_processes(&processes, self.grace);
            }
            state = self.lock();
        }
    }

    /// Ends the agent at once, with all the processes it started.
    pub(crate) fn kill(&self) {
        let pid = {
            let mut state = self.lock();
            state.closed = true;
            state.running.as_ref().map(|running| running.pid)
        };
        if let Some(pid) = pid {
            let mut processes = abide::process::descendant_processes(pid);
            processes.push(pid);
            abide::process::end_processes(&processes, self.grace);
        }
    }
}

impl AgentPort for Arc<AgentProcess> {
    fn send(&self, line: &str) -> bool {
        let input = match &self.lock().running {
            Some(running) => Arc::clone(&running.input),
            None => return false,
        };
        match input.push(line) {
            Ok(()) => true,
            Err(SendRefusal::Closed) => false,
            Err(SendRefusal::Full) => {
                self.end(&format!(
                    "the agent was ended: it does not read its input ({} MiB queued)",
                    MOST_WAITING >> 20
                ));
                false
            }
        }
    }

    fn ensure(&self, switch: &Arc<Switch>) -> Result<bool, String> {
        {
            let mut state = self.lock();
            while state.ending {
                state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.running.is_some() {
                return Ok(false);
            }
            if state.closed {
                return Err("the proxy is ending".to_owned());
            }
        }
        match self.start(switch) {
            Ok(()) => Ok(true),
            Err(error) => Err(format!("cannot start the agent {:?}: {error}", self.program())),
        }
    }

    fn end(&self, why: &str) {
        AgentProcess::end(self, why);
    }
}

impl AgentProcess {
    fn end(&self, why: &str) {
        let pid = {
            let mut state = self.lock();
            let Some(pid) = state.running.as_ref().map(|running| running.pid) else { return };
            state.why.get_or_insert_with(|| why.to_owned());
            pid
        };
        let grace = self.grace;
        std::thread::spawn(move || {
            let mut processes = abide::process::descendant_processes(pid);
            processes.push(pid);
            abide::process::end_processes(&processes, grace);
        });
    }
}

/// Waits for a process that has closed its output; kills it after `grace`.
fn wait_for_agent_exit(child: &mut Child, grace: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + grace;
    while Instant::now() < until {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => return None,
        }
    }
    let _ = child.kill();
    child.wait().ok()
}

/// How a process ended, for people.
fn describe_agent_exit(program: &str, status: Option<ExitStatus>) -> String {
    match status {
        Some(status) => format!("{program:?} ended ({status})"),
        None => format!("{program:?} ended"),
    }
}

/// Lines queued for the agent.
#[derive(Default)]
struct AgentInput {
    queue: Mutex<AgentInputQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct AgentInputQueue {
    lines: VecDeque<String>,
    bytes: usize,
    closed: bool,
}

enum SendRefusal {
    Closed,
    Full,
}

impl AgentInput {
    fn lock(&self) -> MutexGuard<'_, AgentInputQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &str) -> Result<(), SendRefusal> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(SendRefusal::Closed);
        }
        if waiting.bytes > 0 && waiting.bytes + line.len() > MOST_WAITING {
            return Err(SendRefusal::Full);
        }
        waiting.bytes += line.len() + 1;
        let mut whole = String::with_capacity(line.len() + 1);
        whole.push_str(line);
        whole.push('\n');
        waiting.lines.push_back(whole);
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// Writes queued lines until the queue is closed and empty, or nobody reads any more.
    fn run(&self, mut stdin: ChildStdin) -> io::Result<()> {
        loop {
            let mut waiting = self.lock();
            let line = loop {
                match waiting.lines.pop_front() {
                    Some(line) => break line,
                    None if waiting.closed => return Ok(()),
                    None => {
                        waiting =
                            self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(waiting);
            let written = stdin.write_all(line.as_bytes());
            let mut waiting = self.lock();
            waiting.bytes = waiting.bytes.saturating_sub(line.len());
            if let Err(error) = written {
                waiting.closed = true;
                return Err(error);
            }
        }
    }
}

/// Reads lines of bounded length.
pub(crate) struct AgentLines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> AgentLines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(1 << 16, input), line: Vec::new() }
    }

    /// The next line without its newline; `None` at the end. A line that is not UTF-8 is returned
    /// as text that is not valid JSON.
    pub(crate) fn next(&mut self) -> io::Result<Option<String>> {
        self.line.clear();
        let most = u64::try_from(MOST_LINE).unwrap_or(u64::MAX).saturating_add(1);
        let read = (&mut self.input).take(most).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if self.line.len() > MOST_LINE {
            return Err(io::Error::other(format!(
                "it sent a message of more than {} MiB",
                MOST_LINE >> 20
            )));
        }
        let line = match std::str::from_utf8(&self.line) {
            Ok(line) => line.to_owned(),
            // The control character makes sure that it is not valid JSON.
            Err(_) => format!("\u{1}{}", String::from_utf8_lossy(&self.line)),
        };
        Ok(Some(line))
    }
}
