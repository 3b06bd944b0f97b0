//! Appends to a journal: one write and one sync per batch of lines, rotation by size, filling ahead.
//!
//! Invariant: after an error the appender does nothing more. Data written but not synced is cut off
//! if possible; otherwise the next open finds it and cuts it off. A failed sync is never retried.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_model::{Durability, Seq, SessionId};

use crate::filling::write_filling;
use crate::{
    Access, AcknowledgedEnd, FillingPolicy, JOURNAL_VERSION, Journal, JournalError, SegmentForm,
    SegmentHeader, SegmentName, Storage, StorageFile, StorageLock, Sum, Watermark, read_full,
    write_full,
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
    /// When and how far segments are filled.
    pub filling: FillingPolicy,
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
    /// Where the file ends: behind the filling, or behind the last line.
    file_end: u64,
    /// The last bytes that were written. They must still stand before the filling.
    tail: [u8; TAIL],
    /// How many commits of this writer were synced.
    synced_commits: u64,
    /// The bytes of the next filling.
    next_filling: u64,
    /// The version of the journal, once it is needed.
    version: Option<u64>,
    /// Whether the segment may be filled, once that is needed.
    may_fill: Option<bool>,
}

/// 13 characters of the sum of the last line, `"}` and its line feed.
const TAIL: usize = 16;
/// Filling is written for this many batches or more.
const LINES: u64 = 3;

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
        let version = JOURNAL_VERSION;
        let header =
            SegmentHeader { version, session, segment: 1, first: seq.next(), prev: sum }.write();
        write_full(&*file, &header, 0).map_err(JournalError::io("write", &path))?;
        let end = JournalEnd { segment: 1, offset: header.len() as u64, seq, sum };
        let mut appender = Self::resume(to, lock, end, seq, new_names)?;
        appender.empty = true;
        appender.version = Some(version);
        Ok(appender)
    }

    /// Continues at `end`, where recovery found the end of the journal and the file ends. The next
    /// sync makes durable what is not durable yet, and `new_names`.
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
        let next_filling = to.filling.first;
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
            file_end: end.offset,
            tail: [0; TAIL],
            synced_commits: 0,
            next_filling,
            version: None,
            may_fill: None,
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
            self.fill(lines.len() as u64)?;
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
            self.file_end = self.file_end.max(self.end.offset);
            self.keep_tail(lines);
            self.empty = false;
            self.unsynced = true;
        }
        if durability == Durability::Synced && self.unsynced {
            self.sync()?;
            self.synced_commits += 1;
        }
        Ok(())
    }

    /// Cuts the filling off and makes that, and all lines, durable: what follows says so.
    pub fn settle(&mut self) -> Result<(), JournalError> {
        if self.failed {
            return Err(JournalError::Closed);
        }
        let settled = self.check_fence().and_then(|()| {
            self.cut_filling();
            self.sync()
        });
        self.failed = settled.is_err();
        settled
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
    /// everything is synced first. The file is made by its path, which must still be ours. There is
    /// no filling to cut off: it does not go beyond the limit.
    fn rotate(&mut self) -> Result<(), JournalError> {
        if !self.lock.still_holds().map_err(JournalError::io("check the lock of", &self.to.dir))? {
            return Err(JournalError::Fenced { reason: "the lock file was replaced" });
        }
        let version = self.version()?;
        // Also if all lines are durable: an earlier writer's cut of its filling may not be.
        self.sync()?;
        let number = self.end.segment + 1;
        let (path, file) = new_segment(&*self.to.storage, &self.to.dir, number)?;
        let header = SegmentHeader {
            version,
            session: self.to.session,
            segment: number,
            first: self.end.seq.next(),
            prev: self.end.sum,
        }
        .write();
        write_full(&*file, &header, 0).map_err(JournalError::io("write", &path))?;
        (self.file, self.path) = (file, path);
        self.may_fill = None;
        self.end = JournalEnd { segment: number, offset: header.len() as u64, ..self.end };
        self.file_end = self.end.offset;
        self.keep_tail(&header);
        self.unsynced = true;
        self.new_names.push(self.to.dir.clone());
        // The name is made durable at once, whatever the batch asks for: syncing the file later
        // would not do it.
        self.sync()
    }

    /// Fills the segment ahead if the next `bytes` do not fit before its end, so that they and the
    /// lines after them overwrite line feeds.
    fn fill(&mut self, bytes: u64) -> Result<(), JournalError> {
        if self.end.offset + bytes <= self.file_end || self.synced_commits < self.to.filling.after {
            return Ok(());
        }
        // The segment is left when it reaches its limit.
        let to = (self.file_end + self.next_filling).min(self.to.limit);
        // A few lines must fit, or it is written for nothing.
        let room = to.saturating_sub(self.end.offset);
        if bytes.saturating_mul(LINES) > room || !self.may_fill() {
            return Ok(());
        }
        let filled = write_filling(&*self.file, self.file_end, to);
        match filled.map_err(JournalError::io("cut", &self.path))? {
            true => {
                self.file_end = to;
                self.next_filling = (self.next_filling * 2).min(self.to.filling.most);
            }
            // The disk is full or failing. A file that grows as its lines come needs the least.
            false => self.may_fill = Some(false),
        }
        Ok(())
    }

    /// Whether the segment may be filled: its version allows it, and overwriting saves anything.
    fn may_fill(&mut self) -> bool {
        let may_fill = self.may_fill.unwrap_or_else(|| {
            self.file.overwrites_in_place() && self.version().is_ok_and(|version| version >= 2)
        });
        self.may_fill = Some(may_fill);
        may_fill
    }

    fn version(&mut self) -> Result<u64, JournalError> {
        if let Some(version) = self.version {
            return Ok(version);
        }
        let version = Journal::new(self.to.storage.clone(), self.to.dir.clone()).version()?;
        self.version = Some(version);
        Ok(version)
    }

    /// Cuts the filling off. What stays if that fails is only line feeds.
    fn cut_filling(&mut self) {
        if self.file_end > self.end.offset && self.file.truncate(self.end.offset).is_ok() {
            self.file_end = self.end.offset;
        }
    }

    fn keep_tail(&mut self, lines: &[u8]) {
        if let Some(tail) = lines.last_chunk() {
            self.tail = *tail;
        }
    }

    /// Refuses to write if the lock file was replaced or somebody else has appended.
    fn check_fence(&self) -> Result<(), JournalError> {
        let holds = self.lock.seems_held();
        if !holds.map_err(JournalError::io("check the lock of", &self.to.dir))? {
            return Err(JournalError::Fenced { reason: "the lock file was replaced" });
        }
        let len = self.file.len().map_err(JournalError::io("read", &self.path))?;
        if len != self.file_end || !self.tail_stands()? {
            return Err(JournalError::Fenced { reason: "another process changed the journal" });
        }
        Ok(())
    }

    /// Do our last line and the filling still meet at the end? Within the filling, another writer
    /// leaves the length as it is.
    fn tail_stands(&self) -> Result<bool, JournalError> {
        if self.file_end == self.end.offset {
            return Ok(true);
        }
        let mut bytes = [0; TAIL + 1];
        let from = self.end.offset.saturating_sub(TAIL as u64);
        let read = read_full(&*self.file, &mut bytes, from);
        read.map_err(JournalError::io("read", &self.path))?;
        Ok(bytes.split_last() == Some((&b'\n', &self.tail)))
    }
}

impl Drop for Appender {
    /// A closed journal has no filling. After a failure the next open cuts it off.
    fn drop(&mut self) {
        if !self.failed && self.file_end > self.end.offset && self.check_fence().is_ok() {
            self.cut_filling();
        }
    }
}

fn new_segment(
    storage: &dyn Storage,
    dir: &Path,
    number: u64,
) -> Result<(PathBuf, Arc<dyn StorageFile>), JournalError> {
    let path = dir.join(SegmentName { number, form: SegmentForm::Plain }.file_name());
    let file = storage.open(&path, Access::CreateNew).map_err(JournalError::io("create", &path))?;
    Ok((path, file))
}
