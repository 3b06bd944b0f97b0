//! Splits bytes, in chunks of any size, into server-sent events.
//!
//! An event that lies within one chunk is borrowed from it; only events that span chunks are
//! copied. Lines end in `\n`, `\r\n` or `\r`.

use memchr::memchr2;

use super::StreamError;

/// A server-sent event.
#[derive(Debug, Clone, Copy)]
pub(super) struct SseEvent<'a> {
    /// The offset of its data in the stream.
    pub(super) at: u64,
    /// Its `event` field; empty if it has none.
    pub(super) name: &'a [u8],
    /// Its data; never empty.
    pub(super) data: &'a [u8],
}

/// Reads events, and keeps what earlier chunks left unfinished.
#[derive(Debug)]
pub(super) struct SseEventReader {
    /// The most bytes of a line, and of an event.
    limit: usize,
    /// The offset of the current line.
    line_at: u64,
    /// The part of it from earlier chunks.
    line: Vec<u8>,
    /// The last chunk ended in `\r`, so a `\n` at the start of the next belongs to it.
    after_return: bool,
    /// The part of the current event's data that is not in the current chunk.
    data: Vec<u8>,
    /// Its offset; `None` while there is none.
    data_at: Option<u64>,
    name: Vec<u8>,
}

/// The part of the current event that is borrowed from the current chunk.
#[derive(Default)]
struct BorrowedEvent<'a> {
    data: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
}

const MARK: &[u8] = b"\xEF\xBB\xBF";

impl SseEventReader {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            line_at: 0,
            line: Vec::new(),
            after_return: false,
            data: Vec::new(),
            data_at: None,
            name: Vec::new(),
        }
    }

    /// Reads the next bytes and emits the events they complete.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut give: impl FnMut(SseEvent<'_>) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        let mut rest = bytes;
        let mut held = BorrowedEvent::default();
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            if let Some(behind) = rest.strip_prefix(b"\n") {
                rest = behind;
                self.line_at += 1;
            }
        }
        while let Some(length) = memchr2(b'\n', b'\r', rest) {
            let (line, end) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            let (ending, behind) = match end {
                [b'\r', b'\n', behind @ ..] => (2, behind),
                [b'\r'] => {
                    self.after_return = true;
                    (1, &[][..])
                }
                [_, behind @ ..] => (1, behind),
                [] => (0, end),
            };
            rest = behind;
            if self.line.is_empty() {
                self.take(line, &mut held, &mut give)?;
                self.line_at += (length + ending) as u64;
            } else {
                self.line.extend_from_slice(line);
                let mut whole = std::mem::take(&mut self.line);
                self.keep(&mut held);
                let mut of_line = BorrowedEvent::default();
                self.take(&whole, &mut of_line, &mut give)?;
                self.keep(&mut of_line);
                self.line_at += (whole.len() + ending) as u64;
                whole.clear();
                self.line = whole;
            }
        }
        self.keep(&mut held);
        self.line.extend_from_slice(rest);
        self.check(self.line_at, self.line.len())
    }

    /// Ends the stream. Emits the last event even if no empty line follows it.
    pub(super) fn finish(
        mut self,
        mut give: impl FnMut(SseEvent<'_>) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            let mut held = BorrowedEvent::default();
            self.take(&line, &mut held, &mut give)?;
            self.keep(&mut held);
        }
        self.take(b"", &mut BorrowedEvent::default(), &mut give)
    }

    /// Reads a line.
    fn take<'a>(
        &mut self,
        line: &'a [u8],
        held: &mut BorrowedEvent<'a>,
        give: &mut impl FnMut(SseEvent<'_>) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        self.check(self.line_at, line.len())?;
        if line.is_empty() {
            return self.end(held, give);
        }
        let (mut line, mut at) = (line, self.line_at);
        if let (0, Some(unmarked)) = (at, line.strip_prefix(MARK)) {
            (line, at) = (unmarked, MARK.len() as u64);
        }
        if let Some((value, skipped)) = field(line, b"data") {
            if held.data.is_none() && self.data_at.is_none() {
                held.data = Some(value);
                self.data_at = Some(at + skipped);
            } else {
                self.keep(held);
                let begins = self.data_at.unwrap_or(at);
                self.check(begins, self.data.len() + value.len() + 1)?;
                self.data.push(b'\n');
                self.data.extend_from_slice(value);
            }
        } else if let Some((value, _)) = field(line, b"event") {
            held.name = Some(value);
        }
        Ok(())
    }

    /// Handles an empty line: the event is complete.
    fn end(
        &mut self,
        held: &mut BorrowedEvent<'_>,
        give: &mut impl FnMut(SseEvent<'_>) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        let BorrowedEvent { data, name } = std::mem::take(held);
        if let Some(at) = self.data_at.take() {
            let event =
                SseEvent { at, name: name.unwrap_or(&self.name), data: data.unwrap_or(&self.data) };
            if !event.data.is_empty() {
                give(event)?;
            }
            self.data.clear();
        }
        self.name.clear();
        Ok(())
    }

    /// Copies what is borrowed from the chunk.
    fn keep(&mut self, held: &mut BorrowedEvent<'_>) {
        if let Some(data) = held.data.take() {
            self.data.extend_from_slice(data);
        }
        if let Some(name) = held.name.take() {
            self.name.clear();
            self.name.extend_from_slice(name);
        }
    }

    fn check(&self, at: u64, length: usize) -> Result<(), StreamError> {
        let limit = self.limit;
        if length > limit { Err(StreamError::EventTooLong { at, limit }) } else { Ok(()) }
    }
}

/// The value of this field if the line has it, and its offset in the line.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<(&'a [u8], u64)> {
    let width = name.len() as u64;
    match line.strip_prefix(name)? {
        [] => Some((&[], width)),
        [b':', b' ', value @ ..] => Some((value, width + 2)),
        [b':', value @ ..] => Some((value, width + 1)),
        _ => None,
    }
}
