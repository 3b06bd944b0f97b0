//! A thread that takes directories from the queue. One that did not change is compared with what
//! is remembered of it and nothing is built; any other is listed, and its record and its tree are
//! made anew.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::base::Verdict;
use crate::error::WorkspaceError;
use crate::file::{Reader, Reading};
use crate::listing::Listing;
use crate::lookup::Lookup;
use crate::node::{Made, Node, Outcome, Work};
use crate::record::{Body, Kind, Record, Row};
use crate::rules::{self, Chain, RuleFile, Sums, Texts, Within, is_never_taken};
use crate::scan::{Found, Scan};
use crate::sink::Sink;
use crate::snapshot::{Omission, OmissionReason};
use crate::stat::{self, Facts};
use crate::watch::Progress;

/// A directory found in another.
struct Child {
    name: CString,
    number: u32,
    within: Within,
}

pub(crate) struct Worker<'a> {
    pub(crate) scan: &'a Scan<'a>,
    own: Vec<Work>,
    pub(crate) sink: Sink<'a>,
    reader: Reader,
    listing: Listing,
    children: Vec<Child>,
    pub(crate) found: Found,
    progress: Progress,
}

/// What the listing of a directory came to.
enum Listed {
    Made(Made),
    Not(Outcome),
}

/// The names of a directory while they are gathered.
#[derive(Default)]
struct Gathered {
    body: Body,
    files: u64,
    bytes: u64,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(scan: &'a Scan<'a>) -> Self {
        Self {
            scan,
            own: Vec::new(),
            sink: Sink::new(scan.means.objects, &scan.claims),
            reader: Reader::default(),
            listing: Listing::default(),
            children: Vec::new(),
            found: Found::default(),
            progress: Progress::default(),
        }
    }

