//! The conversation in which an agent's server says which hooks it runs, and is told which ones a person
//! trusts.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use abide_agents::{HookApproval, HookTrust};

use super::agent_program::{agent_command, end_program, wait_until};

/// How long a server may take to end once its stdin is closed.
const ENDING: Duration = Duration::from_secs(2);
/// How much a server may say, and how many lines of it may wait.
const MOST_BYTES: u64 = 16 << 20;
const MOST_LINES: usize = 64;

/// A conversation with a server of an agent.
pub(super) struct TrustDialog<'a> {
    trust: &'a HookTrust,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    until: Instant,
}

impl<'a> TrustDialog<'a> {
    /// Starts the server.
    pub(super) fn start(
        trust: &'a HookTrust,
        program: &Path,
        directory: &Path,
        limit: Duration,
    ) -> std::io::Result<Self> {
        let arguments: Vec<String> = trust.server.iter().map(|&word| word.to_owned()).collect();
        let mut child = agent_command(program, &arguments, directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (sender, lines) = sync_channel(MOST_LINES);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        // It ends when the server closes its stdout, or nobody listens any more.
        std::thread::spawn(move || {
            let lines = stdout
                .into_iter()
                .flat_map(|stdout| BufReader::new(stdout.take(MOST_BYTES)).lines());
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { trust, child, stdin, lines, until: Instant::now() + limit })
    }

    /// Asks which hooks of abide there are.
    pub(super) fn hooks(&mut self) -> Result<Vec<HookApproval>, String> {
        for line in self.trust.question {
            self.say(line)?;
        }
        self.listen(self.trust.answer)
    }

    /// Says that these are trusted.
    pub(super) fn approve(&mut self, hooks: &[HookApproval]) -> Result<(), String> {
        self.say(&(self.trust.approval)(hooks))?;
        self.listen(self.trust.approved)?
    }

    fn say(&mut self, line: &str) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("it has no stdin")?;
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).map_err(|error| error.to_string())
    }

    /// Waits for a line that this reads.
    fn listen<T>(&self, read: fn(&str) -> Option<T>) -> Result<T, String> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => match read(&line) {
                    Some(said) => return Ok(said),
                    None if Instant::now() < self.until => {}
                    None => return Err("it did not answer in time".to_owned()),
                },
                Err(RecvTimeoutError::Timeout) => {
                    return Err("it did not answer in time".to_owned());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("it ended without an answer".to_owned());
                }
            }
        }
    }
}

/// Ends the server.
impl Drop for TrustDialog<'_> {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // One that did not answer in time has had its time.
        let late = Instant::now() >= self.until;
        let ending = if late { Duration::ZERO } else { ENDING };
        if wait_until(&mut self.child, Instant::now() + ending).is_none() {
            end_program(&mut self.child);
        }
    }
}
