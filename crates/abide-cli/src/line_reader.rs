//! Reads lines of any length in bounded memory, and tells whether the next one can be read without
//! waiting.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The read buffer: large, so that many short lines cost one read.
const BUFFER: usize = 256 << 10;
/// A line buffer that grew beyond this is not kept.
const KEEP: usize = 1 << 20;

/// A line, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InputLine<'a> {
    /// The whole line.
    Whole(&'a [u8]),
    /// It was too long and was dropped.
    TooLong,
}

/// Reads lines. The last one need not have a line break.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    limit: usize,
    number: u64,
}

impl LineReader<File> {
    /// The lines of stdin. Nothing else may read stdin from then on.
    pub(crate) fn stdin(limit: usize) -> io::Result<Self> {
        use std::os::fd::AsFd;
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self::new(File::from(stdin), limit))
    }

    /// Does no input come within this time?
    pub(crate) fn is_quiet(&self, time: Duration) -> bool {
        let mut input = [PollFd::new(self.input.get_ref(), PollFlags::IN)];
        let time = Timespec::try_from(time).ok();
        matches!(poll(&mut input, time.as_ref()), Ok(0))
    }
}

impl<R: Read> LineReader<R> {
    /// Lines of at most `limit` bytes.
    pub(crate) fn new(input: R, limit: usize) -> Self {
        Self { input: BufReader::with_capacity(BUFFER, input), line: Vec::new(), limit, number: 0 }
    }

    /// The number of the last line read, from 1.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Can the next line be read without waiting for input?
    pub(crate) fn is_ready(&self) -> bool {
        memchr::memchr(b'\n', self.input.buffer()).is_some()
    }

    /// The next line; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<InputLine<'_>>> {
        self.line.clear();
        if self.line.capacity() > KEEP {
            self.line = Vec::new();
        }
        let mut too_long = false;
        let mut begun = false;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = memchr::memchr(b'\n', available);
            let part = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
            let at_end = available.is_empty();
            if !at_end && !begun {
                begun = true;
                self.number += 1;
            }
            if !too_long && self.line.len() + part.len() > self.limit {
                too_long = true;
                self.line = Vec::new();
            }
            if !too_long {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if at_end && !begun {
                return Ok(None);
            }
            if at_end || end.is_some() {
                return Ok(Some(if too_long {
                    InputLine::TooLong
                } else {
                    InputLine::Whole(&self.line)
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_the_last_needs_no_line_break() {
        let mut reader = LineReader::new(&b"a\n\nbc"[..], 10);
        assert!(!reader.is_ready());
        assert_eq!(reader.next().unwrap(), Some(InputLine::Whole(b"a")));
        assert!(reader.is_ready());
        assert_eq!(reader.next().unwrap(), Some(InputLine::Whole(b"")));
        assert!(!reader.is_ready(), "an unfinished line may still be on its way");
        assert_eq!(reader.next().unwrap(), Some(InputLine::Whole(b"bc")));
        assert_eq!(reader.number(), 3);
        assert_eq!(reader.next().unwrap(), None);
        assert_eq!(reader.number(), 3);
    }

    #[test]
    fn a_line_too_long_costs_only_itself() {
        let long = "x".repeat(BUFFER + 7);
        let text = format!("ab\n{long}\n{long}\ncd\nabc");
        let mut reader = LineReader::new(text.as_bytes(), 2);
        assert_eq!(reader.next().unwrap(), Some(InputLine::Whole(b"ab")));
        assert_eq!(reader.next().unwrap(), Some(InputLine::TooLong));
        assert_eq!(reader.next().unwrap(), Some(InputLine::TooLong));
        assert_eq!(reader.next().unwrap(), Some(InputLine::Whole(b"cd")));
        assert_eq!(reader.next().unwrap(), Some(InputLine::TooLong));
        assert_eq!(reader.number(), 5);
        assert!(reader.line.capacity() <= KEEP);
    }
}