    /// Works until all is done.
    pub(crate) fn run(&mut self) -> Result<(), WorkspaceError> {
        while let Some(work) = self.scan.queue.next(&mut self.own) {
            self.check()?;
            self.look(work)?;
        }
        self.sink.flush()?;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Found {
        self.found.stored = self.sink.stored;
        self.found.used = self.sink.used;
        self.found
    }

    fn check(&self) -> Result<(), WorkspaceError> {
        if self.scan.means.watch.cancelled() { Err(WorkspaceError::Cancelled) } else { Ok(()) }
    }

    /// Looks into a directory.
    fn look(&mut self, work: Work) -> Result<(), WorkspaceError> {
        let (fd, stat) = match self.open(&work) {
            Ok(opened) => opened,
            Err(errno) => return self.not_opened(&work, errno),
        };
        if stat.st_dev as u64 != self.scan.means.dev {
            return self.leave_out(&work, Outcome::Omitted(OmissionReason::Elsewhere));
        }
        let node = Arc::new(Node::new(work, fd, Facts::of(&stat), stat::mode(&stat)));
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
        for child in self.children.drain(..).rev() {
            let Child { name, number, within } = child;
            let (parent, outer) = (Some(Arc::clone(&node)), below.below(within));
            self.own.push(Work { parent, name, number, within, outer });
        }
        self.scan.meter.add(std::mem::take(&mut self.progress));
        let number = node.work.number;
        if node.done(number, Outcome::Same) { self.complete(node) } else { Ok(()) }
    }

    fn open(&self, work: &Work) -> Result<(OwnedFd, Stat), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match &work.parent {
            Some(parent) => rustix::fs::openat(&parent.fd, &*work.name, flags, Mode::empty())?,
            None => rustix::fs::open(self.scan.means.root, flags, Mode::empty())?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        Ok((fd, stat))
    }

    fn not_opened(&mut self, work: &Work, errno: Errno) -> Result<(), WorkspaceError> {
        let outcome = match errno {
            _ if work.parent.is_none() => Err(errno),
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Ok(Outcome::Gone),
            // Too many open files and the like are no property of this directory.
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Err(errno),
            _ => Ok(Outcome::Omitted(OmissionReason::Unreadable)),
        };
        match outcome {
            Ok(outcome) => self.leave_out(work, outcome),
            Err(errno) => Err(WorkspaceError::io("open", self.place(work), io::Error::from(errno))),
        }
    }

    fn place(&self, work: &Work) -> PathBuf {
        let root = self.scan.means.root;
        match &work.parent {
            Some(parent) => root.join(std::ffi::OsStr::from_bytes(&parent.path_of(&work.name))),
            None => root.to_owned(),
        }
    }

    /// A directory that is not in the snapshot.
    fn leave_out(&mut self, work: &Work, outcome: Outcome) -> Result<(), WorkspaceError> {
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

    fn omit(&mut self, node: &Node, name: &CStr, reason: OmissionReason, size: u64) {
        let path = escaped(&node.path_of(name));
        self.found.omit(Omission { path, reason, size });
    }

    fn count(&mut self, files: u64, bytes: u64) {
        self.scan.files.fetch_add(files, Ordering::Relaxed);
        self.scan.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.progress.files_seen += files;
    }

    /// Are the names of the directory what they were, by their metadata? Then the directories in
    /// it are left in `children`.
    fn is_unchanged(&mut self, node: &Node, old: &Record<'_>) -> bool {
        let (means, head) = (self.scan.means, &old.head);
        let same = head.listed
            && head.outer == node.work.outer
            && head.mode == node.mode
            && (head.mtime, head.ctime, head.ino)
                == (node.facts.mtime, node.facts.ctime, node.facts.ino);
        let files = self.scan.files.load(Ordering::Relaxed).saturating_add(head.files);
        let bytes = self.scan.bytes.load(Ordering::Relaxed).saturating_add(head.bytes);
        let fits = files <= means.policy.max_files && bytes <= means.policy.max_bytes;
        if !means.tells || !same || !fits {
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

    fn row_is_unchanged(&mut self, node: &Node, row: &Row<'_>, sums: &mut Sums) -> bool {
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
                    sums.repository(rules::read_exclude(node.fd.as_fd()).as_deref());
                }
                rule.is_none()
            }
            Kind::Omitted => false,
        }
    }

    /// Lists the directory and gathers its names.
    fn list(
        &mut self,
        node: &Arc<Node>,
        old: Option<&Record<'_>>,
    ) -> Result<Listed, WorkspaceError> {
        let mut listing = std::mem::take(&mut self.listing);
        let listed = match listing.read(node.fd.as_fd()) {
            Ok(()) => self.gather(node, old, &listing).map(Listed::Made),
            Err(Errno::NOENT) => Ok(Listed::Not(Outcome::Gone)),
            Err(_) => Ok(Listed::Not(Outcome::Omitted(OmissionReason::Unreadable))),
        };
        self.listing = listing;
        listed
    }

    fn gather(
        &mut self,
        node: &Arc<Node>,
        old: Option<&Record<'_>>,
        listing: &Listing,
    ) -> Result<Made, WorkspaceError> {
        let chain = read_rules(node, listing);
        let known =
            old.is_some_and(|old| old.head.outer == node.work.outer && old.head.chain == chain);
        let mut lookup = Lookup::new(old.map(Record::rows));
        let mut gathered = Gathered::default();
        for named in &listing.entries {
            self.check()?;
            let name = listing.name(*named);
            let row = lookup.find(name);
            let Some(kind) = self.kind_of(node, name, named.kind) else { continue };
            let is_directory = kind == FileType::Directory;
            let remembered =
                row.filter(|row| known && row.was_directory() == is_directory).map(|row| match row
                    .kind
                {
                    Kind::Ignored => Verdict::Ignored,
                    Kind::Directory => Verdict::Taken(Within::of(row.flag)),
                    _ => Verdict::Taken(Within::Plain),
                });
            let verdict = if is_never_taken(name) {
                Verdict::Ignored
            } else {
                remembered.unwrap_or_else(|| self.verdict(node, name, is_directory))
            };
            match verdict {
                Verdict::Ignored => gathered.body.ignored(name, kind),
                Verdict::Taken(within) => {
                    self.take(node, name, kind, within, row.as_ref(), &mut gathered)?;
                }
            }
        }
        let Gathered { body, files, bytes } = gathered;
        self.count(files, bytes);
        Ok(Made::New { body, chain, files, bytes })
    }

    fn kind_of(&self, node: &Node, name: &CStr, kind: FileType) -> Option<FileType> {
        if kind != FileType::Unknown {
            return Some(kind);
        }
        let stat = rustix::fs::statat(&node.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(stat::kind(&stat))
    }

    fn verdict(&self, node: &Node, name: &CStr, is_directory: bool) -> Verdict {
        let base = self.scan.means.base;
        let path = node.path_of(name);
        base.verdict(node.work.within, &path, is_directory, || node.rules(base))
    }

    /// Takes one name that is not ignored.
    fn take(
        &mut self,
        node: &Arc<Node>,
        name: &CStr,
        kind: FileType,
        within: Within,
        row: Option<&Row<'_>>,
        gathered: &mut Gathered,
    ) -> Result<(), WorkspaceError> {
        match kind {
            FileType::Directory => {
                if self.over(gathered, 0) {
                    self.omit_into(node, name, OmissionReason::OverCap, 0, gathered);
                    return Ok(());
                }
                let row = row.filter(|row| row.kind == Kind::Directory);
                let number = row.map_or_else(|| self.scan.number(), |row| row.number);
                gathered.body.directory(name, number, within);
                self.children.push(Child { name: name.to_owned(), number, within });
                Ok(())
            }
            FileType::RegularFile | FileType::Symlink => {
                self.take_file(node, name, kind, row, gathered)
            }
            _ => {
                self.omit_into(node, name, OmissionReason::Special, 0, gathered);
                Ok(())
            }
        }
    }

    fn omit_into(
        &mut self,
        node: &Node,
        name: &CStr,
        reason: OmissionReason,
        size: u64,
        gathered: &mut Gathered,
    ) {
        gathered.body.omitted(name, reason);
        self.omit(node, name, reason, size);
    }

    /// Would one more file of this size be over a cap?
    fn over(&self, gathered: &Gathered, size: u64) -> bool {
        let policy = self.scan.means.policy;
        let files = self.scan.files.load(Ordering::Relaxed) + gathered.files;
        let bytes = self.scan.bytes.load(Ordering::Relaxed) + gathered.bytes;
        files >= policy.max_files || bytes.saturating_add(size) > policy.max_bytes
    }

    fn take_file(
        &mut self,
        node: &Node,
        name: &CStr,
        kind: FileType,
        row: Option<&Row<'_>>,
        gathered: &mut Gathered,
    ) -> Result<(), WorkspaceError> {
        let max = self.scan.means.policy.max_file_bytes;
        let stat = match rustix::fs::statat(&node.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(_) => {
                self.omit_into(node, name, OmissionReason::Unreadable, 0, gathered);
                return Ok(());
            }
        };
        let facts = Facts::of(&stat);
        let reading = if stat::kind(&stat) != kind {
            Reading::Omitted(OmissionReason::Changing, facts.size)
        } else if self.over(gathered, facts.size) {
            Reading::Omitted(OmissionReason::OverCap, facts.size)
        } else if facts.size > max && kind == FileType::RegularFile {
            Reading::Omitted(OmissionReason::TooLarge, facts.size)
        } else if let Some(row) = row.filter(|row| is_settled(row, &stat)) {
            let hash = row.object();
            Reading::Done { kind: row.kind, mode: row.mode, facts, hash }
        } else if kind == FileType::Symlink {
            self.read_link(node, name, facts, row)?
        } else {
            self.progress.files_read += 1;
            let before = self.reader.bytes;
            let fd = node.fd.as_fd();
            let reading = self.reader.read(fd, name, stat, max, row, &mut self.sink)?;
            self.progress.bytes_read += self.reader.bytes - before;
            reading
        };
        match reading {
            Reading::Gone => {}
            Reading::Omitted(reason, size) => self.omit_into(node, name, reason, size, gathered),
            Reading::Done { kind, mode, facts, hash } => {
                gathered.files += 1;
                gathered.bytes += if kind == Kind::Link { 0 } else { facts.size };
                let settled = facts.settled(self.scan.means.settled)
                    || row.is_some_and(|row| is_settled_by(row, kind, &facts));
                gathered.body.file(kind, name, mode, &facts, hash, settled);
            }
        }
        Ok(())
    }

    fn read_link(
        &mut self,
        node: &Node,
        name: &CStr,
        mut facts: Facts,
        row: Option<&Row<'_>>,
    ) -> Result<Reading, WorkspaceError> {
        let target = match rustix::fs::readlinkat(&node.fd, name, Vec::new()) {
            Ok(target) => target,
            Err(Errno::NOENT) => return Ok(Reading::Gone),
            Err(Errno::INVAL) => return Ok(Reading::Omitted(OmissionReason::Changing, 0)),
            Err(_) => return Ok(Reading::Omitted(OmissionReason::Unreadable, 0)),
        };
        let target = target.to_bytes();
        let hash = abide_model::ObjectHash::of(target);
        if row.is_none_or(|row| row.kind != Kind::Link || row.object() != hash) {
            self.sink.add(hash, target)?;
        }
        // Some file systems give a link no size.
        facts.size = target.len() as u64;
        Ok(Reading::Done { kind: Kind::Link, mode: 0, facts, hash })
    }
}

/// Is the thing what the row says, now?
fn is_same(node: &Node, row: &Row<'_>) -> bool {
    rustix::fs::statat(&node.fd, row.name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| matches(row, &stat))
}

fn is_settled(row: &Row<'_>, stat: &Stat) -> bool {
    row.flag == Row::SETTLED && matches(row, stat)
}

fn is_settled_by(row: &Row<'_>, kind: Kind, facts: &Facts) -> bool {
    row.kind == kind && row.flag == Row::SETTLED && *row.facts == facts.write()
}

/// Does the row hold for what has this metadata?
fn matches(row: &Row<'_>, stat: &Stat) -> bool {
    let kind = match row.kind {
        Kind::File | Kind::Large => FileType::RegularFile,
        Kind::Link => FileType::Symlink,
        Kind::Directory | Kind::Ignored | Kind::Omitted => return false,
    };
    let mode = kind == FileType::Symlink || row.mode == stat::mode(stat);
    mode && stat::kind(stat) == kind && *row.facts == Facts::of(stat).write()
}

/// The rules that the directory brings, kept with it, and the chain that they make.
fn read_rules(node: &Node, listing: &Listing) -> Chain {
    let mut texts = Texts::default();
    for named in &listing.entries {
        let name = listing.name(*named);
        if let Some(rule) = RuleFile::named(name) {
            texts.set(rule, rules::read_text(node.fd.as_fd(), name, OFlags::NOFOLLOW));
        } else if name == c".git" {
            texts.repository(rules::read_exclude(node.fd.as_fd()));
        }
    }
    let chain = texts.sums().chain(node.work.outer);
    node.keep(texts);
    chain
}

/// A path as text. What is not UTF-8 is shown as `\xNN`.
fn escaped(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for part in path.utf8_chunks() {
        out.push_str(part.valid());
        for byte in part.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}
