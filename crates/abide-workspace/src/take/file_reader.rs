//! Reads one file, whole or in chunks, so that the stored content is what the file held at one
//! moment.

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use abide_model::{ObjectHash, StoreError};
use fastcdc::v2020::FastCDC;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::chunks::ChunkList;
use crate::snapshot::OmissionReason;
use crate::take::directory_record::{NameKind, RecordRow};
use crate::take::object_sink::ObjectSink;
use crate::take::refusal::is_failure_not_refusal;
use crate::take::stat::{self, FileStamp};
use crate::watch::Watch;

/// Files of at least this size are stored in chunks.
pub(crate) const LARGE: u64 = 1 << 20;
const MIN_CHUNK: usize = 64 << 10;
const MEAN_CHUNK: usize = 256 << 10;
const MAX_CHUNK: usize = 1 << 20;
const WINDOW: usize = 4 << 20;
const TRIES: usize = 3;

/// What a file held when it was last read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EarlierContent {
    pub(crate) kind: NameKind,
    pub(crate) hash: ObjectHash,
}

impl EarlierContent {
    pub(crate) fn of(row: &RecordRow<'_>) -> Self {
        Self { kind: row.kind, hash: row.object() }
    }

    fn object(earlier: Option<Self>, kind: NameKind) -> Option<ObjectHash> {
        earlier.filter(|earlier| earlier.kind == kind).map(|earlier| earlier.hash)
    }
}

/// The result of reading a file.
#[derive(Debug)]
pub(crate) enum FileReading {
    Done { kind: NameKind, mode: u16, facts: FileStamp, hash: ObjectHash },
    Gone,
    Omitted(OmissionReason, u64),
}

/// Why reading a file failed the snapshot.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    Store(StoreError),
    System(Errno),
}

impl From<StoreError> for ReadFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The result of one attempt to read a file.
enum ReadAttempt {
    Read(NameKind, ObjectHash),
    Moved,
    Refused(Errno),
}

/// Reads files, reusing its buffers.
pub(crate) struct FileReader<'a> {
    watch: &'a Watch,
    room: Vec<u8>,
    window: Vec<u8>,
    pub(crate) bytes: u64,
}

impl<'a> FileReader<'a> {
    pub(crate) fn new(watch: &'a Watch) -> Self {
        Self { watch, room: Vec::new(), window: Vec::new(), bytes: 0 }
    }

