//! Telling lines from damage: the chunks between line breaks, and what can be saved of a bad one.

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;

use abide_model::Seq;

use crate::{JournalError, Line, MAX_LINE, Seam, Segment, SegmentHeader};

/// Why a part of a journal could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageReason {
    /// Bytes that are no line.
    Unreadable,
    /// A line that stands a second time, or out of its order.
    Repeated,
    /// Lines are missing, with nothing in their place.
    Missing,
    /// A line that does not follow from the one before it: that one, or it, was altered.
    Unchained,
    /// The header of a segment is not readable.
    Header,
    /// A file in which there is nothing to be read.
    Foreign,
}

impl fmt::Display for DamageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "bytes that are no journal line",
            Self::Repeated => "a line that stands a second time or out of order",
            Self::Missing => "lines are missing",
            Self::Unchained => "a line that does not follow from the one before it",
            Self::Header => "the segment's header is not readable",
            Self::Foreign => "not a file of this journal",
        })
    }
}

/// Damage to a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where it starts.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// In what way.
    pub reason: DamageReason,
    /// Which events are lost for it: first and last.
    pub lost: Option<(Seq, Seq)>,
}

/// A part of a chunk between two line breaks.
#[derive(Debug)]
pub enum Piece<'a> {
    /// A good line.
    Line(Line<'a>),
    /// A good header.
    Header(SegmentHeader),
    /// A good seam.
    Seam(Seam),
    /// Bytes that are none of these.
    Bad,
}

/// How a scan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanEnd {
    /// At the end of the bytes.
    End,
    /// Whoever looked had seen enough.
    Stopped,
}

const START: &[u8] = b"{\"seq\":";
/// Places in a bad chunk where a line may start that are tried.
const TRIES: usize = 64;

/// Takes the chunk between two line breaks apart: nearly always it is one line. Where a line
/// break was damaged, two lines stand in one chunk, and each is found again.
pub fn split<'a>(
    raw: &'a [u8],
    segment: &Segment,
    found: &mut dyn FnMut(usize, usize, Piece<'a>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, JournalError> {
    if let Ok(line) = Line::read(raw) {
        return Ok(found(0, raw.len(), Piece::Line(line)));
    }
    if SegmentHeader::is_header(raw)
        && let Some(header) = SegmentHeader::read_in(raw, segment)?
    {
        return Ok(found(0, raw.len(), Piece::Header(header)));
    }
    if Seam::is_seam(raw)
        && let Some(seam) = Seam::read(raw, segment.path())?
    {
        return Ok(found(0, raw.len(), Piece::Seam(seam)));
    }
    if raw.len() < Line::SHORTEST {
        return Ok(match raw {
            [] => ControlFlow::Continue(()),
            _ => found(0, raw.len(), Piece::Bad),
        });
    }
    let starts: Vec<usize> = memchr::memmem::find_iter(raw, START).take(TRIES).collect();
    let ends: Vec<usize> = Line::ends_in(raw).take(TRIES).collect();
    let mut done = 0;
    // Each try hashes what it covers: all together not much more than the chunk.
    let mut budget = raw.len().saturating_mul(4).saturating_add(1 << 20);
    for start in starts {
        if start < done {
            continue;
        }
        let whole = ends.iter().filter(|end| **end > start).take(TRIES).find_map(|end| {
            budget = budget.checked_sub(end - start)?;
            Line::read(raw.get(start..*end)?).ok().map(|line| (*end, line))
        });
        if let Some((end, line)) = whole {
            if start > done && found(done, start, Piece::Bad).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if found(start, end, Piece::Line(line)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            done = end;
        }
    }
    Ok(if done < raw.len() {
        found(done, raw.len(), Piece::Bad)
    } else {
        ControlFlow::Continue(())
    })
}

/// Is given a chunk: its offset, its bytes without the line break, and whether there was one.
pub type ChunkVisit<'f> = dyn FnMut(u64, &[u8], bool) -> Result<ControlFlow<()>, JournalError> + 'f;

/// A pass over the chunks of a segment, in bounded memory.
pub struct Scan<'s> {
    segment: &'s Segment,
    buffer: Vec<u8>,
}

/// How much is read at a time.
const READ: usize = 256 << 10;

impl<'s> Scan<'s> {
    /// A pass over this segment.
    #[must_use]
    pub const fn new(segment: &'s Segment) -> Self {
        Self { segment, buffer: Vec::new() }
    }

    /// Gives every chunk from byte `from` on, with its offset, its bytes without the line break,
    /// and whether there was one. Of empty chunks in a row it may give only the first.
    pub fn chunks(
        &mut self,
        from: u64,
        found: &mut ChunkVisit<'_>,
    ) -> Result<ScanEnd, JournalError> {
        let mut base = from;
        let mut filled = 0;
        // Bytes of an endless line are passed over in pieces.
        let mut searched = 0;
        let mut want = READ.min(16 << 10);
        loop {
            self.buffer.resize(filled + want, 0);
            let room = self.buffer.get_mut(filled..).unwrap_or_default();
            let read = self.segment.read_at(room, base + filled as u64)?;
            filled += read;
            want = READ;
            let mut start = 0;
            loop {
                let rest = self.buffer.get(searched..filled).unwrap_or_default();
                let Some(at) = memchr::memchr(b'\n', rest) else {
                    break;
                };
                let end = searched + at;
                let raw = self.buffer.get(start..end).unwrap_or_default();
                if found(base + start as u64, raw, true)?.is_break() {
                    return Ok(ScanEnd::Stopped);
                }
                start = end + 1;
                if raw.is_empty() {
                    // A few compressed bytes may stand for millions of these.
                    let rest = self.buffer.get(start..filled).unwrap_or_default();
                    start += rest.iter().take_while(|byte| **byte == b'\n').count();
                }
                searched = start;
            }
            self.buffer.copy_within(start..filled, 0);
            filled -= start;
            base += start as u64;
            searched = filled;
            if read == 0 || filled > MAX_LINE {
                let raw = self.buffer.get(..filled).unwrap_or_default();
                if filled > 0 && found(base, raw, false)?.is_break() {
                    return Ok(ScanEnd::Stopped);
                }
                if read == 0 {
                    return Ok(ScanEnd::End);
                }
                base += filled as u64;
                (filled, searched) = (0, 0);
            }
        }
    }
}
