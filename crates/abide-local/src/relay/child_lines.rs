//! Reads the lines of one child, in bounded memory and time.
//!
//! A child may be silent between two lines for as long as it likes. Within a line there is a limit
//! on silence and on the total time. Only one long line is read at a time across all children, so
//! that together they cannot fill the holder's memory.

use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::relay_protocol::LINE;

/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// A longer line is read only while no other long one is.
const LONG: usize = 1 << 20;
/// How long a child may be silent within a line.
const SILENCE: Duration = Duration::from_secs(10);
/// How long a line may take in total.
const LINE_TIME: Duration = Duration::from_secs(120);

/// How long to wait for permission to read a long line.
const RIGHT: Duration = Duration::from_secs(30);

/// Grants permission to read a long line, one child at a time.
#[derive(Debug, Default)]
pub(super) struct LongLines {
    state: Mutex<LongLinesState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LongLinesState {
    taken: bool,
    stopped: bool,
}

/// Permission to read one long line.
struct LongLinePermit<'a>(&'a LongLines);

impl LongLines {
    fn state(&self) -> MutexGuard<'_, LongLinesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for permission, up to `within`.
    fn take(&self, within: Duration) -> io::Result<LongLinePermit<'_>> {
        let began = Instant::now();
        let mut state = self.state();
        loop {
            if state.stopped {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            if !state.taken {
                state.taken = true;
                return Ok(LongLinePermit(self));
            }
            let left = within.checked_sub(began.elapsed()).filter(|left| !left.is_zero());
            let waited = self.changed.wait_timeout(state, left.ok_or(ErrorKind::TimedOut)?);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Refuses all further requests, including those waiting.
    pub(super) fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }
}

impl Drop for LongLinePermit<'_> {
    fn drop(&mut self) {
        self.0.state().taken = false;
        self.0.changed.notify_all();
    }
}

/// A line, without its line feed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChildLine<'a> {
    Whole(&'a [u8]),
    /// It exceeds the limit. What follows is not a line.
    TooLong,
}

/// Reads the lines of a child.
pub(super) struct ChildLines<'a> {
    stream: &'a UnixStream,
    long_lines: &'a LongLines,
    long: Option<LongLinePermit<'a>>,
    buffer: Vec<u8>,
    /// Bytes before this were returned.
    used: usize,
    /// There is no line feed between `used` and this.
    searched: usize,
    /// When the incomplete line began.
    began: Option<Instant>,
    /// How long the child may be silent between two lines.
    patience: Option<Duration>,
    ended: bool,
}

impl<'a> ChildLines<'a> {
    pub(super) const fn new(stream: &'a UnixStream, long_lines: &'a LongLines) -> Self {
        Self {
            stream,
            long_lines,
            long: None,
            buffer: Vec::new(),
            used: 0,
            searched: 0,
            began: None,
            patience: None,
            ended: false,
        }
    }

