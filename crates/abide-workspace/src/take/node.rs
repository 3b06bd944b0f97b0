//! A directory while it or something below it is being scanned.

use std::ffi::{CStr, CString};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use abide_model::ObjectHash;
use rustix::fs::Stat;

use crate::snapshot::OmissionReason;
use crate::take::file::{Earlier, Reading};
use crate::take::record::Body;
use crate::take::rules::{Chain, Rules, Texts, Within};
use crate::take::stat::Facts;

/// A unit of work.
pub(crate) enum Work {
    Look(Look),
    /// Some of the files of a directory that has many.
    Read(Arc<Node>, Vec<ToRead>),
}

/// A file to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToRead {
    /// Offset of its row among the names of its directory.
    pub(crate) at: usize,
    pub(crate) stat: Stat,
    pub(crate) earlier: Option<Earlier>,
}

/// A directory to scan.
pub(crate) struct Look {
    pub(crate) parent: Option<Arc<Node>>,
    pub(crate) name: CString,
    pub(crate) number: u32,
    pub(crate) within: Within,
    pub(crate) outer: Chain,
}

/// The result for a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
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
pub(crate) enum Made {
    /// As remembered.
    Same,
    New {
        /// The rows of files are as they were before reading.
        body: Body,
        chain: Chain,
    },
}

/// A directory being scanned.
pub(crate) struct Node {
    pub(crate) work: Look,
    /// `None` while it is closed.
    fd: Mutex<Option<Arc<OwnedFd>>>,
    pub(crate) facts: Facts,
    pub(crate) mode: u16,
    pub(crate) made: OnceLock<Made>,
    /// The number of unfinished parts: directories, files to read, and its own names.
    pending: AtomicUsize,
    outcomes: Mutex<Vec<(u32, Outcome)>>,
    readings: Mutex<Vec<(usize, Reading)>>,
    pub(crate) texts: OnceLock<Texts>,
    pub(crate) rules: OnceLock<Arc<Rules>>,
}

/// A directory that a worker is in, with an open descriptor.
pub(crate) struct Opened {
    pub(crate) node: Arc<Node>,
    pub(crate) fd: Arc<OwnedFd>,
}

impl Deref for Opened {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl Node {
    pub(crate) fn new(work: Look, fd: Arc<OwnedFd>, facts: Facts, mode: u16) -> Self {
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
    pub(crate) fn keep(&self, texts: Texts) {
        let _ = self.texts.set(texts);
    }

    /// Keeps the results of reading files, each with the offset of its row.
    pub(crate) fn keep_readings(&self, readings: Vec<(usize, Reading)>) {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).extend(readings);
    }

    /// The results of reading files, sorted by the offset of their rows.
    pub(crate) fn readings(&self) -> Vec<(usize, Reading)> {
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
    pub(crate) fn done(&self, number: u32, outcome: Outcome) -> bool {
        if !matches!(outcome, Outcome::Same) {
            let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes.push((number, outcome));
        }
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The results for its directories, except unchanged ones, sorted by number.
    pub(crate) fn outcomes(&self) -> Vec<(u32, Outcome)> {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outcomes = std::mem::take(&mut *outcomes);
        outcomes.sort_unstable_by_key(|(number, _)| *number);
        outcomes
    }
}
