//! Lists a directory that is new or has changed: which names are ignored, what each of them is, and
//! which files must be read.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use abide_model::ObjectHash;
use rustix::fs::{AtFlags, FileType, OFlags, Stat};
use rustix::io::Errno;

use crate::error::WorkspaceError;
use crate::snapshot::OmissionReason;
use crate::take::base::NameVerdict;
use crate::take::directory_node::{
    DirectoryNode, DirectoryOutcome, FileToRead, NamesOutcome, OpenDirectory,
};
use crate::take::directory_record::{DirectoryRecord, NameKind, RecordBody, RecordRow};
use crate::take::file_reader::{EarlierContent, FileReading};
use crate::take::listing::Listing;
use crate::take::lookup::RowLookup;
use crate::take::refusal::is_failure_not_refusal;
use crate::take::rules::{
    self, IgnoreStatus, RuleFile, RuleTexts, RulesHash, is_never_taken_by_rules,
};
use crate::take::scan_worker::{ChildDirectory, ScanWorker, stat_matches_row};
use crate::take::stat::{self, FileStamp};

/// The result of listing a directory.
pub(crate) enum ListingOutcome {
    Made(NamesOutcome),
    Not(DirectoryOutcome),
}

/// The names of a directory while they are collected.
#[derive(Default)]
struct GatheredNames {
    body: RecordBody,
    files: u64,
    bytes: u64,
}

