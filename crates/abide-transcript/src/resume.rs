//! Where a transcript ends: found from its last bytes alone.

use abide_model::{Seq, Timestamp};

use crate::chunk::{self, ChunkSum, END};
use crate::outline::Outline;

/// The end of the last whole chunk of a transcript. What is behind it is cut off before a
/// [`TranscriptWriter`](crate::TranscriptWriter) goes on there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumePoint {
    /// How many bytes of the file are whole.
    pub offset: u64,
    /// The last event in them.
    pub last: Seq,
    /// When that was: should the journal have another event of that number, the transcript is to
    /// be written anew.
    pub at: Timestamp,
    pub(crate) sum: ChunkSum,
    pub(crate) outline: Outline,
}

impl ResumePoint {
    /// Finds the end of the last whole chunk in the last bytes of a file. `start` is where in
    /// the file they begin.
    ///
    /// `None` when they are too few for the last chunk and the line before it, or when that
    /// chunk is not as it was written: give more of the file. Where the whole file (`start` is 0)
    /// gives none, the transcript is to be written anew.
    #[must_use]
    pub fn find(tail: &[u8], start: u64) -> Option<Self> {
        let (end_start, end_stop) = last_end(tail)?;
        let before = last_end(tail.get(..end_start)?);
        if before.is_none() && start > 0 {
            return None;
        }
        let (sum, chunk_start) = match before {
            Some((line_start, line_stop)) => {
                let line = std::str::from_utf8(tail.get(line_start..line_stop)?).ok()?;
                (chunk::named_sum(line.trim_end_matches('\n'))?, line_stop)
            }
            None => (ChunkSum::default(), 0),
        };
        let line = std::str::from_utf8(tail.get(end_start..end_stop)?).ok()?;
        let end = chunk::check(tail.get(chunk_start..end_stop)?, line.strip_suffix('\n')?, &sum)?;
        let offset = start.checked_add(u64::try_from(end_stop).ok()?)?;
        let at = last_time(tail.get(chunk_start..end_start)?)?;
        Some(Self { offset, last: end.last, at, sum: end.sum, outline: end.outline })
    }
}

/// Where the last whole end line is, its line feed included.
fn last_end(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut stop = memchr::memrchr(b'\n', bytes)? + 1;
    while stop > 0 {
        let start = memchr::memrchr(b'\n', bytes.get(..stop - 1)?).map_or(0, |at| at + 1);
        // At the very front of the bytes a line may have begun earlier.
        if start > 0 && bytes.get(start..stop)?.starts_with(END.as_bytes()) {
            return Some((start, stop));
        }
        stop = start;
    }
    None
}

/// The time of the last event in a chunk.
fn last_time(chunk: &[u8]) -> Option<Timestamp> {
    let stamp = chunk.split(|byte| *byte == b'\n').rev().find(|line| line.starts_with(b"@"))?;
    let time = stamp.splitn(3, |byte| *byte == b' ').nth(1)?;
    Timestamp::from_ascii(time)
}
