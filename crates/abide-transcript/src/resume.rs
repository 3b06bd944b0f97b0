//! Finds where a transcript can be continued, from its last bytes alone.

use std::ops::Range;

use abide_model::{Seq, Timestamp};

use crate::chunk::{self, ChunkChain, ChunkEnd, ChunkSum, END};
use crate::outline::Outline;
use crate::transcript_parser;
use crate::transcript_writer::TranscriptWriter;

/// The end of the last whole chunk of a transcript. Truncate the file there before a
/// [`TranscriptWriter`] continues it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumePoint {
    /// The length of the intact part of the file, in bytes.
    pub offset: u64,
    /// The last event in it.
    pub last: Seq,
    /// The time of that event. If the journal's event of that number has another time, the
    /// transcript must be rewritten.
    pub at: Timestamp,
    pub(crate) chain: ChunkChain,
    pub(crate) outline: Outline,
}

impl ResumePoint {
    /// Finds the end of the last intact chunk in the tail of a file. `start` is the tail's offset
    /// in the file.
    ///
    /// A damaged chunk is skipped, with everything after it. Returns `None` if the tail does not
    /// reach back to an end line with an outline and to the end line before that one: pass a longer
    /// tail, or rewrite the transcript if that is too much to read. If the whole file (`start` is
    /// 0) gives `None`, rewrite the transcript. Without damage, the outline (at most some hundred
    /// KiB) is within the last four times its size, or in the chunk before that.
    #[must_use]
    pub fn find(tail: &[u8], start: u64) -> Option<Self> {
        let ends = resume_end_lines(tail);
        let mut count = ends.len();
        while count > 0 {
            match resume_behind_chunks(tail, start, ends.get(..count)?) {
                Ok(point) => return Some(point),
                Err(whole) => count = whole.min(count - 1),
            }
        }
        None
    }
}

/// The end of the last of these chunks; or, as the error, how many of them may still do.
fn resume_behind_chunks(
    tail: &[u8],
    start: u64,
    ends: &[Range<usize>],
) -> Result<ResumePoint, usize> {
    let has_outline = |end: &Range<usize>| tail.get(end.clone()).is_some_and(chunk::has_outline);
    // At the start of the file the outline is empty.
    let first = match ends.iter().rposition(has_outline) {
        Some(first) => first,
        None if start == 0 => 0,
        None => return Err(0),
    };
    let (mut begin, sum) = match first.checked_sub(1).and_then(|before| ends.get(before)) {
        Some(before) => (before.end, named_sum(tail, before).ok_or(first)?),
        None if start == 0 => (0, ChunkSum::default()),
        None => return Err(0),
    };
    let mut point = None;
    let mut chain = ChunkChain { sum, since: 0 };
    let mut outline = Outline::default();
    let mut last = Seq::ZERO;
    for (at, end) in ends.iter().enumerate().skip(first) {
        let read = IntactChunk::read(tail, begin, end, &chain.sum).ok_or(at)?;
        chain.pass(end.end - begin, &read.end);
        outline = match read.end.outline {
            Some(outline) => outline,
            None => {
                let events = transcript_parser::parse_chunk_events(read.text, begin, &mut last)
                    .map_err(|_| at)?;
                TranscriptWriter::outline_after(outline, &events)
            }
        };
        last = read.end.last;
        point = Some((end.end, last, read.at));
        begin = end.end;
    }
    let (stop, last, at) = point.ok_or(0_usize)?;
    let offset = start.saturating_add(u64::try_from(stop).unwrap_or(u64::MAX));
    Ok(ResumePoint { offset, last, at, chain, outline })
}

/// A chunk whose checksum matches.
struct IntactChunk<'a> {
    text: &'a str,
    end: ChunkEnd,
    at: Timestamp,
}

impl<'a> IntactChunk<'a> {
    fn read(tail: &'a [u8], begin: usize, end: &Range<usize>, before: &ChunkSum) -> Option<Self> {
        let line = std::str::from_utf8(tail.get(end.clone())?).ok()?.strip_suffix('\n')?;
        let read = chunk::check_chunk(tail.get(begin..end.end)?, line, before)?;
        let text = std::str::from_utf8(tail.get(begin..end.start)?).ok()?;
        Some(Self { text, end: read, at: resume_last_time(text.as_bytes())? })
    }
}

fn named_sum(tail: &[u8], end: &Range<usize>) -> Option<ChunkSum> {
    chunk::named_sum(std::str::from_utf8(tail.get(end.clone())?).ok()?.trim_end_matches('\n'))
}

/// The ranges of the complete end lines, including their line feeds.
fn resume_end_lines(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut ends = Vec::new();
    let mut start = None;
    for feed in memchr::memchr_iter(b'\n', bytes) {
        // The first line may have begun before the tail.
        if let Some(start) = start
            && bytes.get(start..feed).is_some_and(|line| line.starts_with(END.as_bytes()))
        {
            ends.push(start..feed + 1);
        }
        start = Some(feed + 1);
    }
    ends
}

/// The time of the last event in a chunk.
fn resume_last_time(chunk: &[u8]) -> Option<Timestamp> {
    let stamp = chunk.split(|byte| *byte == b'\n').rev().find(|line| line.starts_with(b"@"))?;
    let time = stamp.splitn(3, |byte| *byte == b' ').nth(1)?;
    Timestamp::from_ascii(time)
}