impl ScanWorker<'_> {
    /// Lists the directory and collects its names.
    pub(crate) fn gather_directory(
        &mut self,
        node: &OpenDirectory,
        old: Option<&DirectoryRecord<'_>>,
    ) -> Result<ListingOutcome, WorkspaceError> {
        let mut listing = std::mem::take(&mut self.listing);
        let chain =
            listing.read(node.fd.as_fd()).and_then(|()| read_gathering_rules(node, &listing));
        let listed = match chain {
            Ok(chain) => self.gather_names(node, old, &listing, chain),
            Err(errno) => self.ungathered_outcome(node, errno).map(ListingOutcome::Not),
        };
        self.listing = listing;
        listed
    }

    /// A directory whose names or ignore files cannot be read is left out entirely.
    fn ungathered_outcome(
        &self,
        node: &DirectoryNode,
        errno: Errno,
    ) -> Result<DirectoryOutcome, WorkspaceError> {
        let is_root = node.work.parent.is_none();
        match errno {
            Errno::NOENT if !is_root => Ok(DirectoryOutcome::Gone),
            errno if is_root || is_failure_not_refusal(errno) => {
                let place = self.place(&node.work);
                Err(WorkspaceError::io("read the names and the ignore files of", place, errno))
            }
            _ => Ok(DirectoryOutcome::Omitted(OmissionReason::Unreadable)),
        }
    }

    fn gather_names(
        &mut self,
        node: &OpenDirectory,
        old: Option<&DirectoryRecord<'_>>,
        listing: &Listing,
        chain: RulesHash,
    ) -> Result<ListingOutcome, WorkspaceError> {
        let known =
            old.is_some_and(|old| old.head.outer == node.work.outer && old.head.chain == chain);
        let mut lookup = RowLookup::new(old.map(DirectoryRecord::rows));
        let mut gathered = GatheredNames::default();
        for named in &listing.entries {
            self.check()?;
            let name = listing.name(*named);
            let row = lookup.find(name);
            let kind = match self.gathered_kind(node, name, named.kind) {
                Ok(kind) => kind,
                Err(Errno::NOENT) => continue,
                Err(errno) => {
                    let reason = self.gathering_refusal(node, name, errno)?;
                    self.gather_omission(node, name, reason, 0, &mut gathered);
                    continue;
                }
            };
            let is_directory = kind == FileType::Directory;
            let remembered =
                row.filter(|row| known && row.was_directory() == is_directory).map(|row| match row
                    .kind
                {
                    NameKind::Ignored => NameVerdict::Ignored,
                    NameKind::Directory => NameVerdict::Taken(IgnoreStatus::of(row.flag)),
                    _ => NameVerdict::Taken(IgnoreStatus::Plain),
                });
            let verdict = if is_never_taken_by_rules(name, self.scan.means.native) {
                NameVerdict::Ignored
            } else {
                match remembered
                    .map_or_else(|| self.gathering_verdict(node, name, is_directory), Ok)
                {
                    Ok(verdict) => verdict,
                    Err(errno) => {
                        return self.ungathered_without_rules(node, errno).map(ListingOutcome::Not);
                    }
                }
            };
            match verdict {
                NameVerdict::Ignored => gathered.body.ignored(name, kind),
                NameVerdict::Taken(within) => {
                    self.gather_name(node, name, kind, within, row.as_ref(), &mut gathered)?;
                }
            }
        }
        let GatheredNames { body, files, bytes } = gathered;
        self.count(files, bytes);
        Ok(ListingOutcome::Made(NamesOutcome::New { body, chain }))
    }

    /// Leaves a directory out if one above it was moved, removed or made unreadable meanwhile: its
    /// ignore rules are no longer known.
    fn ungathered_without_rules(
        &mut self,
        node: &DirectoryNode,
        errno: Errno,
    ) -> Result<DirectoryOutcome, WorkspaceError> {
        if node.work.parent.is_none() || is_failure_not_refusal(errno) {
            let place = self.place(&node.work);
            return Err(WorkspaceError::io("read the ignore files of", place, errno));
        }
        self.children.clear();
        self.to_read.clear();
        Ok(match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => DirectoryOutcome::Gone,
            _ => DirectoryOutcome::Omitted(OmissionReason::Unreadable),
        })
    }

    fn gathered_kind(
        &self,
        node: &OpenDirectory,
        name: &CStr,
        kind: FileType,
    ) -> Result<FileType, Errno> {
        if kind != FileType::Unknown {
            return Ok(kind);
        }
        let stat = rustix::fs::statat(&node.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(stat::stat_kind(&stat))
    }

    fn gathering_verdict(
        &self,
        node: &OpenDirectory,
        name: &CStr,
        is_directory: bool,
    ) -> Result<NameVerdict, Errno> {
        let base = self.scan.means.base;
        let rules = self.scan.rules(&node.node)?;
        Ok(base.verdict(node.work.within, &node.path_of(name), is_directory, &rules))
    }

    /// Why a name that the system refuses is left out.
    fn gathering_refusal(
        &self,
        node: &DirectoryNode,
        name: &CStr,
        errno: Errno,
    ) -> Result<OmissionReason, WorkspaceError> {
        if is_failure_not_refusal(errno) {
            return Err(self.failure(node, name, errno));
        }
        Ok(OmissionReason::Unreadable)
    }

    /// Adds one name that is not ignored.
    fn gather_name(
        &mut self,
        node: &OpenDirectory,
        name: &CStr,
        kind: FileType,
        within: IgnoreStatus,
        row: Option<&RecordRow<'_>>,
        gathered: &mut GatheredNames,
    ) -> Result<(), WorkspaceError> {
        match kind {
            FileType::Directory => {
                if self.is_gathering_full(gathered, 0) {
                    self.gather_omission(node, name, OmissionReason::OverCap, 0, gathered);
                    return Ok(());
                }
                let row = row.filter(|row| row.kind == NameKind::Directory);
                let number = row.map_or_else(|| self.scan.number(), |row| row.number);
                gathered.body.directory(name, number, within);
                self.children.push(ChildDirectory { name: name.to_owned(), number, within });
                Ok(())
            }
            FileType::RegularFile | FileType::Symlink => {
                self.gather_file(node, name, kind, row, gathered)
            }
            _ => {
                self.gather_omission(node, name, OmissionReason::Special, 0, gathered);
                Ok(())
            }
        }
    }

    fn gather_omission(
        &mut self,
        node: &DirectoryNode,
        name: &CStr,
        reason: OmissionReason,
        size: u64,
        gathered: &mut GatheredNames,
    ) {
        gathered.body.omitted(name, reason);
        self.omit(node, name, reason, size);
    }

    /// Returns true if one more file of this size would exceed a limit.
    fn is_gathering_full(&self, gathered: &GatheredNames, size: u64) -> bool {
        let policy = self.scan.means.policy;
        let files = self.scan.files.load(Ordering::Relaxed) + gathered.files;
        let bytes = self.scan.bytes.load(Ordering::Relaxed) + gathered.bytes;
        files >= policy.max_files || bytes.saturating_add(size) > policy.max_bytes
    }

    fn gather_file(
        &mut self,
        node: &OpenDirectory,
        name: &CStr,
        kind: FileType,
        row: Option<&RecordRow<'_>>,
        gathered: &mut GatheredNames,
    ) -> Result<(), WorkspaceError> {
        let max = self.scan.means.policy.max_file_bytes;
        let stat = match rustix::fs::statat(&node.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => {
                let reason = self.gathering_refusal(node, name, errno)?;
                self.gather_omission(node, name, reason, 0, gathered);
                return Ok(());
            }
        };
        let facts = FileStamp::of(&stat);
        let reading = if stat::stat_kind(&stat) != kind {
            FileReading::Omitted(OmissionReason::Changing, facts.size)
        } else if self.is_gathering_full(gathered, facts.size) {
            FileReading::Omitted(OmissionReason::OverCap, facts.size)
        } else if facts.size > max && kind == FileType::RegularFile {
            FileReading::Omitted(OmissionReason::TooLarge, facts.size)
        } else if let Some(row) = row.filter(|row| is_settled(row, &stat)) {
            let hash = row.object();
            FileReading::Done { kind: row.kind, mode: row.mode, facts, hash }
        } else if kind == FileType::Symlink {
            self.gather_link(node, name, facts, row)?
        } else {
            let at = gathered.body.bytes.len();
            self.to_read.push(FileToRead { at, stat, earlier: row.map(EarlierContent::of) });
            let hash = ObjectHash([0; 32]);
            FileReading::Done { kind: NameKind::File, mode: 0, facts, hash }
        };
        match reading {
            FileReading::Gone => {}
            FileReading::Omitted(reason, size) => {
                self.gather_omission(node, name, reason, size, gathered)
            }
            FileReading::Done { kind, mode, facts, hash } => {
                gathered.files += 1;
                gathered.bytes += if kind == NameKind::Link { 0 } else { facts.size };
                let settled = facts.settled(self.scan.means.settled)
                    || row.is_some_and(|row| is_settled_by(row, kind, &facts));
                gathered.body.file(kind, name, mode, &facts, hash, settled);
            }
        }
        Ok(())
    }

    fn gather_link(
        &mut self,
        node: &OpenDirectory,
        name: &CStr,
        mut facts: FileStamp,
        row: Option<&RecordRow<'_>>,
    ) -> Result<FileReading, WorkspaceError> {
        let target = match rustix::fs::readlinkat(&node.fd, name, Vec::new()) {
            Ok(target) => target,
            Err(Errno::NOENT) => return Ok(FileReading::Gone),
            Err(Errno::INVAL) => return Ok(FileReading::Omitted(OmissionReason::Changing, 0)),
            Err(errno) => {
                return Ok(FileReading::Omitted(self.gathering_refusal(node, name, errno)?, 0));
            }
        };
        let target = target.to_bytes();
        let hash = ObjectHash::of(target);
        if row.is_none_or(|row| row.kind != NameKind::Link || row.object() != hash) {
            self.sink.add(hash, target)?;
        }
        // Some file systems report no size for links.
        facts.size = target.len() as u64;
        Ok(FileReading::Done { kind: NameKind::Link, mode: 0, facts, hash })
    }
}

fn is_settled(row: &RecordRow<'_>, stat: &Stat) -> bool {
    row.flag == RecordRow::SETTLED && stat_matches_row(row, stat)
}

fn is_settled_by(row: &RecordRow<'_>, kind: NameKind, facts: &FileStamp) -> bool {
    row.kind == kind && row.flag == RecordRow::SETTLED && *row.facts == facts.write()
}

/// Reads the directory's rules, keeps them with the node, and returns their hash.
fn read_gathering_rules(node: &OpenDirectory, listing: &Listing) -> Result<RulesHash, Errno> {
    let mut texts = RuleTexts::default();
    for named in &listing.entries {
        let name = listing.name(*named);
        if let Some(rule) = RuleFile::named(name) {
            texts.set(rule, rules::read_rules_text(node.fd.as_fd(), name, OFlags::NOFOLLOW)?);
        } else if name == c".git" {
            texts.repository(rules::read_exclude(node.fd.as_fd())?);
        }
    }
    let chain = texts.sums().chain(node.work.outer);
    node.keep(texts);
    Ok(chain)
}
