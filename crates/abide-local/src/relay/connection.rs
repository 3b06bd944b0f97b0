//! Serves one child: reads its batches, and answers them once they are durable.
//!
//! Lines that have already arrived are staged together and share a sync. An answer never waits for
//! more input, so a child may send one line and wait for its answer.

use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_model::{
    AcknowledgedEvent, AppendError, Durability, HeldMark, InputError, Kind, NewEvent, Rewind, Seq,
    Ticket,
};

use super::child_lines::{ChildLine, ChildLines};
use super::child_socket::ChildSocketState;
use super::relay_protocol::{
    CLOSED, LINE, RelayBatch, RelayBatchAnswer, RelayHello, RelayRefusal, RelayWelcome, VERSION,
    relay_protocol_line,
};

/// How long a child may take to send its first line.
const HELLO: Duration = Duration::from_secs(10);
/// How long a child may take to read the answers to everything it sent at once.
const READING: Duration = Duration::from_secs(30);
/// How long after the holder has begun to close the session, which waits for its children.
const READING_AT_CLOSE: Duration = Duration::from_secs(1);
/// How long a write may be stuck before it is seen whether the holder closes the session.
const STUCK: Duration = Duration::from_millis(100);
/// How long a write that comes too late may be stuck.
const LATE: Duration = Duration::from_millis(1);
/// The most bytes per write.
const PIECE: usize = 32 << 10;
/// The most batches that are staged before they are answered.
const BATCHES: usize = 256;
/// The most bytes of them, not counting the last line.
const BYTES: usize = 1 << 20;

/// A batch that was staged or refused.
enum ConnectionBatch {
    Waiting { ticket: Ticket, events: Vec<NewEvent>, stored: Option<HeldMark> },
    Done(Result<Vec<AcknowledgedEvent>, AppendError>),
}

/// Serves a child until it disconnects or can no longer be served.
pub(super) fn serve_relay_connection(
    shared: &ChildSocketState,
    stream: &UnixStream,
) -> io::Result<()> {
    let mut lines = ChildLines::new(stream, &shared.long_lines);
    lines.set_patience(Some(HELLO));
    let welcome = match lines.next()? {
        None => return Ok(()),
        Some(ChildLine::TooLong) => refused_connection("not_json", "the first line is too long"),
        Some(ChildLine::Whole(line)) => connection_hello(shared, line),
    };
    let until = |began: Instant| match shared.stopped() {
        Some(stopped) => (stopped + READING_AT_CLOSE).min(began + READING),
        None => began + READING,
    };
    say_on_connection(stream, relay_protocol_line(&welcome).as_bytes(), until)?;
    if welcome.error.is_some() {
        return Ok(());
    }
    lines.set_patience(None);
    let (mut taken, mut bytes) = (Vec::new(), 0);
    let (mut serving, mut ended) = (true, Ok(()));
    let mut answering = true;
    while serving {
        match lines.next() {
            // Whatever was staged is completed, however the connection ends.
            Err(error) => (serving, ended) = (false, Err(error)),
            Ok(None) => serving = false,
            Ok(Some(ChildLine::TooLong)) => {
                taken.push(ConnectionBatch::Done(Err(AppendError::TooLarge { limit: LINE })));
                serving = false;
            }
            Ok(Some(ChildLine::Whole(line))) => {
                bytes += line.len();
                taken.push(stage_relayed_batch(shared, line));
            }
        }
        let full = taken.len() >= BATCHES || bytes >= BYTES;
        // A child that has disconnected is not ready: what it sent is completed anyway.
        if full || !serving || !lines.is_ready().unwrap_or(false) {
            let (said, stopped) = answer_relayed_batches(shared, std::mem::take(&mut taken));
            bytes = 0;
            serving &= !stopped;
            // While this child reads its answers, another one may send a long line.
            lines.let_go();
            if !answering {
                continue;
            }
            match say_on_connection(stream, said.as_bytes(), until) {
                // It has disconnected; what it sent before can still be read.
                Err(error) if is_connection_gone(&error) => {}
                // So it can when the session closes and the child does not read.
                Err(error) if error.kind() == ErrorKind::TimedOut && shared.stopped().is_some() => {
                    answering = false;
                }
                said => said?,
            }
        }
    }
    ended
}

/// Whether the other side no longer reads.
fn is_connection_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// Writes all of `said` until a time that may come nearer meanwhile. It is tried once, however late.
fn say_on_connection(
    mut stream: &UnixStream,
    said: &[u8],
    until: impl Fn(Instant) -> Instant,
) -> io::Result<()> {
    let began = Instant::now();
    let mut tried = false;
    let mut rest = said;
    while !rest.is_empty() {
        let left = until(began).saturating_duration_since(Instant::now());
        if tried && left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left.clamp(LATE, STUCK)))?;
        tried = true;
        // The system may apply the timeout to each write anew.
        let some = rest.get(..PIECE).unwrap_or(rest);
        match stream.write(some) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn refused_connection(code: &str, message: &str) -> RelayWelcome {
    RelayWelcome { error: Some(RelayRefusal::new(code, message)), ..RelayWelcome::default() }
}

fn connection_hello(shared: &ChildSocketState, line: &[u8]) -> RelayWelcome {
    let hello: RelayHello = match serde_json::from_slice(line) {
        Ok(hello) => hello,
        Err(error) => {
            return refused_connection("not_json", &format!("invalid first line: {error}"));
        }
    };
    if hello.abide != VERSION {
        return refused_connection(
            "other_version",
            &format!("expected protocol version {VERSION}"),
        );
    }
    if hello.session != shared.session {
        return refused_connection(
            "other_session",
            &format!("this process holds session {}", shared.session),
        );
    }
    let closed = || refused_connection(CLOSED, "the session is being closed");
    shared.welcome().unwrap_or_else(closed)
}

