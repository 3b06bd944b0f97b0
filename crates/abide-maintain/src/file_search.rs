//! Finds files of workspace snapshots that contain a text: in their bytes, a symlink's target, or a
//! name.
//!
//! What snapshots share is read once.

use std::collections::{BTreeSet, HashMap};

use abide_model::{ObjectHash, StoreError};
use abide_workspace::{ChunkList, EntryKind, ReadObjectFn, Snapshot, Tree, TreeEntry};
use memchr::memmem::Finder;

/// The most paths of a directory that are returned.
const MOST: usize = 10;

/// A search for a text in the files of snapshots.
pub struct FileSearch<'a> {
    text: Finder<'a>,
    read: &'a ReadObjectFn<'a>,
    /// The first paths below each directory.
    trees: HashMap<ObjectHash, Vec<Vec<u8>>>,
    files: HashMap<ObjectHash, bool>,
    /// Objects that could not be read: whether they contain it is unknown.
    pub unread: BTreeSet<ObjectHash>,
}

impl<'a> FileSearch<'a> {
    /// A search for this text; objects are read by `read`.
    pub fn new(text: &'a str, read: &'a ReadObjectFn<'a>) -> Self {
        Self {
            text: Finder::new(text.as_bytes()),
            read,
            trees: HashMap::new(),
            files: HashMap::new(),
            unread: BTreeSet::new(),
        }
    }

    /// The first paths of a snapshot that contain the text. None if the snapshot is not in the
    /// store.
    pub fn paths(&mut self, snapshot: ObjectHash) -> Result<Vec<String>, StoreError> {
        let Some(bytes) = (self.read)(snapshot)? else { return Ok(Vec::new()) };
        let Ok(form) = Snapshot::read(&bytes) else {
            self.unread.insert(snapshot);
            return Ok(Vec::new());
        };
        let left_out = form.omitted.iter().map(|omission| omission.path.clone());
        let mut paths: Vec<String> =
            left_out.filter(|path| self.text.find(path.as_bytes()).is_some()).collect();
        self.tree(form.tree)?;
        let found = self.trees.get(&form.tree).into_iter().flatten();
        paths.extend(found.map(|path| String::from_utf8_lossy(path).into_owned()));
        paths.truncate(MOST);
        Ok(paths)
    }

    /// Whether an object's bytes contain the text.
    pub fn is_in(&mut self, object: ObjectHash) -> Result<bool, StoreError> {
        if let Some(known) = self.files.get(&object) {
            return Ok(*known);
        }
        let found = match (self.read)(object)? {
            Some(bytes) => self.text.find(&bytes).is_some(),
            None => {
                self.unread.insert(object);
                false
            }
        };
        self.files.insert(object, found);
        Ok(found)
    }

    /// Searches below a directory. Uses an explicit stack: a hostile store may nest directories to
    /// any depth.
    fn tree(&mut self, root: ObjectHash) -> Result<(), StoreError> {
        let mut open: Vec<(ObjectHash, Option<Tree>)> = vec![(root, None)];
        while let Some((hash, tree)) = open.pop() {
            if self.trees.contains_key(&hash) {
                continue;
            }
            if let Some(tree) = tree {
                let paths = self.paths_of(&tree)?;
                self.trees.insert(hash, paths);
                continue;
            }
            let Some(Ok(tree)) = (self.read)(hash)?.map(|bytes| Tree::read(&bytes)) else {
                self.unread.insert(hash);
                self.trees.insert(hash, Vec::new());
                continue;
            };
            let directories = tree.entries.iter().filter(|it| it.kind == EntryKind::Directory);
            let within: Vec<ObjectHash> = directories.map(|entry| entry.hash).collect();
            open.push((hash, Some(tree)));
            open.extend(within.into_iter().map(|hash| (hash, None)));
        }
        Ok(())
    }

