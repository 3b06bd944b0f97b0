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
use crate::take::file::{ReadFailure, Reader, Reading};
use crate::take::gathering::Listed;
use crate::take::listing::Listing;
use crate::take::node::{Look, Made, Node, Opened, Outcome, ToRead, Work};
use crate::take::record::{Kind, Record, Row, Rows};
use crate::take::refusal::is_failure;
use crate::take::rules::{self, RuleFile, Sums, Within};
use crate::take::scan::{Found, Scan};
use crate::take::sink::Sink;
use crate::take::stat::{self, Facts};
use crate::watch::Progress;

/// Approximate size of a part of a directory's files: this many files, or this many bytes.
const PART_FILES: usize = 256;
const PART_BYTES: u64 = 4 << 20;

/// A subdirectory to scan.
pub(crate) struct Child {
    pub(crate) name: CString,
    pub(crate) number: u32,
    pub(crate) within: Within,
}

pub(crate) struct Worker<'a> {
    pub(crate) scan: &'a Scan<'a>,
    own: Vec<Work>,
    pub(crate) sink: Sink<'a>,
    reader: Reader<'a>,
    pub(crate) listing: Listing,
    pub(crate) children: Vec<Child>,
    pub(crate) to_read: Vec<ToRead>,
    pub(crate) found: Found,
    progress: Progress,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(scan: &'a Scan<'a>) -> Self {
        Self {
            scan,
            own: Vec::new(),
            sink: Sink::new(scan.means.objects, &scan.claims),
            reader: Reader::new(scan.means.watch),
            listing: Listing::default(),
            children: Vec::new(),
            to_read: Vec::new(),
            found: Found::default(),
            progress: Progress::default(),
        }
    }

    /// Works until the scan has ended.
    pub(crate) fn run(&mut self) -> Result<(), WorkspaceError> {
        while let Some(work) = self.scan.queue.next(&mut self.own) {
            self.check()?;
            match work {
                Work::Look(look) => self.look(look)?,
                Work::Read(node, files) => {
                    self.read_part(&node, &files)?;
                    self.part_is_done(node)?;
                }
            }
        }
        self.sink.flush()?;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Found {
        self.found.stored = self.sink.stored;
        self.found.used = self.sink.used;
        self.found
    }

    pub(crate) fn check(&self) -> Result<(), WorkspaceError> {
        if self.scan.means.watch.cancelled() { Err(WorkspaceError::Cancelled) } else { Ok(()) }
    }

    /// Scans a directory.
    fn look(&mut self, work: Look) -> Result<(), WorkspaceError> {
        let (fd, stat) = match self.open(&work) {
            Ok(opened) => opened,
            Err(errno) => return self.not_opened(&work, errno),
        };
        if stat::device(&stat) != self.scan.means.dev {
            return self.leave_out(&work, Outcome::Omitted(OmissionReason::Elsewhere));
        }
        let fd = Arc::new(fd);
        let node = Node::new(work, Arc::clone(&fd), Facts::of(&stat), stat::mode(&stat));
        let node = Opened { node: Arc::new(node), fd };
        let old = self.scan.means.cache.and_then(|cache| cache.record(node.work.number));
        self.children.clear();
        let made = match &old {
            Some(old) if self.is_unchanged(&node, old) => {
                self.count(old.head.files, old.head.bytes);
                Made::Same
            }
            _ => match self.list(&node, old.as_ref())? {
                Listed::Made(made) => made,
                Listed::Not(outcome) => return self.leave_out(&node.work, outcome),
            },
        };
        let below = match (&made, &old) {
            (Made::New { chain, .. }, _) => *chain,
            (Made::Same, Some(old)) => old.head.chain,
            (Made::Same, None) => node.work.outer,
        };
        let _ = node.made.set(made);
        node.wait_for(self.children.len());
        if !self.children.is_empty() {
            self.scan.descriptors.keep(&node.node);
        }
        for child in self.children.drain(..).rev() {
            let Child { name, number, within } = child;
            let (parent, outer) = (Some(Arc::clone(&node.node)), below.below(within));
            self.own.push(Work::Look(Look { parent, name, number, within, outer }));
        }
        self.read_or_share(&node)?;
        self.part_is_done(node.node)
    }

    fn part_is_done(&mut self, node: Arc<Node>) -> Result<(), WorkspaceError> {
        self.scan.meter.add(std::mem::take(&mut self.progress));
        let number = node.work.number;
        if node.done(number, Outcome::Same) { self.complete(node) } else { Ok(()) }
    }

    /// Reads the files that must be read, or queues them in parts if they are many.
    fn read_or_share(&mut self, node: &Opened) -> Result<(), WorkspaceError> {
        let files = std::mem::take(&mut self.to_read);
        let parts = parts(&files);
        if let [_, _, ..] = parts.as_slice() {
            node.wait_for(parts.len());
            self.scan.descriptors.keep(&node.node);
            let shared = parts.iter().map(|part| Work::Read(Arc::clone(&node.node), part.to_vec()));
            self.own.extend(shared);
        } else {
            self.read(node, &files)?;
        }
        self.to_read = files;
        self.to_read.clear();
        Ok(())
    }

    /// Reads files of a directory that may have been closed or moved meanwhile.
    fn read_part(&mut self, node: &Arc<Node>, files: &[ToRead]) -> Result<(), WorkspaceError> {
        match self.scan.directory(node) {
            Ok(fd) => self.read(&Opened { node: Arc::clone(node), fd }, files),
            Err(errno) if is_failure(errno) => {
                Err(WorkspaceError::io("open", self.place(&node.work), errno))
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                node.keep_readings(files.iter().map(|file| (file.at, Reading::Gone)).collect());
                Ok(())
            }
            Err(_) => {
                self.omit_all(node, files);
                Ok(())
            }
        }
    }

    /// Omits, by name, files of a directory that can no longer be opened.
    fn omit_all(&mut self, node: &Node, files: &[ToRead]) {
        let Some(Made::New { body, .. }) = node.made.get() else { return };
        let reason = OmissionReason::Unreadable;
        let mut readings = Vec::with_capacity(files.len());
        for file in files {
            let rest = body.bytes.get(file.at..).unwrap_or_default();
            let Some(row) = Rows::new(rest).next() else { continue };
            let size = Facts::of(&file.stat).size;
            self.omit(node, row.name, reason, size);
            readings.push((file.at, Reading::Omitted(reason, size)));
        }
        node.keep_readings(readings);
    }

    fn read(&mut self, node: &Opened, files: &[ToRead]) -> Result<(), WorkspaceError> {
        let Some(Made::New { body, .. }) = node.made.get() else { return Ok(()) };
        let max = self.scan.means.policy.max_file_bytes;
        let mut readings = Vec::with_capacity(files.len());
        for file in files {
            self.check()?;
            let rest = body.bytes.get(file.at..).unwrap_or_default();
            let Some(row) = Rows::new(rest).next() else { continue };
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
            if let Reading::Omitted(reason, size) = reading {
                self.omit(node, row.name, reason, size);
            }
            readings.push((file.at, reading));
        }
        if !readings.is_empty() {
            node.keep_readings(readings);
        }
        Ok(())
    }

    fn open(&self, work: &Look) -> Result<(OwnedFd, Stat), Errno> {
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

    fn not_opened(&mut self, work: &Look, errno: Errno) -> Result<(), WorkspaceError> {
        let outcome = match errno {
            _ if work.parent.is_none() => Err(errno),
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Ok(Outcome::Gone),
            errno if is_failure(errno) => Err(errno),
            _ => Ok(Outcome::Omitted(OmissionReason::Unreadable)),
        };
        match outcome {
            Ok(outcome) => self.leave_out(work, outcome),
            Err(errno) => Err(WorkspaceError::io("open", self.place(work), io::Error::from(errno))),
        }
    }

    /// The error for a name that could not be read.
    pub(crate) fn failure(&self, node: &Node, name: &CStr, errno: Errno) -> WorkspaceError {
        let path = std::ffi::OsStr::from_bytes(&node.path_of(name)).to_owned();
        WorkspaceError::io("read", self.scan.means.root.join(path), errno)
    }

    pub(crate) fn place(&self, work: &Look) -> PathBuf {
        let root = self.scan.means.root;
        match &work.parent {
            Some(parent) => root.join(std::ffi::OsStr::from_bytes(&parent.path_of(&work.name))),
            None => root.to_owned(),
        }
    }

    /// Reports a directory that is not in the snapshot.
    fn leave_out(&mut self, work: &Look, outcome: Outcome) -> Result<(), WorkspaceError> {
        let Some(parent) = &work.parent else {
            self.scan.conclude(outcome);
            return Ok(());
        };
        if let Outcome::Omitted(reason) = outcome {
            self.omit(parent, &work.name, reason, 0);
        }
        if parent.done(work.number, outcome) {
            return self.complete(Arc::clone(parent));
        }
        Ok(())
    }

    pub(crate) fn omit(&mut self, node: &Node, name: &CStr, reason: OmissionReason, size: u64) {
        let path = escaped(&node.path_of(name));
        self.found.omit(Omission { path, reason, size });
    }

    pub(crate) fn count(&mut self, files: u64, bytes: u64) {
        self.scan.files.fetch_add(files, Ordering::Relaxed);
        self.scan.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.progress.files_seen += files;
    }

    /// Returns true if the metadata of the directory and its files is unchanged. Then `children`
    /// holds its subdirectories.
    fn is_unchanged(&mut self, node: &Opened, old: &Record<'_>) -> bool {
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
        let mut sums = Sums::default();
        let unchanged = old.rows().all(|row| self.row_is_unchanged(node, &row, &mut sums));
        if unchanged && sums.chain(node.work.outer) == head.chain {
            return true;
        }
        self.children.clear();
        false
    }

    fn row_is_unchanged(&mut self, node: &Opened, row: &Row<'_>, sums: &mut Sums) -> bool {
        let rule = RuleFile::named(row.name);
        match row.kind {
            Kind::File | Kind::Large | Kind::Link => {
                if row.flag != Row::SETTLED || !is_same(node, row) {
                    return false;
                }
                match (rule, row.kind) {
                    (None, _) | (Some(_), Kind::Link) => true,
                    (Some(rule), Kind::File) => {
                        sums.set(rule, row.object());
                        true
                    }
                    (Some(_), _) => false,
                }
            }
            Kind::Directory => {
                let within = Within::of(row.flag);
                let name = row.name.to_owned();
                self.children.push(Child { name, number: row.number, within });
                true
            }
            Kind::Ignored => {
                if row.name == c".git" {
                    let Ok(exclude) = rules::read_exclude(node.fd.as_fd()) else { return false };
                    sums.repository(exclude.as_deref());
                }
                rule.is_none()
            }
            Kind::Omitted => false,
        }
    }
}

/// Splits the files into parts that are worth giving to different workers.
fn parts(files: &[ToRead]) -> Vec<&[ToRead]> {
    let mut parts = Vec::new();
    let (mut rest, mut count, mut bytes) = (files, 0, 0);
    for file in files {
        count += 1;
        bytes += Facts::of(&file.stat).size;
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
fn is_same(node: &Opened, row: &Row<'_>) -> bool {
    rustix::fs::statat(&node.fd, row.name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| matches(row, &stat))
}

/// Returns true if the row matches this metadata.
pub(crate) fn matches(row: &Row<'_>, stat: &Stat) -> bool {
    let kind = match row.kind {
        Kind::File | Kind::Large => FileType::RegularFile,
        Kind::Link => FileType::Symlink,
        Kind::Directory | Kind::Ignored | Kind::Omitted => return false,
    };
    let mode = kind == FileType::Symlink || row.mode == stat::mode(stat);
    mode && stat::kind(stat) == kind && *row.facts == Facts::of(stat).write()
}

/// A path as text. Bytes that are not UTF-8 become `\xNN`.
pub(crate) fn escaped(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for part in path.utf8_chunks() {
        out.push_str(part.valid());
        for byte in part.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}