/// Stages the batch of a line.
fn stage_relayed_batch(shared: &ChildSocketState, line: &[u8]) -> ConnectionBatch {
    let batch = match RelayBatch::decode(line) {
        Ok(batch) => batch,
        Err(error) => return ConnectionBatch::Done(Err(error)),
    };
    // The holder has the conversation in memory, which nobody else must rewind. The files may be.
    let rewinds = |event: &NewEvent| event.kind == Kind::SESSION_REWOUND;
    let files_alone = match &*batch.events {
        [event] if rewinds(event) => rewind_of_files_alone(event),
        _ => None,
    };
    if let (None, Some(index)) = (&files_alone, batch.events.iter().position(rewinds)) {
        let source = InputError::HolderOnly { kind: Kind::SESSION_REWOUND.to_string() };
        return ConnectionBatch::Done(Err(AppendError::Input { index, source: Arc::new(source) }));
    }
    let Some(writer) = shared.writer() else {
        let source = Arc::new(io::Error::other("the session was closed"));
        return ConnectionBatch::Done(Err(AppendError::Stopped { safe: Seq::ZERO, source }));
    };
    let stored = match batch.stored.as_deref().map(|mark| writer.hold_mark(mark)).transpose() {
        Ok(stored) => stored,
        Err(error) => {
            let (safe, source) = (Seq::ZERO, Arc::new(error));
            return ConnectionBatch::Done(Err(AppendError::Stopped { safe, source }));
        }
    };
    if let (Some(rewind), Some(event)) = (files_alone, batch.events.first()) {
        let behind = |to: Seq| {
            let NewEvent { data, .. } = NewEvent::try_from(Rewind { to, ..rewind.clone() })?;
            Ok(NewEvent { data, ..event.clone() })
        };
        return match writer.append_behind(&behind) {
            Ok(ticket) => ConnectionBatch::Waiting { ticket, events: batch.events, stored },
            Err(error) => ConnectionBatch::Done(Err(error)),
        };
    }
    if batch.events.is_empty() {
        // An empty batch: make everything before it as durable as asked.
        let flushed = match batch.durability {
            Durability::Synced => writer.flush(),
            Durability::Buffered => Ok(()),
        };
        return ConnectionBatch::Done(flushed.map(|()| Vec::new()));
    }
    match writer.append(batch.events.clone(), batch.durability, batch.odd) {
        Ok(ticket) => ConnectionBatch::Waiting { ticket, events: batch.events, stored },
        Err(error) => ConnectionBatch::Done(Err(error)),
    }
}

/// A rewind that restores files and leaves the conversation: its position is given as 0, and becomes
/// the event right before it.
fn rewind_of_files_alone(event: &NewEvent) -> Option<Rewind> {
    let rewind: Rewind = serde_json::from_str(event.data.as_str()).ok()?;
    (rewind.files && rewind.to == Seq::ZERO).then_some(rewind)
}

/// Waits for the staged batches. Returns the answers, and whether the writer has stopped.
fn answer_relayed_batches(
    shared: &ChildSocketState,
    taken: Vec<ConnectionBatch>,
) -> (String, bool) {
    let (mut said, mut stopped) = (String::new(), false);
    for taken in taken {
        let done = match taken {
            ConnectionBatch::Waiting { ticket, events, stored } => {
                let done = ticket.wait();
                drop(stored);
                if done.is_ok() {
                    (shared.seen)(&events);
                }
                done
            }
            ConnectionBatch::Done(done) => done,
        };
        stopped |= matches!(done, Err(AppendError::Stopped { .. }));
        said.push_str(&relay_protocol_line(&RelayBatchAnswer::of(done)));
    }
    (said, stopped)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn who_pauses_and_then_reads_is_answered() {
        let (mut child, stream) = UnixStream::pair().unwrap();
        let answer = vec![b'x'; 4 << 20];
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                std::thread::sleep(STUCK * 3);
                let mut all = Vec::new();
                child.read_to_end(&mut all).unwrap();
                all.len()
            });
            say_on_connection(&stream, &answer, |began| began + READING).unwrap();
            drop(stream);
            assert_eq!(reading.join().unwrap(), answer.len());
        });
    }

    #[test]
    fn an_answer_that_comes_too_late_is_tried_once() {
        let (mut child, stream) = UnixStream::pair().unwrap();
        say_on_connection(&stream, b"late\n", |began| began).unwrap();
        let said = say_on_connection(&stream, &vec![b'x'; 4 << 20], |began| began);
        assert_eq!(said.unwrap_err().kind(), ErrorKind::TimedOut);
        let mut heard = [0; 5];
        child.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"late\n");
    }

    #[test]
    fn who_reads_a_byte_now_and_then_is_not_written_to_for_ever() {
        let (mut child, stream) = UnixStream::pair().unwrap();
        let answer = vec![b'x'; 4 << 20];
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                let mut some = [0; 4096];
                while child.read(&mut some).unwrap() > 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            let said =
                say_on_connection(&stream, &answer, |began| began + Duration::from_millis(100));
            drop(stream);
            assert_eq!(said.unwrap_err().kind(), ErrorKind::TimedOut);
            reading.join().unwrap();
        });
    }
}
