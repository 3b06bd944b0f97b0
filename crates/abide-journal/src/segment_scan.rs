//! Scans segments: splits them at line breaks, and recovers good lines from damaged chunks.

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;

use abide_model::Seq;

use crate::filling::leading_line_feeds;
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
    ///
    /// It ends where the segment's lines ended when it was first asked. A writer beside it overwrites filling from the
    /// front to the back: whoever read on could find filling, and behind it what was written since.
    pub fn chunks(
        &mut self,
        from: u64,
        found: &mut ChunkVisit<'_>,
    ) -> Result<ScanEnd, JournalError> {
        let end = self.segment.len()?;
        let mut base = from;
        let mut filled = 0;
        // A line that is too long is skipped in pieces.
        let mut searched = 0;
        let mut want = READ.min(16 << 10);
        loop {
            let left = end.saturating_sub(base + filled as u64);
            self.buffer.resize(filled + usize::try_from(left).unwrap_or(want).min(want), 0);
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
                    start += leading_line_feeds(rest);
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

        fn overwrites_in_place(&self) -> bool {
            false
        }
    }

    /// A file with filling, which a writer overwrites by some lines after each read.
    #[derive(Debug)]
    struct FileBesideWriter {
        /// The bytes, where the lines end, how many there are.
        written: std::sync::Mutex<(Vec<u8>, usize, usize)>,
        /// How many come after each read.
        more: usize,
    }

    impl FileBesideWriter {
        /// The line of a number; they differ in length.
        fn line(number: usize) -> String {
            format!("line {number} {}\n", "x".repeat(number % 97))
        }

        fn new(lines: usize, more: usize) -> Self {
            let mut bytes: Vec<u8> = (0..lines).flat_map(|n| Self::line(n).into_bytes()).collect();
            let end = bytes.len();
            bytes.resize(end + (64 << 10), b'\n');
            Self { written: std::sync::Mutex::new((bytes, end, lines)), more }
        }
    }

    impl StorageFile for FileBesideWriter {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            let (bytes, end, lines) = &mut *self.written.lock().unwrap();
            let from = usize::try_from(offset).unwrap().min(bytes.len());
            let count = buf.len().min(bytes.len() - from);
            buf[..count].copy_from_slice(&bytes[from..from + count]);
            for _ in 0..self.more {
                let line = Self::line(*lines);
                if *end + line.len() > bytes.len() {
                    break;
                }
                bytes[*end..*end + line.len()].copy_from_slice(line.as_bytes());
                (*end, *lines) = (*end + line.len(), *lines + 1);
            }
            Ok(count)
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.written.lock().unwrap().0.len() as u64)
        }

        fn truncate(&self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::ReadOnlyFilesystem.into())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn overwrites_in_place(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_reader_beside_a_writer_sees_a_beginning_of_what_is_written() {
        // Few at a time, and so many that the search for the end is passed by.
        for (lines, more) in [(1, 50), (250, 50), (700, 50), (1, 900), (250, 700), (700, 900)] {
            let segment = Segment::over(Arc::new(FileBesideWriter::new(lines, more)));
            let mut seen = Vec::new();
            let mut visit = |_: u64, raw: &[u8], ended: bool| {
                seen.push((raw.to_vec(), ended));
                Ok(ControlFlow::Continue(()))
            };
            SegmentScan::new(&segment).chunks(0, &mut visit).unwrap();
            assert!(seen.len() >= lines, "{lines} and {more}");
            let (last, whole) = seen.split_last().map_or((None, &[][..]), |(a, b)| (Some(a), b));
            for (number, (raw, ended)) in whole.iter().enumerate() {
                let line = FileBesideWriter::line(number);
                assert_eq!((String::from_utf8_lossy(raw) + "\n", ended), (line.into(), &true));
            }
            // Of the last one it may have seen a part.
            if let Some((raw, _)) = last {
                assert!(FileBesideWriter::line(whole.len()).as_bytes().starts_with(raw));
            }
        }
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
            // Where the lines end is seen from the last few bytes.
            let last = (blank + 3).min(64);
            assert_eq!(file.read.load(Ordering::Relaxed), blank + 3 + last);
        }
    }
}
