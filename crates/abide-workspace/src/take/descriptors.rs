//! The directories kept open while a snapshot is taken. A directory is needed until everything in
//! it is done, so a deep tree needs one per level, but a process can only have so many open. So
//! only some stay open, and a closed one is opened again from its nearest open parent.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::take::directory_node::DirectoryNode;
use crate::take::rules::{RuleTexts, Rules};
use crate::take::scan::SharedScan;
use crate::take::stat::{FileStamp, stat_device};

/// Maximum number of directories kept open, in addition to the one each worker is in.
const OPEN: usize = 64;

/// Opens a directory to list it and to open its entries.
pub(crate) const LIST: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The directories kept open, in the order in which they were opened.
#[derive(Default)]
pub(crate) struct Descriptors {
    open: Mutex<VecDeque<Weak<DirectoryNode>>>,
}

impl Descriptors {
    /// Keeps a directory open. If there are too many, closes the oldest.
    pub(crate) fn keep(&self, node: &Arc<DirectoryNode>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back(Arc::downgrade(node));
        if open.len() <= OPEN {
            return;
        }
        open.retain(|node| node.strong_count() > 0);
        let many = if open.len() > OPEN { open.len() - OPEN / 2 } else { 0 };
        for node in open.drain(..many).filter_map(|node| node.upgrade()) {
            node.close();
        }
    }
}