    /// The paths of a directory whose subdirectories were searched.
    fn paths_of(&mut self, tree: &Tree) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut paths = Vec::new();
        for entry in &tree.entries {
            if paths.len() >= MOST {
                break;
            }
            if self.text.find(&entry.name).is_some() || self.is_in_file(entry)? {
                paths.push(entry.name.clone());
            } else if entry.kind == EntryKind::Directory {
                let below = self.trees.get(&entry.hash).into_iter().flatten();
                let room = MOST - paths.len();
                paths.extend(below.take(room).map(|path| [&entry.name[..], b"/", path].concat()));
            }
        }
        Ok(paths)
    }

    fn is_in_file(&mut self, entry: &TreeEntry) -> Result<bool, StoreError> {
        match entry.kind {
            EntryKind::Directory => Ok(false),
            EntryKind::File | EntryKind::Link => self.is_in(entry.hash),
            EntryKind::Large => self.is_in_large(entry.hash),
        }
    }

    /// Whether a large file contains the text, possibly across two of its chunks.
    fn is_in_large(&mut self, list: ObjectHash) -> Result<bool, StoreError> {
        if let Some(known) = self.files.get(&list) {
            return Ok(*known);
        }
        let Some(Ok(chunks)) = (self.read)(list)?.map(|bytes| ChunkList::read(&bytes)) else {
            self.unread.insert(list);
            return Ok(false);
        };
        let overlap = self.text.needle().len().saturating_sub(1);
        let mut window = Vec::new();
        let mut found = false;
        for (_, chunk) in &chunks.chunks {
            let Some(bytes) = (self.read)(*chunk)? else {
                self.unread.insert(*chunk);
                window.clear();
                continue;
            };
            window.extend_from_slice(&bytes);
            found = self.text.find(&window).is_some();
            if found {
                break;
            }
            window.drain(..window.len().saturating_sub(overlap));
        }
        self.files.insert(list, found);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Objects(HashMap<ObjectHash, Vec<u8>>);

    impl Objects {
        fn put(&mut self, bytes: &[u8]) -> ObjectHash {
            let hash = ObjectHash::of(bytes);
            self.0.insert(hash, bytes.to_vec());
            hash
        }

        fn tree(&mut self, entries: &[(&str, EntryKind, ObjectHash)]) -> ObjectHash {
            let entry = |(name, kind, hash): &(&str, EntryKind, ObjectHash)| TreeEntry {
                name: name.as_bytes().to_vec(),
                kind: *kind,
                mode: 0o644,
                size: 1,
                hash: *hash,
            };
            let tree = Tree { entries: entries.iter().map(entry).collect() };
            self.put(&tree.write())
        }

        fn snapshot(&mut self, tree: ObjectHash) -> ObjectHash {
            let snapshot = Snapshot {
                version: 1,
                tree,
                files: 0,
                directories: 0,
                bytes: 0,
                omitted: Vec::new(),
                omissions: 0,
            };
            self.put(&snapshot.write())
        }
    }

    #[test]
    fn a_text_is_found_in_bytes_targets_names_and_across_chunks() {
        let mut objects = Objects::default();
        let (plain, holds) = (objects.put(b"nothing"), objects.put(b"the secret is here"));
        let parts = [objects.put(b"a part: sec"), objects.put(b"r"), objects.put(b"et")];
        let chunks = ChunkList { chunks: parts.iter().map(|part| (1, *part)).collect() };
        let large = objects.put(&chunks.write());
        let target = objects.put(b"../secret");
        let deep = objects.tree(&[("env", EntryKind::File, holds), ("x", EntryKind::File, plain)]);
        let empty = objects.tree(&[("x", EntryKind::File, plain)]);
        let root = objects.tree(&[
            ("a", EntryKind::Directory, deep),
            ("b", EntryKind::Directory, empty),
            ("large", EntryKind::Large, large),
            ("link", EntryKind::Link, target),
            ("my-secret", EntryKind::File, plain),
            ("plain", EntryKind::File, plain),
        ]);
        let (one, other) = (objects.snapshot(root), objects.snapshot(empty));
        let gone = ObjectHash::of(b"gone");
        let broken = objects.tree(&[("x", EntryKind::File, gone)]);
        let broken = objects.snapshot(broken);
        let read = |hash: ObjectHash| Ok(objects.0.get(&hash).cloned());
        let mut search = FileSearch::new("secret", &read);
        let expected = ["a/env", "large", "link", "my-secret"].map(str::to_owned);
        assert_eq!(search.paths(one).unwrap(), expected);
        assert_eq!(search.paths(one).unwrap(), expected);
        assert_eq!(search.paths(other).unwrap(), [""; 0]);
        assert_eq!(search.paths(gone).unwrap(), [""; 0], "a snapshot that is not here");
        assert!(search.unread.is_empty());
        // What cannot be read may hold it, and that is told.
        assert_eq!(search.paths(broken).unwrap(), [""; 0]);
        assert_eq!(search.unread, BTreeSet::from([gone]));
    }
}
