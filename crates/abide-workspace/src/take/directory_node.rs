//! A directory while it or something below it is being scanned.

use std::ffi::{CStr, CString};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use abide_model::ObjectHash;
use rustix::fs::Stat;

use crate::snapshot::OmissionReason;
use crate::take::directory_record::RecordBody;
use crate::take::file_reader::{EarlierContent, FileReading};
use crate::take::rules::{IgnoreStatus, RuleTexts, Rules, RulesHash};
use crate::take::stat::FileStamp;

/// A unit of work.
pub(crate) enum ScanWork {
    Look(DirectoryVisit),
    /// Some of the files of a directory that has many.
    Read(Arc<DirectoryNode>, Vec<FileToRead>),
}

/// A file to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileToRead {
    /// Offset of its row among the names of its directory.
    pub(crate) at: usize,
    pub(crate) stat: Stat,
    pub(crate) earlier: Option<EarlierContent>,
}

/// A directory to scan.
pub(crate) struct DirectoryVisit {
    pub(crate) parent: Option<Arc<DirectoryNode>>,
    pub(crate) name: CString,
    pub(crate) number: u32,
    pub(crate) within: IgnoreStatus,
    pub(crate) outer: RulesHash,
}

/// The result for a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DirectoryOutcome {
    /// Unchanged in its parent's tree.
    Same,
    New {
        mode: u16,
        tree: ObjectHash,
        hidden: bool,
    },
    Gone,
    Omitted(OmissionReason),
}

/// The result for a directory's own names.
#[derive(Debug)]
pub(crate) enum NamesOutcome {
    /// As remembered.
    Same,
    New {
        /// The rows of files are as they were before reading.
        body: RecordBody,
        chain: RulesHash,
    },
}

/// A directory being scanned.
pub(crate) struct DirectoryNode {
    pub(crate) work: DirectoryVisit,
    /// `None` while it is closed.
    fd: Mutex<Option<Arc<OwnedFd>>>,
    pub(crate) facts: FileStamp,
    pub(crate) mode: u16,
    pub(crate) made: OnceLock<NamesOutcome>,
    /// The number of unfinished parts: directories, files to read, and its own names.
    pending: AtomicUsize,
    outcomes: Mutex<Vec<(u32, DirectoryOutcome)>>,
    readings: Mutex<Vec<(usize, FileReading)>>,
    pub(crate) texts: OnceLock<RuleTexts>,
    pub(crate) rules: OnceLock<Arc<Rules>>,
}

/// A directory that a worker is in, with an open descriptor.
pub(crate) struct OpenDirectory {
    pub(crate) node: Arc<DirectoryNode>,
    pub(crate) fd: Arc<OwnedFd>,
}

impl Deref for OpenDirectory {
    type Target = DirectoryNode;

    fn deref(&self) -> &DirectoryNode {
        &self.node
    }
}

impl DirectoryNode {
    pub(crate) fn new(work: DirectoryVisit, fd: Arc<OwnedFd>, facts: FileStamp, mode: u16) -> Self {
        Self {
            work,
            fd: Mutex::new(Some(fd)),
            facts,
            mode,
            made: OnceLock::new(),
            pending: AtomicUsize::new(1),
            outcomes: Mutex::default(),
            readings: Mutex::default(),
            texts: OnceLock::new(),
            rules: OnceLock::new(),
        }
    }

    /// The open descriptor; `None` while it is closed.
    pub(crate) fn descriptor(&self) -> Option<Arc<OwnedFd>> {
        self.fd.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn close(&self) {
        *self.fd.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn reopen(&self, fd: &Arc<OwnedFd>) {
        *self.fd.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(fd));
    }

    /// Path relative to the root, without leading or trailing slashes.
    pub(crate) fn path(&self) -> Vec<u8> {
        let mut names: Vec<&CStr> = Vec::new();
        let mut at = self;
        while let Some(parent) = &at.work.parent {
            names.push(&at.work.name);
            at = parent;
        }
        names.reverse();
        names.iter().map(|name| name.to_bytes()).collect::<Vec<_>>().join(&b'/')
    }

    /// The path of a name in this directory.
    pub(crate) fn path_of(&self, name: &CStr) -> Vec<u8> {
        let mut path = self.path();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        path
    }

    /// Keeps this directory's own rules as read.
    pub(crate) fn keep(&self, texts: RuleTexts) {
        let _ = self.texts.set(texts);
    }

    /// Keeps the results of reading files, each with the offset of its row.
    pub(crate) fn keep_readings(&self, readings: Vec<(usize, FileReading)>) {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).extend(readings);
    }

    /// The results of reading files, sorted by the offset of their rows.
    pub(crate) fn readings(&self) -> Vec<(usize, FileReading)> {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut readings = std::mem::take(&mut *readings);
        readings.sort_unstable_by_key(|(at, _)| *at);
        readings
    }

    /// Adds parts to wait for.
    pub(crate) fn wait_for(&self, parts: usize) {
        self.pending.fetch_add(parts, Ordering::Relaxed);
    }

    /// Marks a part as done. Returns whether it was the last.
    pub(crate) fn done(&self, number: u32, outcome: DirectoryOutcome) -> bool {
        if !matches!(outcome, DirectoryOutcome::Same) {
            let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes.push((number, outcome));
        }
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The results for its directories, except unchanged ones, sorted by number.
    pub(crate) fn outcomes(&self) -> Vec<(u32, DirectoryOutcome)> {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outcomes = std::mem::take(&mut *outcomes);
        outcomes.sort_unstable_by_key(|(number, _)| *number);
        outcomes
    }
}
