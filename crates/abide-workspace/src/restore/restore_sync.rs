//! Makes a restore durable: syncs what it touched if that is little, otherwise the whole file
//! system.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rustix::io::Errno;

use super::RestoreRun;
use crate::compare::walk::split_walked_path;
use crate::restore::workspace_root::WorkspaceRoot;
use crate::{EntryKind, RestorePlan, RestoreStep, TreeEntry};

/// With more steps, the whole file system is synced at once.
const FEW_STEPS: usize = 256;

/// How a restore is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestoreSync {
    /// Nothing is synced.
    Left,
    /// Sync each file before it gets its name, and each touched directory at the end.
    Each,
    /// Sync the whole file system at the end.
    Whole,
}

impl RestoreSync {
    pub(super) fn of(plan: &RestorePlan) -> Self {
        let few = plan.steps.len() <= FEW_STEPS;
        let closed = |step: &RestoreStep| step.entry.as_ref().is_some_and(is_closed_to_sync);
        if few && !plan.steps.iter().any(closed) { Self::Each } else { Self::Whole }
    }
}

/// Returns true if the owner may not read it: once it has its mode it cannot be opened for syncing.
fn is_closed_to_sync(entry: &TreeEntry) -> bool {
    entry.kind != EntryKind::Link && entry.mode & 0o400 == 0
}

/// Syncs the file system that holds this directory, for use after
/// [`restore_all`](crate::restore_all).
pub fn sync(root: &Path) -> io::Result<()> {
    Ok(WorkspaceRoot::open(root)?.sync()?)
}

impl RestoreRun<'_> {
    /// Called at the end. Everything the plan did is durable afterwards.
    pub(super) fn sync(&self, plan: &RestorePlan) -> Result<(), Errno> {
        match self.durability {
            RestoreSync::Left => Ok(()),
            RestoreSync::Whole => self.root.sync(),
            RestoreSync::Each => {
                for directory in directories_to_sync(plan) {
                    match self.root.sync_directory(directory) {
                        Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                        // For example, it cannot be opened. Sync the whole file system instead.
                        Err(_) => return self.root.sync(),
                    }
                }
                Ok(())
            }
        }
    }
}

/// The directories whose entries or modes a plan changes.
fn directories_to_sync(plan: &RestorePlan) -> BTreeSet<&[u8]> {
    let mut touched = BTreeSet::new();
    for step in &plan.steps {
        touched.insert(split_walked_path(&step.path).0);
        if step.entry.as_ref().is_some_and(|entry| entry.kind == EntryKind::Directory) {
            touched.insert(&step.path);
        }
    }
    // These may have been opened temporarily.
    touched.extend(plan.closed.iter().map(|(path, _)| path.as_slice()));
    touched
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;
    use crate::sample::{SampleHeap, SampleNode, directory, file, link};

    #[test]
    fn every_directory_that_a_plan_touches_is_synced() {
        let heap = SampleHeap::default();
        let old = directory([
            ("gone", directory([("f", file("f"))])),
            ("same", directory([("f", file("f"))])),
            ("mode", directory([])),
            ("d", directory([("e", directory([("f", file("1"))]).with_mode(0o555))])),
        ]);
        let new = directory([
            ("made", directory([("f", file("f"))])),
            ("same", directory([("f", file("f"))])),
            ("mode", directory([]).with_mode(0o700)),
            ("d", directory([("e", directory([("f", file("2"))]).with_mode(0o555))])),
        ]);
        let plan = plan(&heap, old.store(&heap), new.store(&heap), &[]).unwrap();
        let expected: [&[u8]; 5] = [b"", b"d/e", b"gone", b"made", b"mode"];
        assert_eq!(directories_to_sync(&plan), BTreeSet::from(expected));
        assert_eq!(RestoreSync::of(&plan), RestoreSync::Each);
    }

    #[test]
    fn many_steps_and_files_that_cannot_be_opened_are_synced_with_all() {
        let heap = SampleHeap::default();
        let durability = |new: &SampleNode| {
            let old = directory([]).store(&heap);
            RestoreSync::of(&plan(&heap, old, new.store(&heap), &[]).unwrap())
        };
        let files = |count: usize| {
            let files = (0..count).map(|n| (n.to_string().into_bytes(), file("f")));
            SampleNode::Directory(files.collect(), 0o755)
        };
        assert_eq!(durability(&files(FEW_STEPS)), RestoreSync::Each);
        assert_eq!(durability(&files(FEW_STEPS + 1)), RestoreSync::Whole);
        assert_eq!(durability(&directory([("l", link("f"))])), RestoreSync::Each);
        let closed = directory([("f", file("f").with_mode(0o200))]);
        assert_eq!(durability(&closed), RestoreSync::Whole);
    }

    #[test]
    fn a_directory_is_synced_and_none_is_an_error() {
        let room = tempfile::tempdir().unwrap();
        directory([("d", directory([]))]).make(room.path());
        let root = WorkspaceRoot::open(room.path()).unwrap();
        assert_eq!((root.sync_directory(b""), root.sync_directory(b"d")), (Ok(()), Ok(())));
        assert_eq!(root.sync_directory(b"none"), Err(Errno::NOENT));
        sync(room.path()).unwrap();
        assert_eq!(sync(&room.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
