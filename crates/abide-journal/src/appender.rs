//! Writing to a journal: one write and one sync for a batch of lines, rotation by size.
//!
//! Invariant: after an error the appender does nothing more. What it wrote and did not sync is
//! cut off where that is possible; the next open finds and cuts it otherwise. A failed sync is
//! never tried again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_model::{Durability, Seq, SessionId};

use crate::{
    Access, JournalError, Lock, Mark, SegmentForm, SegmentHeader, SegmentName, Storage,
    StorageFile, Sum, Watermark, write_full,
};

/// Where a journal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The segment that is written.
    pub segment: u64,
    /// Where the next line goes.
    pub offset: u64,
    /// The last event.
    pub seq: Seq,
    /// Its sum.
    pub sum: Sum,
}

/// Which journal is written, and how.
#[derive(Debug, Clone)]
pub struct AppendTo {
    /// The file system.
    pub storage: Arc<dyn Storage>,
    /// The journal's directory.
    pub dir: PathBuf,
    /// The session.
    pub session: SessionId,
    /// The file of the watermark.
    pub watermark: PathBuf,
    /// Rotate when the segment has this many bytes.
    pub limit: u64,
}

/// The one writer of a journal's bytes.
#[derive(Debug)]
pub struct Appender {
    to: AppendTo,
    lock: Box<dyn Lock>,
    file: Arc<dyn StorageFile>,
    path: PathBuf,
    end: Position,
    watermark: Watermark,
    /// Written and not synced.
    unsynced: bool,
    /// Directories whose names are to be made durable with the next sync.
    new_names: Vec<PathBuf>,
    failed: bool,
    /// The journal has no event of its own yet.
    empty: bool,
    /// Commits so far: a writer that goes on and on has room set aside for it.
    commits: u64,
    /// How far room is set aside in the segment.
    reserved: u64,
}

impl Appender {
    /// Starts the journal of a new session, whose directories exist already, behind `last`: the
    /// event of another session that it is forked at and its sum, or nothing and the genesis sum.
    /// `new_names` are the directories that must be synced for the journal to be found.
    pub fn create(
        to: AppendTo,
        lock: Box<dyn Lock>,
        last: (Seq, Sum),
        new_names: Vec<PathBuf>,
    ) -> Result<Self, JournalError> {
        let session = to.session;
        let (seq, sum) = last;
        let (path, file) = new_segment(&*to.storage, &to.dir, 1)?;
        let header = SegmentHeader { session, segment: 1, first: seq.next(), prev: sum }.write();
        write_full(&*file, &header, 0).map_err(JournalError::io("write", &path))?;
        let end = Position { segment: 1, offset: header.len() as u64, seq, sum };
        let mut appender = Self::resume(to, lock, end, seq, new_names)?;
        appender.empty = true;
        Ok(appender)
    }

    /// Goes on at `end`, where recovery has found that the journal ends. What is not durable yet
    /// becomes so with the next sync, and so do `new_names`.
    pub fn resume(
        to: AppendTo,
        lock: Box<dyn Lock>,
        end: Position,
        durable: Seq,
        new_names: Vec<PathBuf>,
    ) -> Result<Self, JournalError> {
        let name = SegmentName { number: end.segment, form: SegmentForm::Plain };
        let path = to.dir.join(name.file_name());
        let file =
            to.storage.open(&path, Access::Write).map_err(JournalError::io("open", &path))?;
        let watermark = Watermark::open(&*to.storage, &to.watermark)?;
        let unsynced = end.seq > durable || !new_names.is_empty();
        Ok(Self {
            to,
            lock,
            file,
            path,
            end,
            watermark,
            unsynced,
            new_names,
            failed: false,
            empty: false,
            commits: 0,
            reserved: 0,
        })
    }

    /// Where the journal ends.
    #[must_use]
    pub const fn end(&self) -> Position {
        self.end
    }

    /// Writes `lines`, the last of which is `last`, and syncs them when `durability` asks for it.
    /// Without lines, it syncs what is not synced yet.
    pub fn commit(
        &mut self,
        lines: &[u8],
        last: (Seq, Sum),
        durability: Durability,
    ) -> Result<(), JournalError> {
        if self.failed {
            return Err(JournalError::Closed);
        }
        let committed = self.try_commit(lines, last, durability);
        self.failed = committed.is_err();
        committed
    }

