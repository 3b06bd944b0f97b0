//! Reads a bundle, record by record. Nothing in it is trusted, least of all its lengths.

use std::io::{self, BufRead, Read};

use abide_model::ObjectHash;

use super::{
    ANY_RATIO, BundleCheck, BundleError, BundleFault, BundleHeader, EndWire, MAGIC, MAX_HEADER,
    MAX_RATIO, MAX_RECORD, ObjectWire, WINDOW_LOG,
};
use crate::{JournalLine, MAX_LINE};

/// A checked record of a bundle.
#[derive(Debug)]
pub enum BundleRecord<'a> {
    /// An object. The next line names it.
    Object {
        /// Its hash.
        hash: ObjectHash,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// A line of the journal.
    Line(JournalLine<'a>),
}

/// Reads a bundle. Each record is checked when it is returned; the bundle as a whole is valid once
/// [`BundleReader::next`] has returned `None`.
pub struct BundleReader<R: Read> {
    input: io::BufReader<zstd::stream::read::Decoder<'static, CountingReader<R>>>,
    header: BundleHeader,
    check: BundleCheck,
    hasher: blake3::Hasher,
    /// Where the next record starts in the unpacked bytes.
    offset: u64,
    buffer: Vec<u8>,
    /// The bundle may unpack to this many times the bytes read so far.
    ratio: Option<u64>,
    screen: Option<BundleScreen>,
    brings_back_erased: bool,
    done: bool,
}

/// Looks at each record before it is given out, and returns whether the bundle is refused for it.
pub type BundleScreen = Box<dyn FnMut(&BundleRecord<'_>) -> bool + Send>;

impl<R: Read> std::fmt::Debug for BundleReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BundleReader").field("header", &self.header).finish_non_exhaustive()
    }
}

/// What the line just read starts.
enum BundleRecordStart {
    Line,
    Object(ObjectWire),
    End(EndWire),
}