    /// Sets how long the child may be silent between two lines.
    pub(super) const fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = patience;
    }

    /// The next line; `None` at the end. A line without its line feed is dropped: its sender was
    /// cut off.
    pub(super) fn next(&mut self) -> io::Result<Option<ChildLine<'_>>> {
        self.long = None;
        loop {
            if let Some(end) = self.line_end() {
                self.began = None;
                let from = std::mem::replace(&mut self.used, end + 1);
                self.searched = self.used;
                return Ok(Some(ChildLine::Whole(self.buffer.get(from..end).unwrap_or_default())));
            }
            if self.ended {
                return Ok(None);
            }
            if self.open() > LINE {
                return Ok(Some(ChildLine::TooLong));
            }
            if self.open() >= LONG && self.long.is_none() {
                self.long = Some(self.long_lines.take(RIGHT)?);
                self.began = None;
            }
            let timeout = self.timeout()?;
            self.stream.set_read_timeout(timeout)?;
            self.fill()?;
        }
    }

    /// Releases the memory of the last line returned, and the permission for it.
    pub(super) fn let_go(&mut self) {
        self.forget_used();
        self.long = None;
    }

    /// Whether the next line can be read without waiting for the child.
    pub(super) fn is_ready(&mut self) -> io::Result<bool> {
        loop {
            if self.line_end().is_some() {
                return Ok(true);
            }
            if self.ended || self.open() >= LONG || !relay_lines_readable(self.stream)? {
                return Ok(false);
            }
            self.fill()?;
        }
    }

    /// How many bytes of the incomplete line there are.
    const fn open(&self) -> usize {
        self.buffer.len() - self.used
    }

    fn line_end(&mut self) -> Option<usize> {
        let rest = self.buffer.get(self.searched..)?;
        match memchr::memchr(b'\n', rest) {
            Some(at) => Some(self.searched + at),
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }

    fn timeout(&mut self) -> io::Result<Option<Duration>> {
        if self.open() == 0 {
            return Ok(self.patience);
        }
        let began = *self.began.get_or_insert_with(Instant::now);
        match LINE_TIME.checked_sub(began.elapsed()) {
            Some(left) if !left.is_zero() => Ok(Some(left.min(SILENCE))),
            _ => Err(ErrorKind::TimedOut.into()),
        }
    }

    fn forget_used(&mut self) {
        if self.used > 0 {
            self.buffer.drain(..self.used);
            self.searched -= self.used;
            self.used = 0;
            // One long line must not cost its size for good.
            self.buffer.shrink_to(LONG);
        }
    }

    /// Reads what is available; blocks if nothing is.
    fn fill(&mut self) -> io::Result<()> {
        self.forget_used();
        let length = self.buffer.len();
        self.buffer.resize(length + CHUNK, 0);
        let room = self.buffer.get_mut(length..).unwrap_or_default();
        let read = loop {
            match self.stream.read(room) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(length + read.as_ref().map_or(0, |read| *read));
        match read {
            Ok(read) => self.ended = read == 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Whether there is something to read.
fn relay_lines_readable(stream: &UnixStream) -> io::Result<bool> {
    let mut wanted = [PollFd::new(stream, PollFlags::IN)];
    match poll(&mut wanted, Some(&Timespec::default())) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_come_one_by_one_and_half_a_line_is_none() {
        let (mut child, stream) = UnixStream::pair().unwrap();
        let long_lines = LongLines::default();
        let mut lines = ChildLines::new(&stream, &long_lines);
        child.write_all(b"a\n\nbc\nhal").unwrap();
        for expected in [&b"a"[..], b"", b"bc"] {
            assert!(lines.is_ready().unwrap() || expected == b"a");
            assert_eq!(lines.next().unwrap(), Some(ChildLine::Whole(expected)));
        }
        assert!(!lines.is_ready().unwrap(), "the rest of it may never come");
        drop(child);
        assert!(!lines.is_ready().unwrap());
        assert_eq!(lines.next().unwrap(), None);
    }

    #[test]
    fn a_child_that_says_nothing_is_not_waited_for_longer_than_patience() {
        let (_child, stream) = UnixStream::pair().unwrap();
        let long_lines = LongLines::default();
        let mut lines = ChildLines::new(&stream, &long_lines);
        lines.set_patience(Some(Duration::from_millis(1)));
        assert_eq!(lines.next().unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn half_a_line_has_a_time_that_ends() {
        let (mut child, stream) = UnixStream::pair().unwrap();
        let long_lines = LongLines::default();
        let mut lines = ChildLines::new(&stream, &long_lines);
        child.write_all(b"half").unwrap();
        assert!(!lines.is_ready().unwrap());
        assert_eq!(lines.timeout().unwrap(), Some(SILENCE));
        lines.began = Instant::now().checked_sub(LINE_TIME);
        assert_eq!(lines.next().unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn of_long_lines_one_at_a_time_is_taken_in() {
        let long_lines = LongLines::default();
        let text = vec![b'x'; 2 * LONG];
        let (child, stream) = UnixStream::pair().unwrap();
        let other = long_lines.take(RIGHT).unwrap();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let mut child = child;
                child.write_all(&text).unwrap();
                child.write_all(b"\n").unwrap();
            });
            let reading = scope.spawn(|| {
                let mut lines = ChildLines::new(&stream, &long_lines);
                let whole = lines.next().unwrap() == Some(ChildLine::Whole(&text));
                // It is held for as long as the line is used.
                let held = long_lines.state().taken;
                lines.let_go();
                let free = !long_lines.state().taken && lines.buffer.capacity() <= 2 * LONG;
                let ended = lines.next().unwrap().is_none();
                (whole, held, free, ended)
            });
            // It does not come further than this while another one is under way: the sender cannot
            // have written all of it.
            assert!(!sending.is_finished());
            drop(other);
            assert_eq!(reading.join().unwrap(), (true, true, true, true));
            sending.join().unwrap();
        });
        assert!(!long_lines.state().taken);
        let held = long_lines.take(RIGHT).unwrap();
        let late = long_lines.take(Duration::from_millis(1)).map(|_| ()).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| long_lines.take(RIGHT).map(|_| ()).unwrap_err().kind());
            long_lines.stop();
            assert_eq!(waiting.join().unwrap(), ErrorKind::ConnectionAborted);
        });
        drop(held);
    }
}
