//! Parses a transcript into the events it was made from, chunk by chunk.
//!
//! A chunk with a wrong checksum yields no events, nor does anything after it. Time is linear in
//! the input, whatever it holds.

use std::collections::VecDeque;

use abide_model::{Event, Seq};

use crate::chunk::{self, ChunkSum, END, FIRST_FORMAT, FORMAT};
use crate::transcript_entry::{self, INDENT};

/// A transcript that cannot be parsed: where and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} of the transcript: {reason}")]
pub struct ParseError {
    /// The byte offset of the chunk or line.
    pub offset: u64,
    /// What is wrong there.
    pub reason: ParseReason,
}

/// What is wrong with a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseReason {
    /// It does not start with a transcript header of a known version.
    #[error("not a transcript, or an unsupported version")]
    NotATranscript,
    /// It ends in the middle of a chunk.
    #[error("the last chunk is incomplete")]
    Unfinished,
    /// The chunk's checksum does not match.
    #[error("corrupt chunk (checksum mismatch)")]
    Altered,
    /// A line and the texts before it do not form an event.
    #[error("not a valid event")]
    NotAnEvent,
    /// An event's number is not higher than the one before it.
    #[error("event out of order")]
    OutOfOrder,
}

/// Iterates over the chunks of a transcript, each as its events. Stops after the first error.
#[derive(Debug)]
pub struct TranscriptChunks<'a> {
    bytes: &'a [u8],
    /// Offset of the next chunk.
    at: usize,
    sum: ChunkSum,
    last: Seq,
    failed: bool,
}

impl<'a> TranscriptChunks<'a> {
    /// Reads a whole transcript.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, sum: ChunkSum::default(), last: Seq::ZERO, failed: false }
    }

    fn error(offset: usize, reason: ParseReason) -> ParseError {
        ParseError { offset: u64::try_from(offset).unwrap_or(u64::MAX), reason }
    }

    fn read(&mut self) -> Result<Option<Vec<Event>>, ParseError> {
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let here = |reason| Self::error(start, reason);
        if start == 0 && !begins_with_transcript_header(rest) {
            let short = rest.len() < 4096 && memchr::memchr_iter(b'\n', rest).nth(1).is_none();
            let reason = if short { ParseReason::Unfinished } else { ParseReason::NotATranscript };
            return Err(here(reason));
        }
        let (end_start, end_stop) = end_line(rest).ok_or(here(ParseReason::Unfinished))?;
        let altered = here(ParseReason::Altered);
        let chunk = rest.get(..end_stop).ok_or_else(|| altered.clone())?;
        let text = std::str::from_utf8(chunk).map_err(|_| altered.clone())?;
        let line = text.get(end_start..).and_then(|line| line.strip_suffix('\n'));
        let end =
            line.and_then(|line| chunk::check_chunk(chunk, line, &self.sum)).ok_or(altered)?;
        let text = text.get(..end_start).unwrap_or_default();
        let events = parse_chunk_events(text, start, &mut self.last)?;
        if self.last != end.last {
            return Err(Self::error(start + end_start, ParseReason::OutOfOrder));
        }
        self.sum = end.sum;
        self.at = start + end_stop;
        Ok(Some(events))
    }
}

impl Iterator for TranscriptChunks<'_> {
    type Item = Result<Vec<Event>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let read = self.read();
        self.failed = read.is_err();
        read.transpose()
    }
}

/// Parses the events in a chunk's text, which begins at `offset` of the transcript.
pub(crate) fn parse_chunk_events(
    text: &str,
    mut offset: usize,
    last: &mut Seq,
) -> Result<Vec<Event>, ParseError> {
    let mut events = Vec::new();
    let mut texts: VecDeque<Vec<&str>> = VecDeque::new();
    let mut in_text = false;
    for line in text.split_inclusive('\n') {
        let here = offset;
        offset += line.len();
        let line = line.strip_suffix('\n').unwrap_or(line);
        if let Some(line) = line.strip_prefix(INDENT) {
            match texts.back_mut().filter(|_| in_text) {
                Some(run) => run.push(line),
                None => texts.push_back(vec![line]),
            }
            in_text = true;
            continue;
        }
        in_text = false;
        if line.starts_with('@') {
            let event = transcript_entry::read_entry_stamp(line, &mut texts)
                .ok_or_else(|| TranscriptChunks::error(here, ParseReason::NotAnEvent))?;
            if event.seq <= *last {
                return Err(TranscriptChunks::error(here, ParseReason::OutOfOrder));
            }
            *last = event.seq;
            events.push(event);
        }
    }
    if texts.is_empty() {
        Ok(events)
    } else {
        Err(TranscriptChunks::error(offset, ParseReason::NotAnEvent))
    }
}

/// Parses a whole transcript into its events.
pub fn parse(bytes: &[u8]) -> Result<Vec<Event>, ParseError> {
    let mut events = Vec::new();
    for chunk in TranscriptChunks::new(bytes) {
        events.append(&mut chunk?);
    }
    Ok(events)
}

/// Whether the bytes start with the header of a known version.
fn begins_with_transcript_header(bytes: &[u8]) -> bool {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    lines.next().is_some_and(|line| line.starts_with(b"=== TASK"))
        && lines
            .next()
            .is_some_and(|line| [FORMAT, FIRST_FORMAT].map(str::as_bytes).contains(&line))
        && lines.next().is_some()
}

/// Start and end of the first end line, including its line feed.
fn end_line(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut start = 0;
    for stop in memchr::memchr_iter(b'\n', bytes) {
        if bytes.get(start..)?.starts_with(END.as_bytes()) {
            return Some((start, stop + 1));
        }
        start = stop + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::ChunkChain;
    use crate::outline::Outline;

    /// A transcript of one chunk with these lines in it and a right sum.
    fn transcript(lines: &str, last: u64) -> String {
        let mut text = format!("=== TASK ===\n{FORMAT}\n{lines}");
        ChunkChain::default().close(&mut text, Seq(last), &Outline::default());
        text
    }

    #[test]
    fn a_right_sum_does_not_make_it_right() {
        let one = "@1 1970-01-01T00:00:00.000Z a {}\n";
        let two = "@2 1970-01-01T00:00:00.000Z a {}\n";
        let reason = |lines: &str, last| {
            parse(transcript(lines, last).as_bytes()).map_err(|error| error.reason)
        };
        assert_eq!(reason(&format!("{one}{two}"), 2).unwrap().len(), 2);
        assert_eq!(reason(&format!("{two}{one}"), 1), Err(ParseReason::OutOfOrder));
        assert_eq!(reason(&format!("{one}{one}"), 1), Err(ParseReason::OutOfOrder));
        assert_eq!(reason(one, 2), Err(ParseReason::OutOfOrder));
        assert_eq!(reason("@1 nonsense\n", 1), Err(ParseReason::NotAnEvent));
        assert_eq!(reason(&format!("{one}x:\n    left over\n"), 1), Err(ParseReason::NotAnEvent));
        let error = parse(transcript("a line\n@1 nonsense\n", 1).as_bytes()).unwrap_err();
        assert_eq!(error.offset, 47);
    }
}