impl<R: Read> BundleReader<R> {
    /// Reads the first line.
    pub fn open(input: R) -> Result<Self, BundleError> {
        let mut input = CountingReader::new(input);
        let mut line = Vec::new();
        let ended =
            read_bundle_line(&mut input, &mut line, MAX_HEADER).map_err(BundleError::Read)?;
        let reason = |reason: &str| BundleError::NotABundle { reason: reason.to_owned() };
        if line.is_empty() && ended != LineEnd::Break {
            return Err(BundleError::Empty);
        }
        if !line.starts_with(MAGIC) {
            return Err(if MAGIC.starts_with(&line) && ended == LineEnd::Eof {
                BundleError::Truncated { offset: line.len() as u64 }
            } else {
                reason("its first line is not a bundle header")
            });
        }
        match ended {
            LineEnd::Break => {}
            LineEnd::Eof => return Err(BundleError::Truncated { offset: line.len() as u64 }),
            LineEnd::Limit => return Err(reason("its first line is too long")),
        }
        let header = BundleHeader::read(&line)?;
        let check = BundleCheck::begin(header.clone())
            .map_err(|fault| BundleError::Fault { offset: 0, fault })?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&line);
        hasher.update(b"\n");
        let offset = line.len() as u64 + 1;
        let decoder = || -> io::Result<_> {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?.single_frame();
            decoder.window_log_max(WINDOW_LOG)?;
            Ok(decoder)
        };
        let input = io::BufReader::with_capacity(READ, decoder().map_err(BundleError::Read)?);
        let (buffer, ratio) = (Vec::new(), Some(MAX_RATIO));
        let (screen, brings_back_erased, done) = (None, false, false);
        Ok(Self {
            input,
            header,
            check,
            hasher,
            offset,
            buffer,
            ratio,
            screen,
            brings_back_erased,
            done,
        })
    }

    /// The first line. The title and the time are informative; everything else is checked.
    #[must_use]
    pub const fn header(&self) -> &BundleHeader {
        &self.header
    }

    /// How many bytes of lines and objects remain, according to the first line.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.header.bytes.saturating_sub(self.check.bytes())
    }

    /// Lifts the limit on the ratio of unpacked to packed bytes. For bundles from a trusted source.
    #[must_use]
    pub fn of_any_ratio(mut self) -> Self {
        self.ratio = None;
        self
    }

    /// Lets an import bring back data that was erased in the store.
    #[must_use]
    pub fn bringing_back_erased(mut self) -> Self {
        self.brings_back_erased = true;
        self
    }

    /// Whether an import may bring back data that was erased in the store.
    #[must_use]
    pub const fn brings_back_erased(&self) -> bool {
        self.brings_back_erased
    }

    /// Lets somebody look at each record first. From a refused one on none is given out: the rest is
    /// read and looked at, and then [`BundleReader::next`] fails.
    #[must_use]
    pub fn screened(mut self, screen: BundleScreen) -> Self {
        self.screen = Some(screen);
        self
    }

    /// The next record; `None` once everything was read and the whole bundle is consistent.
    // Not an iterator: a record borrows from the reader.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<BundleRecord<'_>>, BundleError> {
        let Some(mut screen) = self.screen.take() else { return self.next_checked() };
        let mut refused = false;
        let object = loop {
            let record = match self.next_checked()? {
                None if refused => return Err(BundleError::Screened),
                None => return Ok(None),
                Some(record) => record,
            };
            refused |= screen(&record);
            if !refused {
                break match record {
                    BundleRecord::Object { hash, .. } => Some(hash),
                    BundleRecord::Line(_) => None,
                };
            }
        };
        self.screen = Some(screen);
        // The record as it was looked at: the buffer still has it.
        match object {
            Some(hash) => Ok(Some(BundleRecord::Object { hash, bytes: &self.buffer })),
            None => JournalLine::read(&self.buffer)
                .map(|line| Some(BundleRecord::Line(line)))
                .map_err(|error| BundleError::Fault {
                    offset: self.offset,
                    fault: BundleFault::Line(error),
                }),
        }
    }

    /// The next record, whatever it holds.
    fn next_checked(&mut self) -> Result<Option<BundleRecord<'_>>, BundleError> {
        if self.done {
            return Ok(None);
        }
        let at = self.offset;
        let fault = |fault| BundleError::Fault { offset: at, fault };
        self.check_ratio()?;
        self.read_line()?;
        match parse_bundle_record_start(&self.buffer).map_err(fault)? {
            BundleRecordStart::Line => {
                self.pass();
                let line = self.check.line(&self.buffer).map_err(fault)?;
                Ok(Some(BundleRecord::Line(line)))
            }
            BundleRecordStart::Object(ObjectWire { object: hash, size }) => {
                self.check.announce(hash, size).map_err(fault)?;
                self.pass();
                self.read_object(size)?;
                self.check.object(hash, &self.buffer).map_err(fault)?;
                Ok(Some(BundleRecord::Object { hash, bytes: &self.buffer }))
            }
            BundleRecordStart::End(EndWire { end }) => {
                self.check.finish().map_err(fault)?;
                let counts = (self.check.events(), self.check.objects(), self.check.bytes());
                let hash = ObjectHash(*self.hasher.finalize().as_bytes());
                if (end.events, end.objects, end.bytes) != counts || end.hash != hash {
                    return Err(fault(BundleFault::Hash));
                }
                self.offset += self.buffer.len() as u64 + 1;
                self.read_end()?;
                self.done = true;
                Ok(None)
            }
        }
    }

    /// Reads the rest, to check the whole bundle.
    pub fn read_to_end(mut self) -> Result<BundleHeader, BundleError> {
        while self.next()?.is_some() {}
        Ok(self.header)
    }

    /// A small bundle that unpacks to very much is not a recorded session.
    fn check_ratio(&self) -> Result<(), BundleError> {
        let most = |ratio: u64| self.file_offset().saturating_mul(ratio).max(ANY_RATIO);
        match self.ratio.filter(|ratio| self.offset > most(*ratio)) {
            Some(ratio) => Err(BundleError::Ratio { ratio }),
            None => Ok(()),
        }
    }

    /// Reads up to the next line break, which is consumed and dropped.
    fn read_line(&mut self) -> Result<(), BundleError> {
        self.buffer.clear();
        let ended = read_bundle_line(&mut self.input, &mut self.buffer, MAX_LINE);
        match ended.map_err(|error| self.read_error(error))? {
            LineEnd::Break => Ok(()),
            LineEnd::Eof => Err(BundleError::Truncated { offset: self.file_offset() }),
            LineEnd::Limit => Err(BundleError::Fault {
                offset: self.offset,
                fault: BundleFault::TooLong { what: "a line", limit: MAX_LINE as u64 },
            }),
        }
    }

    /// Reads an object and the line break after it.
    fn read_object(&mut self, size: u64) -> Result<(), BundleError> {
        self.buffer.clear();
        // Grow the buffer as bytes arrive, not as announced.
        let read = (&mut self.input).take(size).read_to_end(&mut self.buffer);
        let read = read.map_err(|error| self.read_error(error))? as u64;
        let mut end = [0];
        if read < size {
            return Err(BundleError::Truncated { offset: self.file_offset() });
        }
        self.input.read_exact(&mut end).map_err(|error| self.read_error(error))?;
        if end != *b"\n" {
            let fault = BundleFault::Record;
            return Err(BundleError::Fault { offset: self.offset + size, fault });
        }
        self.pass();
        Ok(())
    }

    /// Adds the bytes in the buffer to the hash and the offset.
    fn pass(&mut self) {
        self.hasher.update(&self.buffer);
        self.hasher.update(b"\n");
        self.offset += self.buffer.len() as u64 + 1;
    }

    /// After the end record the frame must end, and after the frame the file.
    fn read_end(&mut self) -> Result<(), BundleError> {
        let behind = BundleError::Fault { offset: self.offset, fault: BundleFault::BehindTheEnd };
        let mut one = [0];
        match self.input.read(&mut one).map_err(|error| self.read_error(error))? {
            0 => {}
            _ => return Err(behind),
        }
        let left = self.input.get_mut().get_mut().fill_buf().map(<[u8]>::is_empty);
        match left.map_err(BundleError::Read)? {
            true => Ok(()),
            false => Err(behind),
        }
    }

    fn file_offset(&self) -> u64 {
        self.input.get_ref().get_ref().taken
    }

    /// An error of the decoder or of its input.
    fn read_error(&self, error: io::Error) -> BundleError {
        let offset = self.file_offset();
        if self.input.get_ref().get_ref().failed {
            return BundleError::Read(error);
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => BundleError::Truncated { offset },
            _ => BundleError::Damaged { offset, reason: error.to_string() },
        }
    }
}

