//! A worker thread. It takes directories from the queue. An unchanged directory is only compared
//! with its record; any other is listed, and its record and tree are built anew.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;

use crate::error::WorkspaceError;
use crate::snapshot::{Omission, OmissionReason};
use crate::take::descriptors::LIST;
use crate::take::directory_node::{
    DirectoryNode, DirectoryOutcome, DirectoryVisit, FileToRead, NamesOutcome, OpenDirectory,
    ScanWork,
};
use crate::take::directory_record::{DirectoryRecord, NameKind, RecordRow, RecordRows};
use crate::take::file_reader::{FileReader, FileReading, ReadFailure};
use crate::take::listing::Listing;
use crate::take::object_sink::ObjectSink;
use crate::take::refusal::is_failure_not_refusal;
use crate::take::rules::{self, IgnoreStatus, RuleFile, RuleHashes};
use crate::take::scan::{ScanTally, SharedScan};
use crate::take::scan_gathering::ListingOutcome;
use crate::take::stat::{self, FileStamp};
use crate::watch::SnapshotProgress;

/// Approximate size of a part of a directory's files: this many files, or this many bytes.
const PART_FILES: usize = 256;
const PART_BYTES: u64 = 4 << 20;

/// A subdirectory to scan.
pub(crate) struct ChildDirectory {
    pub(crate) name: CString,
    pub(crate) number: u32,
    pub(crate) within: IgnoreStatus,
}

pub(crate) struct ScanWorker<'a> {
    pub(crate) scan: &'a SharedScan<'a>,
    own: Vec<ScanWork>,
    pub(crate) sink: ObjectSink<'a>,
    reader: FileReader<'a>,
    pub(crate) listing: Listing,
    pub(crate) children: Vec<ChildDirectory>,
    pub(crate) to_read: Vec<FileToRead>,
    pub(crate) found: ScanTally,
    progress: SnapshotProgress,
}

impl<'a> ScanWorker<'a> {
    pub(crate) fn new(scan: &'a SharedScan<'a>) -> Self {
        Self {
            scan,
            own: Vec::new(),
            sink: ObjectSink::new(scan.means.objects, &scan.claims),
            reader: FileReader::new(scan.means.watch),
            listing: Listing::default(),
            children: Vec::new(),
            to_read: Vec::new(),
            found: ScanTally::default(),
            progress: SnapshotProgress::default(),
        }
    }

