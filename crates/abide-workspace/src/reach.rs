//! Finds every object that restoring a snapshot would read.

use std::collections::HashSet;

use abide_model::{ObjectHash, StoreError};

use crate::{ChunkList, EntryKind, Snapshot, Tree};

/// Reads an object; `None` if it is missing or damaged.
pub type ReadObjectFn<'a> = dyn Fn(ObjectHash) -> Result<Option<Vec<u8>>, StoreError> + 'a;

/// Why the objects of a snapshot cannot be determined.
#[derive(Debug, thiserror::Error)]
pub enum ReachError {
    /// An object that the snapshot needs cannot be read.
    #[error("object {object} of snapshot {snapshot} is missing or damaged")]
    Missing {
        /// The snapshot.
        snapshot: ObjectHash,
        /// The object.
        object: ObjectHash,
    },
    /// An object is readable but malformed.
    #[error("object {object} of snapshot {snapshot} cannot be read: {reason}")]
    Form {
        /// The snapshot.
        snapshot: ObjectHash,
        /// The object.
        object: ObjectHash,
        /// What is wrong with it.
        reason: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All objects that a set of snapshots needs, collected one snapshot at a time. Shared objects are
/// visited once.
#[derive(Debug, Default)]
pub struct Reach {
    /// All objects found so far.
    pub objects: HashSet<ObjectHash>,
    /// Objects known to be lost.
    lost: HashSet<ObjectHash>,
    /// Snapshots, trees and chunk lists that were read already.
    read: HashSet<ObjectHash>,
}

impl Reach {
    /// Tolerates these objects being unreadable: they are known to be lost and lead nowhere.
    #[must_use]
    pub fn with_lost(lost: HashSet<ObjectHash>) -> Self {
        Self { lost, ..Self::default() }
    }

    /// Adds a snapshot and everything it refers to.
    pub fn add(&mut self, read: &ReadObjectFn<'_>, snapshot: ObjectHash) -> Result<(), ReachError> {
        let mut walk = ReachWalk { reach: self, read, snapshot };
        let Some(bytes) = walk.object(snapshot)? else { return Ok(()) };
        let form = Snapshot::read(&bytes).map_err(|error| walk.form(snapshot, error))?;
        walk.tree(form.tree)
    }
}

struct ReachWalk<'a, 'r> {
    reach: &'a mut Reach,
    read: &'a ReadObjectFn<'r>,
    snapshot: ObjectHash,
}

impl ReachWalk<'_, '_> {
    /// Reads an object that refers to others; `None` if it was read before or is known to be lost.
    fn object(&mut self, object: ObjectHash) -> Result<Option<Vec<u8>>, ReachError> {
        self.reach.objects.insert(object);
        if self.reach.read.contains(&object) {
            return Ok(None);
        }
        let bytes = (self.read)(object)?;
        if bytes.is_none() && !self.reach.lost.contains(&object) {
            return Err(ReachError::Missing { snapshot: self.snapshot, object });
        }
        self.reach.read.insert(object);
        Ok(bytes)
    }

    fn form(&self, object: ObjectHash, error: impl ToString) -> ReachError {
        ReachError::Form { snapshot: self.snapshot, object, reason: error.to_string() }
    }

    fn tree(&mut self, root: ObjectHash) -> Result<(), ReachError> {
        // An explicit stack, because a hostile store could make a tree arbitrarily deep.
        let mut left = vec![root];
        while let Some(hash) = left.pop() {
            let Some(bytes) = self.object(hash)? else { continue };
            let tree = Tree::read(&bytes).map_err(|error| self.form(hash, error))?;
            for entry in tree.entries {
                match entry.kind {
                    EntryKind::Directory => left.push(entry.hash),
                    EntryKind::Large => self.chunks(entry.hash)?,
                    EntryKind::File | EntryKind::Link => {
                        self.reach.objects.insert(entry.hash);
                    }
                }
            }
        }
        Ok(())
    }

    fn chunks(&mut self, hash: ObjectHash) -> Result<(), ReachError> {
        let Some(bytes) = self.object(hash)? else { return Ok(()) };
        let chunks = ChunkList::read(&bytes).map_err(|error| self.form(hash, error))?;
        self.reach.objects.extend(chunks.chunks.iter().map(|(_, hash)| *hash));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use crate::TreeEntry;

    use super::*;

    #[derive(Default)]
    struct Objects {
        bytes: HashMap<ObjectHash, Vec<u8>>,
        reads: RefCell<Vec<ObjectHash>>,
    }

    impl Objects {
        fn put(&mut self, bytes: Vec<u8>) -> ObjectHash {
            let hash = ObjectHash::of(&bytes);
            self.bytes.insert(hash, bytes);
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
            self.put(tree.write())
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
            self.put(snapshot.write())
        }

        fn reach(&self, reach: &mut Reach, snapshot: ObjectHash) -> Result<(), ReachError> {
            let read = |hash| {
                self.reads.borrow_mut().push(hash);
                Ok(self.bytes.get(&hash).cloned())
            };
            reach.add(&read, snapshot)
        }
    }

    #[test]
    fn everything_that_a_restore_reads_is_reached_and_shared_trees_are_read_once() {
        let mut objects = Objects::default();
        let (file, link) = (ObjectHash::of(b"file"), ObjectHash::of(b"link"));
        let parts = [ObjectHash::of(b"part 1"), ObjectHash::of(b"part 2")];
        let chunks = ChunkList { chunks: parts.iter().map(|part| (9, *part)).collect() };
        let large = objects.put(chunks.write());
        let inner = objects.tree(&[("f", EntryKind::File, file), ("l", EntryKind::Link, link)]);
        let root =
            objects.tree(&[("dir", EntryKind::Directory, inner), ("x", EntryKind::Large, large)]);
        let other = objects.tree(&[("dir", EntryKind::Directory, inner)]);
        let (one, two) = (objects.snapshot(root), objects.snapshot(other));
        let mut reach = Reach::default();
        // That something is live already does not mean that what it leads to is.
        reach.objects.insert(inner);
        objects.reach(&mut reach, one).unwrap();
        objects.reach(&mut reach, two).unwrap();
        let [first, second] = parts;
        let all = [one, two, root, other, inner, large, file, link, first, second];
        assert_eq!(reach.objects, HashSet::from(all));
        let reads = objects.reads.borrow();
        assert_eq!(reads.iter().filter(|hash| **hash == inner).count(), 1);
    }

    #[test]
    fn a_tree_that_cannot_be_read_is_an_error_each_time() {
        let mut objects = Objects::default();
        let gone = ObjectHash::of(b"gone");
        let root = objects.tree(&[("dir", EntryKind::Directory, gone)]);
        let snapshot = objects.snapshot(root);
        let odd_tree = objects.put(b"no tree".to_vec());
        let odd = objects.snapshot(odd_tree);
        for _ in 0..2 {
            let error = objects.reach(&mut Reach::default(), snapshot).unwrap_err();
            assert!(matches!(error, ReachError::Missing { object, .. } if object == gone));
            let error = objects.reach(&mut Reach::default(), odd).unwrap_err();
            assert!(matches!(error, ReachError::Form { object, .. } if object == odd_tree));
        }
    }

    #[test]
    fn what_is_known_to_be_lost_leads_nowhere_and_the_rest_is_reached() {
        let mut objects = Objects::default();
        let (gone, file) = (ObjectHash::of(b"gone"), ObjectHash::of(b"file"));
        let inner = objects.tree(&[("f", EntryKind::File, file)]);
        let root = objects.tree(&[
            ("a", EntryKind::Directory, inner),
            ("b", EntryKind::Directory, gone),
            ("c", EntryKind::Large, gone),
        ]);
        let snapshot = objects.snapshot(root);
        let mut reach = Reach::with_lost(HashSet::from([gone, inner]));
        objects.reach(&mut reach, snapshot).unwrap();
        // One that can be read is not lost.
        assert_eq!(reach.objects, HashSet::from([snapshot, root, inner, gone, file]));
    }
}
