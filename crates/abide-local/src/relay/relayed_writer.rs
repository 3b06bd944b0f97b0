//! The writer of a child process: sends its events to the process that holds the session.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use abide_model::{
    AnomalyPolicy, AppendError, Digest, Durability, Epoch, EventFactory, EventLimits, HeldMark,
    HeldMarks, InputError, LaneId, LaneState, NewEvent, ReadFinding, Seq, SessionCore, SessionId,
    SessionReader, SessionState, SessionWriter, StoreError, Ticket, check_batch, made_behind,
};

use super::answer_queue::{AnswerQueue, RelayError};
use super::relay_protocol::{
    BUSY, CLOSED, EVENTS, LINE, RelayBatch, RelayBatchAnswer, RelayHello, RelayWelcome, VERSION,
    relay_protocol_line,
};
use super::socket_node::{self, NodeConnectRefusal};
use crate::error::storage_error;

/// The most bytes of an answer, for a batch of the most events.
const ANSWER: u64 = 64 << 20;
/// A holder that is silent for this long counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connects to the holder of a session at its socket. The holder must run as the same user.
pub(super) fn connect_relay_client(
    path: &Path,
    session: SessionId,
    reader: Arc<dyn SessionReader>,
    wait: Duration,
) -> Result<RelayedWriter, NodeConnectRefusal> {
    let stream = socket_node::connect_relay_node(path, wait)?;
    let failed = || NodeConnectRefusal::by(path);
    let mut input = BufReader::new(stream.try_clone().map_err(failed())?);
    let welcome = greet_relay_holder(&stream, &mut input, session, wait).map_err(failed())?;
    // It may have ended meanwhile.
    let welcome = welcome.ok_or(NodeConnectRefusal::Nobody)?;
    let (epoch, version) = match welcome {
        RelayWelcome { error: Some(refusal), .. } => {
            return Err(match refusal.code.as_str() {
                BUSY => NodeConnectRefusal::Engaged,
                CLOSED => NodeConnectRefusal::Nobody,
                _ => {
                    let refused = io::Error::new(ErrorKind::PermissionDenied, refusal.message);
                    NodeConnectRefusal::Failed(storage_error("connect to", path)(refused))
                }
            });
        }
        RelayWelcome { epoch, abide, .. } => (epoch.unwrap_or_default(), abide),
    };
    if version != Some(VERSION) {
        let strange = io::Error::new(ErrorKind::InvalidData, "invalid answer");
        return Err(failed()(strange));
    }
    let answers = Arc::new(AnswerQueue::default());
    let listening = answers.clone();
    // A fraction of it, so that a batch sent meanwhile does not wait twice as long.
    stream.set_read_timeout(Some(PATIENCE / 6)).map_err(failed())?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed())?;
    std::thread::Builder::new()
        .name("abide answers".to_owned())
        .spawn(move || listen_for_relay_answers(&mut input, &listening, PATIENCE))
        .map_err(failed())?;
    Ok(RelayedWriter {
        out: Mutex::new(stream),
        answers,
        reader,
        epoch,
        limits: EventLimits::default(),
        buffered: AtomicBool::new(false),
        closed: AtomicBool::new(false),
        stored: Arc::default(),
    })
}

/// Names the session; `None` if the holder has gone.
fn greet_relay_holder(
    stream: &UnixStream,
    input: &mut BufReader<UnixStream>,
    session: SessionId,
    wait: Duration,
) -> io::Result<Option<RelayWelcome>> {
    stream.set_read_timeout(Some(wait))?;
    let mut out = stream;
    // A child that was refused can still read why.
    let greeted =
        out.write_all(relay_protocol_line(&RelayHello { abide: VERSION, session }).as_bytes());
    let mut line = Vec::new();
    if !read_relay_line(input, &mut line)? {
        return greeted.map(|()| None);
    }
    serde_json::from_slice(&line).map(Some).map_err(io::Error::from)
}

/// Reads the rest of a line. Returns whether it is complete: a line without its line feed does not
/// count. After an error, `line` keeps what was read, and reading can continue.
fn read_relay_line(input: &mut BufReader<UnixStream>, line: &mut Vec<u8>) -> io::Result<bool> {
    let room = ANSWER.saturating_sub(line.len() as u64);
    input.take(room).read_until(b'\n', line)?;
    Ok(line.ends_with(b"\n"))
}

/// Whether the read merely timed out.
fn is_relay_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Delivers answers until there are no more.
fn listen_for_relay_answers(
    input: &mut BufReader<UnixStream>,
    answers: &AnswerQueue,
    patience: Duration,
) {
    let mut line = Vec::new();
    let ended = loop {
        match read_relay_line(input, &mut line) {
            Ok(true) => {}
            Ok(false) => break RelayError::Gone,
            Err(error) if is_relay_timeout(&error) && answers.overdue(patience) => {
                break RelayError::Silent;
            }
            // Nothing is outstanding, or not for long.
            Err(error) if is_relay_timeout(&error) => continue,
            Err(error) => break RelayError::Failed(Arc::new(error)),
        }
        let Ok(answer) = serde_json::from_slice::<RelayBatchAnswer>(&line) else {
            break RelayError::Senseless;
        };
        if !answers.give(answer.into_result()) {
            break RelayError::Senseless;
        }
        line = Vec::new();
    };
    answers.end(ended);
}

/// The writer of a child of the process that holds the session.
pub(super) struct RelayedWriter {
    out: Mutex<UnixStream>,
    answers: Arc<AnswerQueue>,
    reader: Arc<dyn SessionReader>,
    epoch: Epoch,
    limits: EventLimits,
    /// Something was sent with buffered durability.
    buffered: AtomicBool,
    closed: AtomicBool,
    /// The mark under which this process has stored what it sends.
    stored: Arc<HeldMarks>,
}

