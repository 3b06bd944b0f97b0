//! Appends to a journal: one write and one sync per batch of lines, rotation by size.
//!
//! Invariant: after an error the appender does nothing more. Data written but not synced is cut off
//! if possible; otherwise the next open finds it and cuts it off. A failed sync is never retried.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_model::{Durability, Seq, SessionId};

use crate::{
    Access, AcknowledgedEnd, JournalError, SegmentForm, SegmentHeader, SegmentName, Storage,
    StorageFile, StorageLock, Sum, Watermark, write_full,
};

/// The end of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalEnd {
    /// The segment being written.
    pub segment: u64,
    /// The offset of the next line.
    pub offset: u64,
    /// The last event.
    pub seq: Seq,
    /// Its sum.
    pub sum: Sum,
}

/// The journal to append to, and its settings.
#[derive(Debug, Clone)]
pub struct AppendTarget {
    /// The file system.
    pub storage: Arc<dyn Storage>,
    /// The journal's directory.
    pub dir: PathBuf,
    /// The session.
    pub session: SessionId,
    /// The watermark file.
    pub watermark: PathBuf,
    /// Rotate once the segment has this many bytes.
    pub limit: u64,
}

/// The only writer of a journal's bytes.
#[derive(Debug)]
pub struct Appender {
    to: AppendTarget,
    lock: Box<dyn StorageLock>,
    file: Arc<dyn StorageFile>,
    path: PathBuf,
    end: JournalEnd,
    watermark: Watermark,
    /// Data was written but not synced.
    unsynced: bool,
    /// Directories that the next sync must sync too.
    new_names: Vec<PathBuf>,
    failed: bool,
    /// The journal has no event of its own yet.
    empty: bool,
    /// The number of commits. A busy writer gets space preallocated.
    commits: u64,
    /// How far the segment is preallocated.
    reserved: u64,
}

impl Appender {
    /// Starts the journal of a new session after `last`: the event it is forked at and its sum, or
    /// no event and the genesis sum. The directories must exist; those in `new_names` must be
    /// synced for the journal to be found.
    pub fn create(
        to: AppendTarget,
        lock: Box<dyn StorageLock>,
        last: (Seq, Sum),
        new_names: Vec<PathBuf>,
    ) -> Result<Self, JournalError> {
        let session = to.session;
        let (seq, sum) = last;
        let (path, file) = new_segment(&*to.storage, &to.dir, 1)?;
        let header = SegmentHeader { session, segment: 1, first: seq.next(), prev: sum }.write();
        write_full(&*file, &header, 0).map_err(JournalError::io("write", &path))?;
        let end = JournalEnd { segment: 1, offset: header.len() as u64, seq, sum };
        let mut appender = Self::resume(to, lock, end, seq, new_names)?;
        appender.empty = true;
        Ok(appender)
    }

    /// Continues at `end`, where recovery found the end of the journal. The next sync makes durable
    /// what is not durable yet, and `new_names`.
    pub fn resume(
        to: AppendTarget,
        lock: Box<dyn StorageLock>,
        end: JournalEnd,
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

    /// The end of the journal.
    #[must_use]
    pub const fn end(&self) -> JournalEnd {
        self.end
    }

    /// The size of a full segment.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.to.limit
    }

    /// Writes `lines`, the last of which is `last`, and syncs them if `durability` asks for it.
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
                // Nothing of a failed batch may remain: recovery would turn a part of it into
                // events that were reported as not written.
                let _ = self.file.truncate(self.end.offset);
                return Err(JournalError::io("write", &self.path)(error));
            }
            self.end = JournalEnd {
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
        self.watermark.write(AcknowledgedEnd {
            seq: self.end.seq,
            sum: self.end.sum,
            segment: self.end.segment,
            offset: self.end.offset,
        });
        Ok(())
    }

    /// Starts the next segment. Its header states that everything before it is durable, so
    /// everything is synced first.
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
        self.end = JournalEnd { segment: number, offset: header.len() as u64, ..self.end };
        self.unsynced = true;
        self.new_names.push(self.to.dir.clone());
        // The name is made durable at once, whatever the batch asks for: syncing the file later
        // would not do it.
        self.sync()
    }

    /// Preallocates space for a busy writer: a line that needs no new block becomes durable sooner.
    /// The space is never given back by truncating the file; sealing replaces the file.
    fn reserve(&mut self, bytes: u64) {
        self.commits += 1;
        if self.commits > RESERVE_AFTER && self.end.offset + bytes > self.reserved {
            self.file.reserve(self.end.offset, RESERVE);
            self.reserved = self.end.offset + RESERVE;
        }
    }

    /// Refuses to write if the lock file was replaced or somebody else has appended.
    fn check_fence(&self) -> Result<(), JournalError> {
        let holds = self.lock.still_holds();
        if !holds.map_err(JournalError::io("check the lock of", &self.to.dir))? {
            return Err(JournalError::Fenced { reason: "the lock file was replaced" });
        }
        let len = self.file.len().map_err(JournalError::io("read", &self.path))?;
        if len != self.end.offset {
            return Err(JournalError::Fenced { reason: "another process changed the journal" });
        }
        Ok(())
    }
}

/// Preallocation starts after this many commits by one writer, and in steps of this many bytes.
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
