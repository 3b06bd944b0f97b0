//! Reading one file, whole or as chunks, so that what is stored is what the file was at one moment.

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use abide_model::{ObjectHash, StoreError};
use fastcdc::v2020::FastCDC;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::chunks::Chunks;
use crate::record::{Kind, Row};
use crate::sink::Sink;
use crate::snapshot::OmissionReason;
use crate::stat::{self, Facts};

/// From this size on a file is stored in chunks.
pub(crate) const LARGE: u64 = 1 << 20;
const MIN_CHUNK: usize = 64 << 10;
const MEAN_CHUNK: usize = 256 << 10;
const MAX_CHUNK: usize = 1 << 20;
const WINDOW: usize = 4 << 20;
const TRIES: usize = 3;

/// What came of reading a file.
pub(crate) enum Reading {
    Done { kind: Kind, mode: u16, facts: Facts, hash: ObjectHash },
    Gone,
    Omitted(OmissionReason, u64),
}

/// What reading a file once gave.
enum Try {
    Read(Kind, ObjectHash),
    Moved,
    Refused(Errno),
}

/// A reader with its room.
#[derive(Default)]
pub(crate) struct Reader {
    room: Vec<u8>,
    window: Vec<u8>,
    pub(crate) bytes: u64,
}

impl Reader {
    /// Reads the file and gives it to the sink, unless it is still what `row` says. `stat` is from
    /// before.
    pub(crate) fn read(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        mut stat: Stat,
        max: u64,
        row: Option<&Row<'_>>,
        sink: &mut Sink<'_>,
    ) -> Result<Reading, StoreError> {
        for _ in 0..TRIES {
            let facts = Facts::of(&stat);
            if stat::kind(&stat) != FileType::RegularFile {
                return Ok(Reading::Omitted(OmissionReason::Changing, 0));
            }
            if facts.size > max {
                return Ok(Reading::Omitted(OmissionReason::TooLarge, facts.size));
            }
            match self.once(directory, name, &facts, row, sink)? {
                Try::Read(kind, hash) => {
                    let mode = stat::mode(&stat);
                    return Ok(Reading::Done { kind, mode, facts, hash });
                }
                Try::Refused(Errno::NOENT) => return Ok(Reading::Gone),
                Try::Refused(Errno::LOOP) | Try::Moved => {}
                Try::Refused(_) => {
                    return Ok(Reading::Omitted(OmissionReason::Unreadable, facts.size));
                }
            }
            match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(now) => stat = now,
                Err(_) => return Ok(Reading::Gone),
            }
        }
        Ok(Reading::Omitted(OmissionReason::Changing, Facts::of(&stat).size))
    }

    fn once(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        facts: &Facts,
        row: Option<&Row<'_>>,
        sink: &mut Sink<'_>,
    ) -> Result<Try, StoreError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(errno) => return Ok(Try::Refused(errno)),
        };
        if facts.size >= LARGE {
            return self.large(&file, facts, row, sink);
        }
        let length = match self.small(&file, facts.size as usize) {
            Ok(length) => length,
            Err(errno) => return Ok(Try::Refused(errno)),
        };
        let bytes = self.room.get(..length).unwrap_or_default();
        if !still(&file, facts, length as u64) {
            return Ok(Try::Moved);
        }
        let hash = ObjectHash::of(bytes);
        match row.filter(|row| row.kind == Kind::File).map(Row::object) {
            Some(old) if old == hash => {}
            Some(old) => sink.add_like(hash, bytes, old)?,
            None => sink.add(hash, bytes)?,
        }
        Ok(Try::Read(Kind::File, hash))
    }

    /// Reads up to one byte more than the file should have.
    fn small(&mut self, file: &OwnedFd, size: usize) -> Result<usize, Errno> {
        if self.room.len() <= size {
            self.room.resize(LARGE as usize + 1, 0);
        }
        let mut length = 0;
        while let Some(room) = self.room.get_mut(length..=size).filter(|room| !room.is_empty()) {
            match rustix::io::read(file, room) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.bytes += length as u64;
        Ok(length)
    }

    fn large(
        &mut self,
        file: &OwnedFd,
        facts: &Facts,
        row: Option<&Row<'_>>,
        sink: &mut Sink<'_>,
    ) -> Result<Try, StoreError> {
        self.window.resize(WINDOW, 0);
        let mut chunks = Chunks::default();
        let (mut filled, mut total, mut end) = (0, 0, false);
        while !end {
            while let Some(room) = self.window.get_mut(filled..).filter(|room| !room.is_empty()) {
                match rustix::io::read(file, room) {
                    Ok(0) => {
                        end = true;
                        break;
                    }
                    Ok(more) => {
                        filled += more;
                        total += more as u64;
                    }
                    Err(Errno::INTR) => {}
                    Err(errno) => return Ok(Try::Refused(errno)),
                }
            }
            if total > facts.size {
                return Ok(Try::Moved);
            }
            let window = self.window.get(..filled).unwrap_or_default();
            let cut = cut(window, end, &mut chunks, sink)?;
            self.window.copy_within(cut..filled, 0);
            filled -= cut;
        }
        self.bytes += total;
        if !still(file, facts, total) {
            return Ok(Try::Moved);
        }
        let list = chunks.write();
        let hash = ObjectHash::of(&list);
        match row.filter(|row| row.kind == Kind::Large).map(Row::object) {
            Some(old) if old == hash => {}
            Some(old) => sink.add_like(hash, &list, old)?,
            None => sink.add(hash, &list)?,
        }
        Ok(Try::Read(Kind::Large, hash))
    }
}

/// Cuts chunks off the front, and gives how far they go. What could be cut otherwise with more
/// bytes after it is left.
fn cut(
    window: &[u8],
    end: bool,
    chunks: &mut Chunks,
    sink: &mut Sink<'_>,
) -> Result<usize, StoreError> {
    let mut at = 0;
    for chunk in FastCDC::new(window, MIN_CHUNK, MEAN_CHUNK, MAX_CHUNK) {
        if !end && window.len() - chunk.offset < MAX_CHUNK {
            break;
        }
        at = chunk.offset + chunk.length;
        let bytes = window.get(chunk.offset..at).unwrap_or_default();
        let hash = ObjectHash::of(bytes);
        chunks.chunks.push((chunk.length as u32, hash));
        sink.add(hash, bytes)?;
    }
    Ok(at)
}

/// Is the file after reading what it was before, and was all of it read?
fn still(file: &OwnedFd, before: &Facts, length: u64) -> bool {
    let after = rustix::fs::fstat(file);
    length == before.size && after.is_ok_and(|after| Facts::of(&after) == *before)
}