fn parse_bundle_record_start(line: &[u8]) -> Result<BundleRecordStart, BundleFault> {
    if line.starts_with(b"{\"seq\":") {
        return Ok(BundleRecordStart::Line);
    }
    let record = Some(line).filter(|line| line.len() <= MAX_RECORD);
    let record = record.ok_or(BundleFault::Record)?;
    if record.starts_with(b"{\"object\":") {
        return serde_json::from_slice(record)
            .map(BundleRecordStart::Object)
            .map_err(|_| BundleFault::Record);
    }
    if record.starts_with(b"{\"end\":") {
        return serde_json::from_slice(record)
            .map(BundleRecordStart::End)
            .map_err(|_| BundleFault::Record);
    }
    Err(BundleFault::Record)
}

/// Bytes read at a time.
const READ: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    /// A line break, which was consumed.
    Break,
    /// The end of the input.
    Eof,
    /// The line is too long.
    Limit,
}

/// Appends a line of at most `limit` bytes to `line`.
fn read_bundle_line(
    input: &mut impl BufRead,
    line: &mut Vec<u8>,
    limit: usize,
) -> io::Result<LineEnd> {
    loop {
        let read = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read.is_empty() {
            return Ok(LineEnd::Eof);
        }
        let found = memchr::memchr(b'\n', read);
        let part = read.get(..found.unwrap_or(read.len())).unwrap_or_default();
        if line.len() + part.len() > limit {
            return Ok(LineEnd::Limit);
        }
        line.extend_from_slice(part);
        let used = part.len() + usize::from(found.is_some());
        input.consume(used);
        if found.is_some() {
            return Ok(LineEnd::Break);
        }
    }
}

/// Counts the bytes read from the input and remembers whether it failed.
struct CountingReader<R> {
    inner: io::BufReader<R>,
    taken: u64,
    failed: bool,
}

impl<R: Read> CountingReader<R> {
    fn new(inner: R) -> Self {
        Self { inner: io::BufReader::with_capacity(READ, inner), taken: 0, failed: false }
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buf)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: Read> BufRead for CountingReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let Self { inner, failed, .. } = self;
        inner.fill_buf().inspect_err(|error| {
            *failed = error.kind() != io::ErrorKind::Interrupted;
        })
    }

    fn consume(&mut self, amount: usize) {
        self.taken += amount as u64;
        self.inner.consume(amount);
    }
}
