//! Snapshots of real directories, taken with and without what is remembered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod back;
mod cache;
mod content;
mod deep;
mod git;
mod model;
mod policy;
mod refused;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_model::Objects;
use abide_workspace::{
    ChunkList, EntryKind, MemoryObjects, OmissionReason, Policy, Snapshot, TakenSnapshot, Tree,
    Watch, Workspace, WorkspaceError,
};

/// A workspace, a place for its cache, and a store.
pub(crate) struct Lab {
    directory: tempfile::TempDir,
    pub(crate) objects: MemoryObjects,
    pub(crate) policy: Policy,
    pub(crate) settle: Duration,
    pub(crate) global: Option<PathBuf>,
}

/// What a path holds: its kind, its mode, its bytes.
pub(crate) type Content = BTreeMap<Vec<u8>, (char, u32, Vec<u8>)>;

impl Lab {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("root")).unwrap();
        let policy = Policy { min_free_bytes: 0, ..Policy::default() };
        let (objects, settle, global) = (MemoryObjects::new(), Duration::ZERO, None);
        Self { directory, objects, policy, settle, global }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.beside("cache")
    }

    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn workspace(&self, cache: &Path) -> Workspace {
        Workspace::open(&self.root(), cache, self.policy.clone())
            .unwrap()
            .with_settle(self.settle)
            .with_global_excludes(self.global.clone())
    }

    pub(crate) fn take(&self) -> TakenSnapshot {
        self.try_take().unwrap()
    }

    pub(crate) fn try_take(&self) -> Result<TakenSnapshot, WorkspaceError> {
        self.workspace(&self.cache()).snapshot(&self.objects, &Watch::default())
    }

    /// A snapshot that remembers nothing, into a store of its own.
    pub(crate) fn take_anew(&self) -> TakenSnapshot {
        let objects = MemoryObjects::new();
        let taken = self.workspace(&self.beside("none")).snapshot(&objects, &Watch::default());
        fs::remove_file(self.beside("none")).unwrap();
        taken.unwrap()
    }

    /// All that a snapshot holds, read from the store.
    pub(crate) fn content(&self, taken: &TakenSnapshot) -> Content {
        let stored = self.objects.read(taken.hash).unwrap().unwrap();
        assert_eq!(Snapshot::read(&stored).unwrap(), taken.snapshot);
        let mut content = Content::new();
        self.read_tree(taken.snapshot.tree, &[], &mut content);
        content
    }

    pub(crate) fn paths(&self, taken: &TakenSnapshot) -> Vec<String> {
        let content = self.content(taken);
        content.into_keys().map(|path| String::from_utf8(path).unwrap()).collect()
    }

    pub(crate) fn omitted(&self, taken: &TakenSnapshot) -> Vec<(String, OmissionReason)> {
        let omitted = taken.snapshot.omitted.iter();
        omitted.map(|omission| (omission.path.clone(), omission.reason)).collect()
    }

    fn read_tree(&self, hash: abide_model::ObjectHash, path: &[u8], content: &mut Content) {
        let bytes = self.objects.read(hash).unwrap().expect("a tree is missing");
        for entry in Tree::read(&bytes).unwrap().entries {
            let path = if path.is_empty() {
                entry.name.clone()
            } else {
                [path, b"/", &entry.name].concat()
            };
            let object = || self.objects.read(entry.hash).unwrap().expect("an object is missing");
            let mode = u32::from(entry.mode);
            let (kind, bytes) = match entry.kind {
                EntryKind::Directory => {
                    self.read_tree(entry.hash, &path, content);
                    content.insert(path, ('d', mode, Vec::new()));
                    continue;
                }
                EntryKind::File => ('f', object()),
                EntryKind::Link => ('l', object()),
                EntryKind::Large => {
                    let chunks = ChunkList::read(&object()).unwrap().chunks;
                    let read = |(_, hash)| self.objects.read(hash).unwrap().unwrap();
                    ('f', chunks.into_iter().flat_map(read).collect())
                }
            };
            assert_eq!(entry.size, bytes.len() as u64);
            content.insert(path, (kind, mode, bytes));
        }
    }
}

/// What the file system holds, read plainly.
pub(crate) fn on_disk(root: &Path) -> Content {
    fn read(root: &Path, directory: &Path, content: &mut Content) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            let row = if metadata.is_symlink() {
                ('l', 0, fs::read_link(&path).unwrap().into_os_string().into_vec())
            } else if metadata.is_dir() {
                read(root, &path, content);
                ('d', mode, Vec::new())
            } else {
                ('f', mode, fs::read(&path).unwrap())
            };
            let path = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            content.insert(path, row);
        }
    }
    let mut content = Content::new();
    read(root, root, &mut content);
    content
}

/// Waits until what was written can be told from what is written later.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_millis(25));
}

pub(crate) fn name(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}
