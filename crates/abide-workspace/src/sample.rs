//! For tests: objects in memory, and trees that are easy to write down.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Mutex;

use abide_model::{NewObject, ObjectBatch, ObjectHash, ObjectReceiver, Objects, StoreError};

use crate::{ChunkList, EntryKind, Tree, TreeEntry};

/// Files above this are stored in chunks.
const LARGE: usize = 24;
const CHUNK: usize = 10;

/// Objects in memory.
#[derive(Debug, Default)]
pub(crate) struct SampleHeap(Mutex<HashMap<ObjectHash, Vec<u8>>>);

impl SampleHeap {
    pub(crate) fn add(&self, bytes: &[u8]) -> ObjectHash {
        let hash = ObjectHash::of(bytes);
        self.0.lock().unwrap().insert(hash, bytes.to_vec());
        hash
    }

    pub(crate) fn lose(&self, hash: ObjectHash) {
        self.0.lock().unwrap().remove(&hash);
    }
}

impl Objects for SampleHeap {
    fn has(&self, hashes: &[ObjectHash]) -> Result<Vec<bool>, StoreError> {
        let heap = self.0.lock().unwrap();
        Ok(hashes.iter().map(|hash| heap.contains_key(hash)).collect())
    }

    fn put_batch(&self, _: &ObjectBatch) -> Result<u64, StoreError> {
        unreachable!("tests add objects one by one")
    }

    fn put_like(&self, _: &[NewObject]) -> Result<u64, StoreError> {
        unreachable!("tests add objects one by one")
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.lock().unwrap().get(&hash).cloned())
    }

    fn read_many(
        &self,
        hashes: &[ObjectHash],
        each: &mut ObjectReceiver<'_>,
    ) -> Result<(), StoreError> {
        // In reverse: a store may answer in any order.
        for (at, hash) in hashes.iter().enumerate().rev() {
            if each(at, self.read(*hash)?.as_deref()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn places(&self, hashes: &[ObjectHash]) -> Result<Vec<Option<u64>>, StoreError> {
        Ok(hashes.iter().map(|hash| Some(u64::from(hash.0[0]) / 32)).collect())
    }
}

/// A file, a link or a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SampleNode {
    File(Vec<u8>, u16),
    Link(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, SampleNode>, u16),
}

pub(crate) fn file(bytes: &str) -> SampleNode {
    SampleNode::File(bytes.as_bytes().to_vec(), 0o644)
}

pub(crate) fn link(target: &str) -> SampleNode {
    SampleNode::Link(target.as_bytes().to_vec())
}

pub(crate) fn directory<const N: usize>(nodes: [(&str, SampleNode); N]) -> SampleNode {
    let nodes = nodes.into_iter().map(|(name, node)| (name.as_bytes().to_vec(), node));
    SampleNode::Directory(nodes.collect(), 0o755)
}

impl SampleNode {
    pub(crate) fn with_mode(self, mode: u16) -> Self {
        match self {
            Self::File(bytes, _) => Self::File(bytes, mode),
            Self::Link(target) => Self::Link(target),
            Self::Directory(nodes, _) => Self::Directory(nodes, mode),
        }
    }

    /// Stores it. Nothing about its names is checked.
    pub(crate) fn store(&self, heap: &SampleHeap) -> ObjectHash {
        self.entry(b"", heap).hash
    }

    fn entry(&self, name: &[u8], heap: &SampleHeap) -> TreeEntry {
        let (kind, mode, size, hash) = match self {
            Self::File(bytes, mode) if bytes.len() > LARGE => {
                let chunk = |bytes: &[u8]| (bytes.len() as u32, heap.add(bytes));
                let chunks = ChunkList { chunks: bytes.chunks(CHUNK).map(chunk).collect() };
                (EntryKind::Large, *mode, bytes.len(), heap.add(&chunks.write()))
            }
            Self::File(bytes, mode) => (EntryKind::File, *mode, bytes.len(), heap.add(bytes)),
            Self::Link(target) => (EntryKind::Link, 0, target.len(), heap.add(target)),
            Self::Directory(nodes, mode) => {
                let entries = nodes.iter().map(|(name, node)| node.entry(name, heap)).collect();
                (EntryKind::Directory, *mode, 0, heap.add(&Tree { entries }.write()))
            }
        };
        TreeEntry { name: name.to_vec(), kind, mode, size: size as u64, hash }
    }

    /// Creates the files under `path`, which must exist.
    pub(crate) fn make(&self, path: &Path) {
        match self {
            Self::File(bytes, _) => fs::write(path, bytes).unwrap(),
            Self::Link(target) => symlink(OsStr::from_bytes(target), path).unwrap(),
            Self::Directory(nodes, _) => {
                let _ = fs::create_dir(path);
                for (name, node) in nodes {
                    node.make(&path.join(OsStr::from_bytes(name)));
                }
            }
        }
        if let Self::File(_, mode) | Self::Directory(_, mode) = self {
            set_mode(path, *mode);
        }
    }

    /// Reads what is under `path`.
    pub(crate) fn look(path: &Path) -> Self {
        let met = fs::symlink_metadata(path).unwrap();
        let mode = (met.permissions().mode() & 0o7777) as u16;
        if met.is_symlink() {
            return Self::Link(fs::read_link(path).unwrap().into_os_string().into_vec());
        }
        if met.is_file() {
            return Self::File(fs::read(path).unwrap(), mode);
        }
        let nodes = fs::read_dir(path).unwrap().map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_vec(), Self::look(&entry.path()))
        });
        Self::Directory(nodes.collect(), mode)
    }
}

pub(crate) fn set_mode(path: &Path, mode: u16) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode.into())).unwrap();
}