impl SharedScan<'_> {
    /// The open directory, opened again if it was closed. Fails with [`Errno::NOENT`] if it is no
    /// longer in its place.
    pub(crate) fn directory(&self, node: &Arc<DirectoryNode>) -> Result<Arc<OwnedFd>, Errno> {
        let mut closed = Vec::new();
        let mut at = node;
        let mut fd = loop {
            if let Some(fd) = at.descriptor() {
                break Some(fd);
            }
            closed.push(at);
            match &at.work.parent {
                Some(parent) => at = parent,
                None => break None,
            }
        };
        while let Some(next) = closed.pop() {
            let opened = match fd {
                Some(above) => rustix::fs::openat(above, &*next.work.name, LIST, Mode::empty())?,
                None => rustix::fs::open(self.means.root, LIST, Mode::empty())?,
            };
            let stat = rustix::fs::fstat(&opened)?;
            if stat_device(&stat) != self.means.dev || FileStamp::of(&stat).ino != next.facts.ino {
                return Err(Errno::NOENT);
            }
            let opened = Arc::new(opened);
            // The next directory is usually a sibling of this one or a parent.
            if closed.len() < OPEN / 2 {
                next.reopen(&opened);
                self.descriptors.keep(next);
            }
            fd = Some(opened);
        }
        fd.ok_or(Errno::NOENT)
    }

    /// The rules for the names of a directory, built on first use.
    pub(crate) fn rules(&self, node: &Arc<DirectoryNode>) -> Result<Arc<Rules>, Errno> {
        let mut without = Vec::new();
        let mut at = node;
        let mut rules = loop {
            if let Some(rules) = at.rules.get() {
                break Arc::clone(rules);
            }
            without.push(at);
            match &at.work.parent {
                Some(parent) => at = parent,
                None => break self.means.base.rules(),
            }
        };
        while let Some(next) = without.pop() {
            let made = match next.texts.get() {
                Some(texts) => rules.inside(&next.path(), texts),
                None => {
                    let texts = RuleTexts::read(self.directory(next)?.as_fd())?;
                    rules.inside(&next.path(), &texts)
                }
            };
            rules = Arc::clone(next.rules.get_or_init(|| made));
        }
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::memory_objects::MemoryObjects;
    use crate::policy::Policy;
    use crate::take::base::{BaseRules, PolicyPatterns};
    use crate::take::directory_node::{DirectoryOutcome, DirectoryVisit, OpenDirectory};
    use crate::take::rules::IgnoreStatus;
    use crate::take::scan::ScanInputs;
    use crate::take::scan_gathering::ListingOutcome;
    use crate::take::scan_worker::ScanWorker;
    use crate::take::stat;
    use crate::watch::Watch;

    /// A directory in another.
    fn open(
        scan: &SharedScan<'_>,
        parent: Option<&Arc<DirectoryNode>>,
        name: &str,
    ) -> Arc<DirectoryNode> {
        let fd = match parent {
            Some(parent) => {
                let above = scan.directory(parent).unwrap();
                rustix::fs::openat(above, name, LIST, Mode::empty()).unwrap()
            }
            None => rustix::fs::open(scan.means.root, LIST, Mode::empty()).unwrap(),
        };
        let seen = rustix::fs::fstat(&fd).unwrap();
        let look = DirectoryVisit {
            parent: parent.cloned(),
            name: CString::new(name).unwrap(),
            number: 0,
            within: IgnoreStatus::Plain,
            outer: scan.means.base.chain,
        };
        let node =
            DirectoryNode::new(look, Arc::new(fd), FileStamp::of(&seen), stat::stat_mode(&seen));
        let node = Arc::new(node);
        scan.descriptors.keep(&node);
        node
    }

    /// Scans a directory of three times as many as stay open, one in the other, none of which is done.
    fn scanned(test: impl FnOnce(&Path, &SharedScan<'_>, &[Arc<DirectoryNode>])) {
        let place = tempfile::tempdir().unwrap();
        let deep: PathBuf = std::iter::repeat_n("d", 3 * OPEN).collect();
        fs::create_dir_all(place.path().join(&deep)).unwrap();
        fs::write(place.path().join(deep).join("file"), "").unwrap();
        let (policy, objects, watch) = (Policy::default(), MemoryObjects::new(), Watch::default());
        let patterns = PolicyPatterns::new(&policy).unwrap();
        let base = BaseRules::read(place.path(), &policy, &patterns, None).unwrap();
        let means = ScanInputs {
            root: place.path(),
            policy: &policy,
            base: &base,
            cache: None,
            objects: &objects,
            watch: &watch,
            dev: stat_device(&rustix::fs::stat(place.path()).unwrap()),
            settled: 0,
            native: true,
        };
        let scan = SharedScan::new(&means);
        let mut nodes = vec![open(&scan, None, "")];
        for _ in 0..3 * OPEN {
            nodes.push(open(&scan, nodes.last(), "d"));
        }
        test(place.path(), &scan, &nodes);
    }

    #[test]
    fn a_directory_that_was_closed_is_opened_again_and_no_other_in_its_place() {
        scanned(|place, scan, nodes| {
            let is_open = |node: &&Arc<DirectoryNode>| node.descriptor().is_some();
            assert!(nodes.iter().filter(is_open).count() <= OPEN);
            for node in nodes.iter().rev() {
                let fd = scan.directory(node).unwrap();
                assert_eq!(FileStamp::of(&rustix::fs::fstat(fd).unwrap()).ino, node.facts.ino);
                assert!(nodes.iter().filter(is_open).count() <= OPEN);
            }
            nodes.iter().for_each(|node| node.close());
            fs::rename(place.join("d/d"), place.join("moved")).unwrap();
            fs::create_dir_all(place.join("d/d/d")).unwrap();
            assert!(scan.directory(&nodes[1]).is_ok());
            assert_eq!(scan.directory(&nodes[3]).unwrap_err(), Errno::NOENT);
        });
    }

    #[test]
    fn a_directory_below_one_that_was_moved_is_left_out_and_nothing_fails() {
        scanned(|place, scan, nodes| {
            let node = nodes.last().unwrap();
            let opened =
                OpenDirectory { node: Arc::clone(node), fd: scan.directory(node).unwrap() };
            nodes.iter().for_each(|node| node.close());
            let mut worker = ScanWorker::new(scan);
            fs::rename(place.join("d/d"), place.join("moved")).unwrap();
            let listed = worker.gather_directory(&opened, None);
            assert!(matches!(listed, Ok(ListingOutcome::Not(DirectoryOutcome::Gone))));
            assert!(worker.to_read.is_empty() && worker.children.is_empty());
            fs::rename(place.join("moved"), place.join("d/d")).unwrap();
            assert!(matches!(worker.gather_directory(&opened, None), Ok(ListingOutcome::Made(_))));
        });
    }
}