    /// Reads the file and passes it to the sink, unless it is unchanged. `stat` was taken before.
    pub(crate) fn read(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        mut stat: Stat,
        max: u64,
        earlier: Option<EarlierContent>,
        sink: &mut ObjectSink<'_>,
    ) -> Result<FileReading, ReadFailure> {
        for _ in 0..TRIES {
            let facts = FileStamp::of(&stat);
            if stat::stat_kind(&stat) != FileType::RegularFile {
                return Ok(FileReading::Omitted(OmissionReason::Changing, 0));
            }
            if facts.size > max {
                return Ok(FileReading::Omitted(OmissionReason::TooLarge, facts.size));
            }
            match self.once(directory, name, &facts, earlier, sink)? {
                ReadAttempt::Read(kind, hash) => {
                    let mode = stat::stat_mode(&stat);
                    return Ok(FileReading::Done { kind, mode, facts, hash });
                }
                ReadAttempt::Refused(Errno::NOENT) => return Ok(FileReading::Gone),
                ReadAttempt::Refused(Errno::LOOP | Errno::INTR) | ReadAttempt::Moved => {}
                ReadAttempt::Refused(errno) => return refused_file(errno, facts.size),
            }
            match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(now) => stat = now,
                Err(Errno::NOENT) => return Ok(FileReading::Gone),
                Err(errno) => return refused_file(errno, facts.size),
            }
        }
        Ok(FileReading::Omitted(OmissionReason::Changing, FileStamp::of(&stat).size))
    }

    fn once(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        facts: &FileStamp,
        earlier: Option<EarlierContent>,
        sink: &mut ObjectSink<'_>,
    ) -> Result<ReadAttempt, StoreError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(errno) => return Ok(ReadAttempt::Refused(errno)),
        };
        if facts.size >= LARGE {
            return self.large(&file, facts, earlier, sink);
        }
        let length = match self.small(&file, facts.size as usize) {
            Ok(length) => length,
            Err(errno) => return Ok(ReadAttempt::Refused(errno)),
        };
        let bytes = self.room.get(..length).unwrap_or_default();
        if !file_is_unchanged(&file, facts, length as u64) {
            return Ok(ReadAttempt::Moved);
        }
        let hash = ObjectHash::of(bytes);
        match EarlierContent::object(earlier, NameKind::File) {
            Some(old) if old == hash => {}
            Some(old) => sink.add_like(hash, bytes, old)?,
            None => sink.add(hash, bytes)?,
        }
        Ok(ReadAttempt::Read(NameKind::File, hash))
    }

    /// Reads up to one byte more than the expected size.
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
        facts: &FileStamp,
        earlier: Option<EarlierContent>,
        sink: &mut ObjectSink<'_>,
    ) -> Result<ReadAttempt, StoreError> {
        self.window.resize(WINDOW, 0);
        let mut chunks = ChunkList::default();
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
                    Err(errno) => return Ok(ReadAttempt::Refused(errno)),
                }
            }
            // The caller checks for cancellation too.
            if total > facts.size || self.watch.cancelled() {
                return Ok(ReadAttempt::Moved);
            }
            let window = self.window.get(..filled).unwrap_or_default();
            let cut = cut_file_chunks(window, end, &mut chunks, sink)?;
            self.window.copy_within(cut..filled, 0);
            filled -= cut;
        }
        self.bytes += total;
        if !file_is_unchanged(file, facts, total) {
            return Ok(ReadAttempt::Moved);
        }
        let list = chunks.write();
        let hash = ObjectHash::of(&list);
        match EarlierContent::object(earlier, NameKind::Large) {
            Some(old) if old == hash => {}
            Some(old) => sink.add_like(hash, &list, old)?,
            None => sink.add(hash, &list)?,
        }
        Ok(ReadAttempt::Read(NameKind::Large, hash))
    }
}

fn refused_file(errno: Errno, size: u64) -> Result<FileReading, ReadFailure> {
    if is_failure_not_refusal(errno) {
        return Err(ReadFailure::System(errno));
    }
    Ok(FileReading::Omitted(OmissionReason::Unreadable, size))
}

/// Cuts chunks off the front and returns how many bytes they cover. Leaves the last bytes, where
/// more input could move the boundary.
fn cut_file_chunks(
    window: &[u8],
    end: bool,
    chunks: &mut ChunkList,
    sink: &mut ObjectSink<'_>,
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

/// Returns true if the file is unchanged after reading and all of it was read.
fn file_is_unchanged(file: &OwnedFd, before: &FileStamp, length: u64) -> bool {
    let after = rustix::fs::fstat(file);
    length == before.size && after.is_ok_and(|after| FileStamp::of(&after) == *before)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::memory_objects::MemoryObjects;
    use crate::take::object_sink::Claims;
    use crate::take::rules::read_rules_text;

    #[test]
    fn a_file_that_the_disk_does_not_give_is_no_omission() {
        // Its first page is never mapped, and reading it fails as a broken disk does.
        let own = std::fs::File::open("/proc/self").unwrap();
        let stat = rustix::fs::statat(&own, c"mem", AtFlags::SYMLINK_NOFOLLOW).unwrap();
        let (objects, claims, watch) = (MemoryObjects::new(), Claims::default(), Watch::default());
        let mut sink = ObjectSink::new(&objects, &claims);
        let read = FileReader::new(&watch).read(own.as_fd(), c"mem", stat, 100, None, &mut sink);
        assert!(matches!(read, Err(ReadFailure::System(Errno::IO))), "{read:?}");
        assert_eq!(read_rules_text(own.as_fd(), c"mem", OFlags::NOFOLLOW), Err(Errno::IO));
        assert_eq!(read_rules_text(own.as_fd(), c"exe", OFlags::NOFOLLOW), Ok(None));
    }
}