    /// Works until the scan has ended.
    pub(crate) fn run(&mut self) -> Result<(), WorkspaceError> {
        while let Some(work) = self.scan.queue.next(&mut self.own) {
            self.check()?;
            match work {
                ScanWork::Look(look) => self.look(look)?,
                ScanWork::Read(node, files) => {
                    self.read_part(&node, &files)?;
                    self.part_is_done(node)?;
                }
            }
        }
        self.sink.flush()?;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> ScanTally {
        self.found.stored = self.sink.stored;
        self.found.used = self.sink.used;
        self.found
    }

    pub(crate) fn check(&self) -> Result<(), WorkspaceError> {
        if self.scan.means.watch.cancelled() { Err(WorkspaceError::Cancelled) } else { Ok(()) }
    }

    /// Scans a directory.
    fn look(&mut self, work: DirectoryVisit) -> Result<(), WorkspaceError> {
        let (fd, stat) = match self.open(&work) {
            Ok(opened) => opened,
            Err(errno) => return self.not_opened(&work, errno),
        };
        if stat::stat_device(&stat) != self.scan.means.dev {
            return self.leave_out(&work, DirectoryOutcome::Omitted(OmissionReason::Elsewhere));
        }
        let fd = Arc::new(fd);
        let node =
            DirectoryNode::new(work, Arc::clone(&fd), FileStamp::of(&stat), stat::stat_mode(&stat));
        let node = OpenDirectory { node: Arc::new(node), fd };
        let old = self.scan.means.cache.and_then(|cache| cache.record(node.work.number));
        self.children.clear();
        let made = match &old {
            Some(old) if self.is_unchanged(&node, old) => {
                self.count(old.head.files, old.head.bytes);
                NamesOutcome::Same
            }
            _ => match self.gather_directory(&node, old.as_ref())? {
                ListingOutcome::Made(made) => made,
                ListingOutcome::Not(outcome) => return self.leave_out(&node.work, outcome),
            },
        };
        let below = match (&made, &old) {
            (NamesOutcome::New { chain, .. }, _) => *chain,
            (NamesOutcome::Same, Some(old)) => old.head.chain,
            (NamesOutcome::Same, None) => node.work.outer,
        };
        let _ = node.made.set(made);
        node.wait_for(self.children.len());
        if !self.children.is_empty() {
            self.scan.descriptors.keep(&node.node);
        }
        for child in self.children.drain(..).rev() {
            let ChildDirectory { name, number, within } = child;
            let (parent, outer) = (Some(Arc::clone(&node.node)), below.below(within));
            self.own.push(ScanWork::Look(DirectoryVisit { parent, name, number, within, outer }));
        }
        self.read_or_share(&node)?;
        self.part_is_done(node.node)
    }

    fn part_is_done(&mut self, node: Arc<DirectoryNode>) -> Result<(), WorkspaceError> {
        self.scan.meter.add(std::mem::take(&mut self.progress));
        let number = node.work.number;
        if node.done(number, DirectoryOutcome::Same) { self.complete(node) } else { Ok(()) }
    }

    /// Reads the files that must be read, or queues them in parts if they are many.
    fn read_or_share(&mut self, node: &OpenDirectory) -> Result<(), WorkspaceError> {
        let files = std::mem::take(&mut self.to_read);
        let parts = split_for_workers(&files);
        if let [_, _, ..] = parts.as_slice() {
            node.wait_for(parts.len());
            self.scan.descriptors.keep(&node.node);
            let shared =
                parts.iter().map(|part| ScanWork::Read(Arc::clone(&node.node), part.to_vec()));
            self.own.extend(shared);
        } else {
            self.read(node, &files)?;
        }
        self.to_read = files;
        self.to_read.clear();
        Ok(())
    }

    /// Reads files of a directory that may have been closed or moved meanwhile.
    fn read_part(
        &mut self,
        node: &Arc<DirectoryNode>,
        files: &[FileToRead],
    ) -> Result<(), WorkspaceError> {
        match self.scan.directory(node) {
            Ok(fd) => self.read(&OpenDirectory { node: Arc::clone(node), fd }, files),
            Err(errno) if is_failure_not_refusal(errno) => {
                Err(WorkspaceError::io("open", self.place(&node.work), errno))
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                node.keep_readings(files.iter().map(|file| (file.at, FileReading::Gone)).collect());
                Ok(())
            }
            Err(_) => {
                self.omit_all(node, files);
                Ok(())
            }
        }
    }

    /// Omits, by name, files of a directory that can no longer be opened.
    fn omit_all(&mut self, node: &DirectoryNode, files: &[FileToRead]) {
        let Some(NamesOutcome::New { body, .. }) = node.made.get() else { return };
        let reason = OmissionReason::Unreadable;
        let mut readings = Vec::with_capacity(files.len());
        for file in files {
            let rest = body.bytes.get(file.at..).unwrap_or_default();
            let Some(row) = RecordRows::new(rest).next() else { continue };
            let size = FileStamp::of(&file.stat).size;
            self.omit(node, row.name, reason, size);
            readings.push((file.at, FileReading::Omitted(reason, size)));
        }
        node.keep_readings(readings);
    }

    fn read(&mut self, node: &OpenDirectory, files: &[FileToRead]) -> Result<(), WorkspaceError> {
        let Some(NamesOutcome::New { body, .. }) = node.made.get() else { return Ok(()) };
        let max = self.scan.means.policy.max_file_bytes;
        let mut readings = Vec::with_capacity(files.len());
        for file in files {
            self.check()?;
            let rest = body.bytes.get(file.at..).unwrap_or_default();
            let Some(row) = RecordRows::new(rest).next() else { continue };
            let before = self.reader.bytes;
            let (fd, sink) = (node.fd.as_fd(), &mut self.sink);
            let reading = self.reader.read(fd, row.name, file.stat, max, file.earlier, sink);
            let reading = reading.map_err(|failure| match failure {
                ReadFailure::Store(error) => error.into(),
                ReadFailure::System(errno) => self.failure(node, row.name, errno),
            })?;
            self.check()?;
            self.progress.files_read += 1;
            self.progress.bytes_read += self.reader.bytes - before;
            if let FileReading::Omitted(reason, size) = reading {
                self.omit(node, row.name, reason, size);
            }
            readings.push((file.at, reading));
        }
        if !readings.is_empty() {
            node.keep_readings(readings);
        }
        Ok(())
    }

    fn open(&self, work: &DirectoryVisit) -> Result<(OwnedFd, Stat), Errno> {
        let fd = match &work.parent {
            Some(parent) => {
                let above = self.scan.directory(parent)?;
                rustix::fs::openat(above, &*work.name, LIST, Mode::empty())?
            }
            None => rustix::fs::open(self.scan.means.root, LIST, Mode::empty())?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        Ok((fd, stat))
    }

    fn not_opened(&mut self, work: &DirectoryVisit, errno: Errno) -> Result<(), WorkspaceError> {
        let outcome = match errno {
            _ if work.parent.is_none() => Err(errno),
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Ok(DirectoryOutcome::Gone),
            errno if is_failure_not_refusal(errno) => Err(errno),
            _ => Ok(DirectoryOutcome::Omitted(OmissionReason::Unreadable)),
        };
        match outcome {
            Ok(outcome) => self.leave_out(work, outcome),
            Err(errno) => Err(WorkspaceError::io("open", self.place(work), io::Error::from(errno))),
        }
    }

    /// The error for a name that could not be read.
    pub(crate) fn failure(
        &self,
        node: &DirectoryNode,
        name: &CStr,
        errno: Errno,
    ) -> WorkspaceError {
        let path = std::ffi::OsStr::from_bytes(&node.path_of(name)).to_owned();
        WorkspaceError::io("read", self.scan.means.root.join(path), errno)
    }

    pub(crate) fn place(&self, work: &DirectoryVisit) -> PathBuf {
        let root = self.scan.means.root;
        match &work.parent {
            Some(parent) => root.join(std::ffi::OsStr::from_bytes(&parent.path_of(&work.name))),
            None => root.to_owned(),
        }
    }

    /// Reports a directory that is not in the snapshot.
    fn leave_out(
        &mut self,
        work: &DirectoryVisit,
        outcome: DirectoryOutcome,
    ) -> Result<(), WorkspaceError> {
        let Some(parent) = &work.parent else {
            self.scan.conclude(outcome);
            return Ok(());
        };
        if let DirectoryOutcome::Omitted(reason) = outcome {
            self.omit(parent, &work.name, reason, 0);
        }
        if parent.done(work.number, outcome) {
            return self.complete(Arc::clone(parent));
        }
        Ok(())
    }

    pub(crate) fn omit(
        &mut self,
        node: &DirectoryNode,
        name: &CStr,
        reason: OmissionReason,
        size: u64,
    ) {
        let path = escaped_worker_path(&node.path_of(name));
        self.found.omit(Omission { path, reason, size });
    }

    pub(crate) fn count(&mut self, files: u64, bytes: u64) {
        self.scan.files.fetch_add(files, Ordering::Relaxed);
        self.scan.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.progress.files_seen += files;
    }

    /// Returns true if the metadata of the directory and its files is unchanged. Then `children`
    /// holds its subdirectories.
    fn is_unchanged(&mut self, node: &OpenDirectory, old: &DirectoryRecord<'_>) -> bool {
        let (means, head) = (self.scan.means, &old.head);
        let same = head.listed
            && head.outer == node.work.outer
            && head.mode == node.mode
            && (head.mtime, head.ctime, head.ino)
                == (node.facts.mtime, node.facts.ctime, node.facts.ino);
        let files = self.scan.files.load(Ordering::Relaxed).saturating_add(head.files);
        let bytes = self.scan.bytes.load(Ordering::Relaxed).saturating_add(head.bytes);
        let fits = files <= means.policy.max_files && bytes <= means.policy.max_bytes;
        if !means.native || !same || !fits {
            return false;
        }
        let mut sums = RuleHashes::default();
        let unchanged = old.rows().all(|row| self.row_is_unchanged(node, &row, &mut sums));
        if unchanged && sums.chain(node.work.outer) == head.chain {
            return true;
        }
        self.children.clear();
        false
    }

    fn row_is_unchanged(
        &mut self,
        node: &OpenDirectory,
        row: &RecordRow<'_>,
        sums: &mut RuleHashes,
    ) -> bool {
        let rule = RuleFile::named(row.name);
        match row.kind {
            NameKind::File | NameKind::Large | NameKind::Link => {
                if row.flag != RecordRow::SETTLED || !file_matches_row(node, row) {
                    return false;
                }
                match (rule, row.kind) {
                    (None, _) | (Some(_), NameKind::Link) => true,
                    (Some(rule), NameKind::File) => {
                        sums.set(rule, row.object());
                        true
                    }
                    (Some(_), _) => false,
                }
            }
            NameKind::Directory => {
                let within = IgnoreStatus::of(row.flag);
                let name = row.name.to_owned();
                self.children.push(ChildDirectory { name, number: row.number, within });
                true
            }
            NameKind::Ignored => {
                if row.name == c".git" {
                    let Ok(exclude) = rules::read_exclude(node.fd.as_fd()) else { return false };
                    sums.repository(exclude.as_deref());
                }
                rule.is_none()
            }
            NameKind::Omitted => false,
        }
    }
}

/// Splits the files into parts that are worth giving to different workers.
fn split_for_workers(files: &[FileToRead]) -> Vec<&[FileToRead]> {
    let mut parts = Vec::new();
    let (mut rest, mut count, mut bytes) = (files, 0, 0);
    for file in files {
        count += 1;
        bytes += FileStamp::of(&file.stat).size;
        if count >= PART_FILES || bytes >= PART_BYTES {
            let (part, after) = rest.split_at(count);
            parts.push(part);
            (rest, count, bytes) = (after, 0, 0);
        }
    }
    if !rest.is_empty() {
        parts.push(rest);
    }
    parts
}

/// Returns true if the file still matches its row.
fn file_matches_row(node: &OpenDirectory, row: &RecordRow<'_>) -> bool {
    rustix::fs::statat(&node.fd, row.name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| stat_matches_row(row, &stat))
}

/// Returns true if the row matches this metadata.
pub(crate) fn stat_matches_row(row: &RecordRow<'_>, stat: &Stat) -> bool {
    let kind = match row.kind {
        NameKind::File | NameKind::Large => FileType::RegularFile,
        NameKind::Link => FileType::Symlink,
        NameKind::Directory | NameKind::Ignored | NameKind::Omitted => return false,
    };
    let mode = kind == FileType::Symlink || row.mode == stat::stat_mode(stat);
    mode && stat::stat_kind(stat) == kind && *row.facts == FileStamp::of(stat).write()
}

/// A path as text. Bytes that are not UTF-8 become `\xNN`.
pub(crate) fn escaped_worker_path(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for part in path.utf8_chunks() {
        out.push_str(part.valid());
        for byte in part.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}
