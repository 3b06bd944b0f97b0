//! The stdin of this process, for an agent that reads its prompt there.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use abide::secrets::Redactor;

use crate::redacted_output::uncut_head;
use crate::stop::{Stop, StopUrgency};

/// The most bytes that are recorded.
const MOST: usize = 8 << 20;
/// The most bytes that are kept for the agent.
const LARGEST: usize = 1 << 30;
/// The most bytes read at once.
const CHUNK: usize = 64 << 10;
/// How often a request to stop is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long the first byte is waited for, if the agent can do without.
const PATIENCE: Duration = Duration::from_secs(3);

/// The stdin of this process, as far as it was read for the agent.
#[derive(Debug, Default)]
pub(crate) enum AgentStdin {
    /// It was not read: the agent may.
    #[default]
    Unread,
    /// There is nothing on it.
    Empty,
    /// Nothing came in time.
    Late,
    /// It was read to its end.
    Read {
        /// All of it. Each attempt of the agent's gets it from its beginning.
        file: Arc<File>,
        /// What is recorded of it.
        text: String,
    },
}

/// Whether an agent needs what stands on stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdinNeed {
    /// It is the whole prompt.
    Needed,
    /// There is another prompt.
    Welcome,
}

impl AgentStdin {
    /// Reads stdin to its end. What an agent can do without is waited for three seconds: whoever
    /// starts this process may have left its end of a pipe open.
    pub(crate) fn read(
        need: StdinNeed,
        stop: &Stop,
        redactor: Option<&Redactor>,
    ) -> std::io::Result<Self> {
        let chunks = chunks_of_stdin();
        let began = Instant::now();
        let mut file = None;
        let (mut head, mut bytes) = (Vec::new(), 0_usize);
        loop {
            if stop.urgency() > StopUrgency::None {
                return Ok(Self::Empty);
            }
            let chunk = match chunks.recv_timeout(LOOK) {
                Ok(chunk) => chunk?,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let late = need == StdinNeed::Welcome && began.elapsed() >= PATIENCE;
                    if bytes == 0 && late {
                        return Ok(Self::Late);
                    }
                    continue;
                }
            };
            if bytes.saturating_add(chunk.len()) > LARGEST {
                return Err(std::io::Error::other("more than 1 GiB stands on it"));
            }
            let file = match &mut file {
                Some(file) => file,
                None => file.insert(tempfile::tempfile()?),
            };
            file.write_all(&chunk)?;
            let room = MOST.saturating_sub(head.len()).min(chunk.len());
            head.extend_from_slice(chunk.get(..room).unwrap_or_default());
            bytes += chunk.len();
        }
        let Some(file) = file else { return Ok(Self::Empty) };
        let mut text = String::from_utf8_lossy(&head).into_owned();
        if bytes > head.len() {
            let (kept, cut) = uncut_head(redactor, &text);
            text = format!("{kept}… [{} bytes left out]", bytes - head.len() + cut);
        }
        Ok(Self::Read { file: Arc::new(file), text })
    }

    /// What is recorded of it, unless it is blank.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Read { text, .. } if !text.trim().is_empty() => Some(text),
            _ => None,
        }
    }
}

/// Reads stdin in a thread of its own, so that a request to stop is heeded meanwhile.
fn chunks_of_stdin() -> Receiver<std::io::Result<Vec<u8>>> {
    let (sender, receiver) = sync_channel(4);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = match stdin.read(&mut chunk) {
                Ok(0) => return,
                Ok(count) => Ok(chunk.get(..count).unwrap_or_default().to_vec()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = read.is_err();
            if sender.send(read).is_err() || failed {
                return;
            }
        }
    });
    receiver
}
