//! Scans segments: splits them at line breaks, and recovers good lines from damaged chunks.

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;

use abide_model::Seq;

use crate::{JournalError, JournalLine, MAX_LINE, RepairSplice, Segment, SegmentHeader};

/// What is wrong with a part of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentDamageReason {
    /// Bytes that are not a line.
    Unreadable,
    /// A line that is repeated or out of order.
    Repeated,
    /// Lines are missing without a trace.
    Missing,
    /// A line that does not follow from the one before it: one of the two was altered.
    Unchained,
    /// The header of a segment is unreadable.
    Header,
    /// A file that holds nothing readable.
    Foreign,
}

impl fmt::Display for SegmentDamageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "corrupt line",
            Self::Repeated => "line repeated or out of order",
            Self::Missing => "missing lines",
            Self::Unchained => "a line that does not follow from the one before it",
            Self::Header => "unreadable segment header",
            Self::Foreign => "not a file of this journal",
        })
    }
}

/// A damaged part of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where the damage starts.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// What is wrong.
    pub reason: SegmentDamageReason,
    /// The first and the last event lost to it.
    pub lost: Option<(Seq, Seq)>,
}

/// A part of a chunk. A chunk is what lies between two line breaks.
#[derive(Debug)]
pub enum ScannedPiece<'a> {
    /// A good line.
    Line(JournalLine<'a>),
    /// A good header.
    Header(SegmentHeader),
    /// A good splice.
    Splice(RepairSplice),
    /// Anything else.
    Bad,
}

/// How a scan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanEnd {
    /// It reached the end of the bytes.
    End,
    /// The visitor stopped it.
    Stopped,
}

const START: &[u8] = b"{\"seq\":";
/// How many possible line starts in a bad chunk are tried.
const TRIES: usize = 64;

/// Splits a chunk into pieces. Nearly always it is one line. Where a line break was damaged, a
/// chunk holds two lines, and both are recovered.
pub fn split_scanned<'a>(
    raw: &'a [u8],
    segment: &Segment,
    found: &mut dyn FnMut(usize, usize, ScannedPiece<'a>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, JournalError> {
    if let Ok(line) = JournalLine::read(raw) {
        return Ok(found(0, raw.len(), ScannedPiece::Line(line)));
    }
    if SegmentHeader::is_header(raw)
        && let Some(header) = SegmentHeader::read_in(raw, segment)?
    {
        return Ok(found(0, raw.len(), ScannedPiece::Header(header)));
    }
    if RepairSplice::is_splice(raw)
        && let Some(splice) = RepairSplice::read(raw, segment.path())?
    {
        return Ok(found(0, raw.len(), ScannedPiece::Splice(splice)));
    }
    if raw.len() < JournalLine::SHORTEST {
        return Ok(match raw {
            [] => ControlFlow::Continue(()),
            _ => found(0, raw.len(), ScannedPiece::Bad),
        });
    }
    let starts: Vec<usize> = memchr::memmem::find_iter(raw, START).take(TRIES).collect();
    let ends: Vec<usize> = JournalLine::ends_in(raw).take(TRIES).collect();
    let mut done = 0;
    // Each try hashes what it covers. The budget keeps the total linear in the chunk.
    let mut budget = raw.len().saturating_mul(4).saturating_add(1 << 20);
    for start in starts {
        if start < done {
            continue;
        }
        let whole = ends.iter().filter(|end| **end > start).take(TRIES).find_map(|end| {
            budget = budget.checked_sub(end - start)?;
            JournalLine::read(raw.get(start..*end)?).ok().map(|line| (*end, line))
        });
        if let Some((end, line)) = whole {
            if start > done && found(done, start, ScannedPiece::Bad).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if found(start, end, ScannedPiece::Line(line)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            done = end;
        }
    }
    Ok(if done < raw.len() {
        found(done, raw.len(), ScannedPiece::Bad)
    } else {
        ControlFlow::Continue(())
    })
}

/// Called for each chunk with its offset, its bytes without the line break, and whether it had one.
pub type ChunkVisit<'f> = dyn FnMut(u64, &[u8], bool) -> Result<ControlFlow<()>, JournalError> + 'f;

/// A scan of a segment's chunks, in bounded memory.
pub struct SegmentScan<'s> {
    segment: &'s Segment,
    buffer: Vec<u8>,
}

/// Bytes read at a time.
const READ: usize = 256 << 10;

impl<'s> SegmentScan<'s> {
    /// A scan of this segment.
    #[must_use]
    pub const fn new(segment: &'s Segment) -> Self {
        Self { segment, buffer: Vec::new() }
    }

    /// Visits every chunk from byte `from` on. Of several empty ones in a row it may visit only the first.
    pub fn chunks(
        &mut self,
        from: u64,
        found: &mut ChunkVisit<'_>,
    ) -> Result<ScanEnd, JournalError> {
        let mut base = from;
        let mut filled = 0;
        // A line that is too long is skipped in pieces.
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::StorageFile;

    use super::*;

    /// A file of line breaks, with `{}` after them. Counts the bytes that are read.
    #[derive(Debug)]
    struct BlankFile {
        blank: u64,
        read: AtomicU64,
    }

    impl StorageFile for BlankFile {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            let end = b"{}\n";
            let left = (self.blank + end.len() as u64).saturating_sub(offset);
            let read = buf.len().min(usize::try_from(left).unwrap());
            for (at, byte) in (offset..).zip(&mut buf[..read]) {
                let behind = at.checked_sub(self.blank).map(|behind| behind as usize);
                *byte = behind.map_or(b'\n', |behind| end[behind]);
            }
            self.read.fetch_add(read as u64, Ordering::Relaxed);
            Ok(read)
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.blank + 3)
        }

        fn truncate(&self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn reserve(&self, _: u64, _: u64) {}
    }

    #[test]
    fn empty_lines_are_skipped_together_and_their_bytes_read_once() {
        for blank in [0, 1, 2, 16 << 10, 1 << 20, 5_000_000] {
            let file = Arc::new(BlankFile { blank, read: AtomicU64::new(0) });
            let segment = Segment::over(file.clone());
            let (mut empty, mut lines) = (0, Vec::new());
            let mut visit = |offset: u64, raw: &[u8], whole: bool| {
                match raw {
                    [] => empty += 1,
                    _ => lines.push((offset, raw.to_vec(), whole)),
                }
                Ok(ControlFlow::Continue(()))
            };
            let end = SegmentScan::new(&segment).chunks(0, &mut visit).unwrap();
            assert_eq!(end, ScanEnd::End);
            assert_eq!(lines, [(blank, b"{}".to_vec(), true)]);
            // At most one of each buffer.
            assert!(empty <= blank.div_ceil(READ as u64) + 1, "{empty} visits of {blank}");
            assert_eq!(file.read.load(Ordering::Relaxed), blank + 3);
        }
    }
}
