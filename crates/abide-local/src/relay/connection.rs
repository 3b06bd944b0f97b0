//! One child: its lines are taken in, and answered when they are durable.
//!
//! Lines that are here already are taken in together and share a sync. No answer ever waits for
//! more input, so that a child may send one line and wait for its answer.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use abide_model::{
    Acknowledged, AppendError, Durability, InputError, NewEvent, Seq, SessionWriter, Ticket,
};

use super::lines::{Line, Lines};
use super::protocol::{Answer, Batch, CLOSED, Hello, LINE, Refusal, VERSION, Welcome, line_of};
use super::server::Shared;

/// So long a child may take to say what it wants.
const HELLO: Duration = Duration::from_secs(10);
/// So long it may take to read an answer.
const READING: Duration = Duration::from_secs(10);
/// The most batches that are taken in before they are answered.
const BATCHES: usize = 256;
/// The most bytes of them, the last line apart.
const BYTES: usize = 1 << 20;

/// What became of a line.
enum Taken {
    Waiting { ticket: Ticket, events: Vec<NewEvent> },
    Done(Result<Vec<Acknowledged>, AppendError>),
}

/// Serves a child until it goes, or until it can not be served any more.
pub(super) fn serve(shared: &Shared, stream: &UnixStream) -> io::Result<()> {
    stream.set_write_timeout(Some(READING))?;
    let mut lines = Lines::new(stream, &shared.long_lines);
    lines.set_patience(Some(HELLO));
    let welcome = match lines.next()? {
        None => return Ok(()),
        Some(Line::TooLong) => refused("not_json", "the first line is too long"),
        Some(Line::Whole(line)) => hello(shared, line),
    };
    let mut stream = stream;
    stream.write_all(line_of(&welcome).as_bytes())?;
    if welcome.error.is_some() {
        return Ok(());
    }
    lines.set_patience(None);
    let (mut taken, mut bytes) = (Vec::new(), 0);
    let mut serving = true;
    while serving {
        match lines.next()? {
            None => serving = false,
            Some(Line::TooLong) => {
                let source = Arc::new(InputError::TooLarge { limit: LINE });
                taken.push(Taken::Done(Err(AppendError::Input { index: 0, source })));
                serving = false;
            }
            Some(Line::Whole(line)) => {
                bytes += line.len();
                taken.push(take(shared, line));
            }
        }
        let full = taken.len() >= BATCHES || bytes >= BYTES;
        // A child that has gone is not ready: what it sent is seen to the end all the same.
        if full || !serving || !lines.is_ready().unwrap_or(false) {
            let (said, stopped) = answer(shared, std::mem::take(&mut taken));
            bytes = 0;
            serving &= !stopped;
            stream.write_all(said.as_bytes())?;
        }
    }
    Ok(())
}

fn refused(code: &str, message: &str) -> Welcome {
    Welcome { error: Some(Refusal::new(code, message)), ..Welcome::default() }
}

fn hello(shared: &Shared, line: &[u8]) -> Welcome {
    let hello: Hello = match serde_json::from_slice(line) {
        Ok(hello) => hello,
        Err(error) => return refused("not_json", &format!("not a first line: {error}")),
    };
    if hello.abide != VERSION {
        return refused("other_version", &format!("version {VERSION} is spoken here"));
    }
    if hello.session != shared.session {
        return refused("other_session", &format!("session {} is held here", shared.session));
    }
    let closed = || refused(CLOSED, "the session is being let go");
    shared.welcome().unwrap_or_else(closed)
}

/// Takes a line in.
fn take(shared: &Shared, line: &[u8]) -> Taken {
    let batch = match Batch::decode(line) {
        Ok(batch) => batch,
        Err(error) => return Taken::Done(Err(error)),
    };
    let Some(writer) = shared.writer() else {
        let source = Arc::new(io::Error::other("the session was let go"));
        return Taken::Done(Err(AppendError::Stopped { safe: Seq::ZERO, source }));
    };
    if batch.events.is_empty() {
        // All that came before is made as safe as is asked for.
        let flushed = match batch.durability {
            Durability::Synced => writer.flush(),
            Durability::Buffered => Ok(()),
        };
        return Taken::Done(flushed.map(|()| Vec::new()));
    }
    match writer.append(batch.events.clone(), batch.durability, batch.odd) {
        Ok(ticket) => Taken::Waiting { ticket, events: batch.events },
        Err(error) => Taken::Done(Err(error)),
    }
}

/// Waits for what was taken in. Gives the answers to it, and says whether the writer has stopped.
fn answer(shared: &Shared, taken: Vec<Taken>) -> (String, bool) {
    let (mut said, mut stopped) = (String::new(), false);
    for taken in taken {
        let done = match taken {
            Taken::Waiting { ticket, events } => {
                let done = ticket.wait();
                if done.is_ok() {
                    (shared.seen)(&events);
                }
                done
            }
            Taken::Done(done) => done,
        };
        stopped |= matches!(done, Err(AppendError::Stopped { .. }));
        said.push_str(&line_of(&Answer::of(done)));
    }
    (said, stopped)
}