    fn try_commit(
        &mut self,
        lines: &[u8],
        last: (Seq, Sum),
        durability: Durability,
    ) -> Result<(), JournalError> {
        self.check_fence()?;
        if !lines.is_empty() {
            if self.end.offset >= self.to.limit && !self.empty {
                self.rotate()?;
            }
            self.reserve(lines.len() as u64);
            if let Err(error) = write_full(&*self.file, lines, self.end.offset) {
                // Nothing of a batch that failed may stay: a part of it would be recovered as
                // events that were reported as not written.
                let _ = self.file.truncate(self.end.offset);
                return Err(JournalError::io("write", &self.path)(error));
            }
            self.end = Position {
                offset: self.end.offset + lines.len() as u64,
                seq: last.0,
                sum: last.1,
                ..self.end
            };
            self.empty = false;
            self.unsynced = true;
        }
        if durability == Durability::Synced && self.unsynced {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.file.sync().map_err(JournalError::io("sync", &self.path))?;
        for dir in std::mem::take(&mut self.new_names) {
            self.to.storage.sync_dir(&dir).map_err(JournalError::io("sync", &dir))?;
        }
        self.unsynced = false;
        self.watermark.write(Mark {
            seq: self.end.seq,
            sum: self.end.sum,
            segment: self.end.segment,
            offset: self.end.offset,
        });
        Ok(())
    }

    /// Begins the next segment. Its header says that everything before it is durable, so that
    /// is made true first.
    fn rotate(&mut self) -> Result<(), JournalError> {
        if self.unsynced {
            self.sync()?;
        }
        let number = self.end.segment + 1;
        let (path, file) = new_segment(&*self.to.storage, &self.to.dir, number)?;
        let header = SegmentHeader {
            session: self.to.session,
            segment: number,
            first: self.end.seq.next(),
            prev: self.end.sum,
        }
        .write();
        write_full(&*file, &header, 0).map_err(JournalError::io("write", &path))?;
        (self.file, self.path) = (file, path);
        self.reserved = 0;
        self.end = Position { segment: number, offset: header.len() as u64, ..self.end };
        self.unsynced = true;
        self.new_names.push(self.to.dir.clone());
        // The name is made durable at once, whatever the batch asks for: a later sync of the
        // file alone would not do it.
        self.sync()
    }

    /// Sets room aside for a writer that goes on and on: a line that needs no new block is durable
    /// sooner. It is never given back by cutting the file; sealing replaces it.
    fn reserve(&mut self, bytes: u64) {
        self.commits += 1;
        if self.commits > RESERVE_AFTER && self.end.offset + bytes > self.reserved {
            self.file.reserve(self.end.offset, RESERVE);
            self.reserved = self.end.offset + RESERVE;
        }
    }

    /// Refuses to write when the lock's file was replaced, or when somebody else has appended.
    fn check_fence(&self) -> Result<(), JournalError> {
        let holds = self.lock.still_holds();
        if !holds.map_err(JournalError::io("check the lock of", &self.to.dir))? {
            return Err(JournalError::Fenced { reason: "the lock file was replaced" });
        }
        let len = self.file.len().map_err(JournalError::io("read", &self.path))?;
        if len != self.end.offset {
            return Err(JournalError::Fenced {
                reason: "the journal was changed by somebody else",
            });
        }
        Ok(())
    }
}

/// After so many commits of one writer, room is set aside, so many bytes at a time.
const RESERVE_AFTER: u64 = 64;
const RESERVE: u64 = 128 << 10;

fn new_segment(
    storage: &dyn Storage,
    dir: &Path,
    number: u64,
) -> Result<(PathBuf, Arc<dyn StorageFile>), JournalError> {
    let path = dir.join(SegmentName { number, form: SegmentForm::Plain }.file_name());
    let file = storage.open(&path, Access::CreateNew).map_err(JournalError::io("create", &path))?;
    Ok((path, file))
}
