//! A directory while the snapshot is at it or below it.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use abide_model::ObjectHash;

use crate::base::Base;
use crate::record::Body;
use crate::rules::{Chain, Rules, Texts, Within};
use crate::snapshot::OmissionReason;
use crate::stat::Facts;

/// A directory to be looked into.
pub(crate) struct Work {
    pub(crate) parent: Option<Arc<Node>>,
    pub(crate) name: CString,
    pub(crate) number: u32,
    pub(crate) within: Within,
    pub(crate) outer: Chain,
}

/// What came of a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    /// It is in its parent's tree as it was.
    Same,
    New {
        mode: u16,
        tree: ObjectHash,
        hidden: bool,
    },
    Gone,
    Omitted(OmissionReason),
}

/// What a look at a directory's own names gave.
#[derive(Debug)]
pub(crate) enum Made {
    /// They are as remembered.
    Same,
    New {
        body: Body,
        chain: Chain,
        files: u64,
        bytes: u64,
    },
}

/// An open directory.
pub(crate) struct Node {
    pub(crate) work: Work,
    pub(crate) fd: OwnedFd,
    pub(crate) facts: Facts,
    pub(crate) mode: u16,
    pub(crate) made: OnceLock<Made>,
    /// The directories in it that are not done, and one for itself.
    pending: AtomicUsize,
    outcomes: Mutex<Vec<(u32, Outcome)>>,
    texts: OnceLock<Texts>,
    rules: OnceLock<Arc<Rules>>,
}

impl Node {
    pub(crate) fn new(work: Work, fd: OwnedFd, facts: Facts, mode: u16) -> Self {
        Self {
            work,
            fd,
            facts,
            mode,
            made: OnceLock::new(),
            pending: AtomicUsize::new(1),
            outcomes: Mutex::default(),
            texts: OnceLock::new(),
            rules: OnceLock::new(),
        }
    }

    /// Its path from the root, without slashes at the ends.
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

    /// The path of a name in it.
    pub(crate) fn path_of(&self, name: &CStr) -> Vec<u8> {
        let mut path = self.path();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        path
    }

    /// Keeps the rules that it brings, as they were read.
    pub(crate) fn keep(&self, texts: Texts) {
        let _ = self.texts.set(texts);
    }

    /// The rules for its names, made when they are first needed.
    pub(crate) fn rules(&self, base: &Base<'_>) -> Arc<Rules> {
        let rules = self.rules.get_or_init(|| {
            let outer = match &self.work.parent {
                Some(parent) => parent.rules(base),
                None => base.rules(),
            };
            let texts = self.texts.get_or_init(|| Texts::read(self.fd.as_fd()));
            outer.inside(&self.path(), texts)
        });
        Arc::clone(rules)
    }

    /// So many directories in it are to be waited for.
    pub(crate) fn wait_for(&self, directories: usize) {
        self.pending.fetch_add(directories, Ordering::Relaxed);
    }

    /// One of them, or its own part, is done. Was it the last?
    pub(crate) fn done(&self, number: u32, outcome: Outcome) -> bool {
        if !matches!(outcome, Outcome::Same) {
            let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes.push((number, outcome));
        }
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// What came of the directories in it, those left out that are as they were, by number.
    pub(crate) fn outcomes(&self) -> Vec<(u32, Outcome)> {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outcomes = std::mem::take(&mut *outcomes);
        outcomes.sort_unstable_by_key(|(number, _)| *number);
        outcomes
    }
}