impl RelayedWriter {
    fn send(
        &self,
        events: &[NewEvent],
        durability: Durability,
        odd: AnomalyPolicy,
    ) -> Result<Ticket, AppendError> {
        let refused = |index, source| Err(AppendError::Input { index, source: Arc::new(source) });
        if events.len() > EVENTS {
            return refused(EVENTS, InputError::TooMany { limit: EVENTS });
        }
        let line = RelayBatch::encode(events, durability, odd, self.stored.mark().as_deref());
        if line.len() > LINE {
            return Err(AppendError::TooLarge { limit: LINE });
        }
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = self.answers.expect(durability)?;
        if let Err(error) = out.write_all(line.as_bytes()) {
            let silent = is_relay_timeout(&error);
            self.answers.end(if silent {
                RelayError::Silent
            } else {
                RelayError::Failed(Arc::new(error))
            });
            let _ = out.shutdown(Shutdown::Both);
        }
        Ok(Ticket::answered_by(expected))
    }

    /// Waits for all answers, makes buffered events durable, and disconnects.
    fn finish(&self) -> Result<(), StoreError> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let flushed = if self.buffered.load(Ordering::Relaxed) { self.flush() } else { Ok(()) };
        self.answers.settle();
        self.answers.end(RelayError::Closed);
        let out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.shutdown(Shutdown::Both);
        Ok(flushed?)
    }
}

impl SessionWriter for RelayedWriter {
    fn append(
        &self,
        events: Vec<NewEvent>,
        durability: Durability,
        odd: AnomalyPolicy,
    ) -> Result<Ticket, AppendError> {
        check_batch(&events, &self.limits)?;
        if durability == Durability::Buffered {
            self.buffered.store(true, Ordering::Relaxed);
        }
        self.send(&events, durability, odd)
    }

    /// Only the holder knows the last event: it puts the position of a rewind of files in.
    fn append_behind(&self, make: &EventFactory<'_>) -> Result<Ticket, AppendError> {
        let event = made_behind(make, Seq::ZERO, &self.limits)?;
        self.send(&[event], Durability::Synced, AnomalyPolicy::Keep)
    }

    /// The state at the last event that can be read. It includes everything that was sent.
    fn state(&self) -> Result<SessionState, StoreError> {
        self.answers.settle();
        self.reader.state()
    }

    fn core(&self) -> Result<(SessionCore, Digest), StoreError> {
        self.answers.settle();
        self.reader.core()
    }

    fn lane(&self, lane: Option<&LaneId>) -> Result<(SessionCore, LaneState), StoreError> {
        self.answers.settle();
        self.reader.lane(lane, None)
    }

    fn flush(&self) -> Result<(), AppendError> {
        self.send(&[], Durability::Synced, AnomalyPolicy::Keep)?.wait().map(|_| ())
    }

    /// The holder's epoch, since it is the writer.
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn notes(&self) -> Vec<ReadFinding> {
        Vec::new()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.finish()
    }

    fn hold_mark(&self, mark: &str) -> Result<HeldMark, StoreError> {
        let place = "the process that holds the session".to_owned();
        self.stored.hold(mark).map_err(|error| StoreError::Storage {
            action: "append through",
            place,
            source: Arc::new(error),
        })
    }

    fn is_relayed(&self) -> bool {
        true
    }
}

impl Drop for RelayedWriter {
    fn drop(&mut self) {
        // Callers that want the error call `close`.
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child's side and the holder's.
    fn sides() -> (BufReader<UnixStream>, UnixStream) {
        let (child, holder) = UnixStream::pair().unwrap();
        child.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        (BufReader::new(child), holder)
    }

    #[test]
    fn a_holder_that_is_stopped_is_not_waited_for_for_ever() {
        let (mut input, mut holder) = sides();
        let answers = AnswerQueue::default();
        assert!(!answers.overdue(Duration::ZERO), "nothing is waited for");
        let expected = answers.expect(Durability::Synced).unwrap();
        let second = answers.expect(Durability::Synced).unwrap();
        assert!(answers.overdue(Duration::ZERO));
        holder.write_all(b"{\"acknowledged\":[{\"seq\":7}]}\n{\"ackno").unwrap();
        listen_for_relay_answers(&mut input, &answers, Duration::from_millis(5));
        assert_eq!(Ticket::answered_by(expected).wait().unwrap()[0].seq, Seq(7));
        match Ticket::answered_by(second).wait() {
            Err(AppendError::Stopped { safe, source }) => {
                assert_eq!(safe, Seq(7));
                assert!(source.to_string().contains("is unknown"), "{source}");
            }
            other => panic!("{other:?}"),
        }
        assert!(answers.expect(Durability::Synced).is_err());
    }

    #[test]
    fn an_answer_that_comes_in_parts_is_one() {
        let (mut input, mut holder) = sides();
        let mut line = Vec::new();
        for part in ["{\"acknow", "ledged\":", "[]}"] {
            holder.write_all(part.as_bytes()).unwrap();
            assert!(is_relay_timeout(&read_relay_line(&mut input, &mut line).unwrap_err()));
        }
        holder.write_all(b"\n").unwrap();
        assert!(read_relay_line(&mut input, &mut line).unwrap());
        assert_eq!(line, b"{\"acknowledged\":[]}\n");
        drop(holder);
        assert!(!read_relay_line(&mut input, &mut Vec::new()).unwrap());
    }
}
