//! Finds the snapshots that cannot be fully restored because an object they need is lost.

use std::collections::{BTreeSet, HashMap, HashSet};

use abide_model::{ObjectHash, StoreError};

use crate::{ChunkList, EntryKind, ReadObjectFn, Snapshot, Tree};

/// Reports which objects are readable, in the order of the request.
pub type ReadableObjects<'a> = dyn Fn(&[ObjectHash]) -> Result<Vec<bool>, StoreError> + 'a;

/// Objects that snapshots need and that cannot be read.
#[derive(Debug, Default)]
pub struct Losses {
    /// The unreadable objects.
    pub objects: BTreeSet<ObjectHash>,
    /// For each object, the objects that refer to it.
    above: HashMap<ObjectHash, Vec<ObjectHash>>,
}

/// The type of an object, as implied by the object that refers to it.
#[derive(Debug, Clone, Copy)]
enum ObjectRole {
    Snapshot,
    Tree,
    Chunks,
    /// A file, a link's target or a chunk.
    Content,
}

impl Losses {
    /// Checks everything these snapshots refer to. Shared objects are checked once.
    pub fn of(
        snapshots: &[ObjectHash],
        read: &ReadObjectFn<'_>,
        readable: &ReadableObjects<'_>,
    ) -> Result<Self, StoreError> {
        let mut losses = Self::default();
        let mut contents = Vec::new();
        let mut seen = HashSet::new();
        let mut left: Vec<_> = snapshots.iter().map(|hash| (*hash, ObjectRole::Snapshot)).collect();
        while let Some((hash, role)) = left.pop() {
            // The same object can be a file in one place and a directory in another.
            let is_content = matches!(role, ObjectRole::Content);
            if !seen.insert((hash, is_content)) {
                continue;
            }
            if is_content {
                contents.push(hash);
                continue;
            }
            let Some(named) = read(hash)?.and_then(|bytes| names_for_losses(role, &bytes)) else {
                losses.objects.insert(hash);
                continue;
            };
            for (name, _) in &named {
                losses.above.entry(*name).or_default().push(hash);
            }
            left.extend(named);
        }
        let there = readable(&contents)?;
        let lost = contents.into_iter().zip(there).filter(|(_, there)| !there);
        losses.objects.extend(lost.map(|(hash, _)| hash));
        Ok(losses)
    }

    /// Maps every object that leads to a lost one to that lost object; a lost object maps to
    /// itself. If there are several, the one with the smallest rank wins.
    pub fn leading<R: Ord>(
        &self,
        rank: impl Fn(ObjectHash) -> R,
    ) -> HashMap<ObjectHash, ObjectHash> {
        let mut lost: Vec<_> = self.objects.iter().copied().collect();
        lost.sort_by_key(|hash| rank(*hash));
        let mut leading = HashMap::new();
        for lost in lost {
            let mut left = vec![lost];
            while let Some(hash) = left.pop() {
                if let std::collections::hash_map::Entry::Vacant(first) = leading.entry(hash) {
                    first.insert(lost);
                    left.extend(self.above.get(&hash).into_iter().flatten());
                }
            }
        }
        leading
    }
}

/// The objects that an object refers to; `None` if it is malformed.
fn names_for_losses(role: ObjectRole, bytes: &[u8]) -> Option<Vec<(ObjectHash, ObjectRole)>> {
    Some(match role {
        ObjectRole::Snapshot => vec![(Snapshot::read(bytes).ok()?.tree, ObjectRole::Tree)],
        ObjectRole::Tree => {
            let entries = Tree::read(bytes).ok()?.entries.into_iter();
            let role = |kind| match kind {
                EntryKind::Directory => ObjectRole::Tree,
                EntryKind::Large => ObjectRole::Chunks,
                EntryKind::File | EntryKind::Link => ObjectRole::Content,
            };
            entries.map(|entry| (entry.hash, role(entry.kind))).collect()
        }
        ObjectRole::Chunks => {
            let chunks = ChunkList::read(bytes).ok()?.chunks.into_iter();
            chunks.map(|(_, hash)| (hash, ObjectRole::Content)).collect()
        }
        ObjectRole::Content => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use abide_model::Objects;

    use super::*;
    use crate::sample::{SampleHeap, SampleNode, directory, file};

    fn snapshot(heap: &SampleHeap, tree: &SampleNode) -> ObjectHash {
        let snapshot = Snapshot {
            version: 1,
            tree: tree.store(heap),
            files: 0,
            directories: 0,
            bytes: 0,
            omitted: Vec::new(),
            omissions: 0,
        };
        heap.add(&snapshot.write())
    }

    #[test]
    fn each_snapshot_that_leads_to_something_lost_is_known_and_no_other() {
        let heap = SampleHeap::default();
        let large = "a file of more than one chunk, and then some";
        let one = snapshot(&heap, &directory([("d", directory([("f", file("lost"))]))]));
        let two = snapshot(&heap, &directory([("large", file(large)), ("f", file("kept"))]));
        let both = directory([("d", directory([("f", file("lost"))])), ("l", file(large))]);
        let both = snapshot(&heap, &both);
        let whole = snapshot(&heap, &directory([("f", file("kept"))]));
        let tree = directory([("gone", directory([("g", file("g"))]))]);
        let headless = snapshot(&heap, &tree);
        let chunk = ObjectHash::of(&large.as_bytes()[10..20]);
        let content = ObjectHash::of(b"lost");
        let gone = directory([("g", file("g"))]).store(&heap);
        for lost in [chunk, content, gone] {
            heap.lose(lost);
        }
        let all = [one, two, both, whole, headless];
        let losses = Losses::of(&all, &|hash| heap.read(hash), &|hashes| heap.has(hashes)).unwrap();
        assert_eq!(losses.objects, BTreeSet::from([chunk, content, gone]));
        let leads = |first: ObjectHash| {
            let leading = losses.leading(|hash| hash != first);
            all.map(|snapshot| leading.get(&snapshot).copied())
        };
        let (chunk, content, gone) = (Some(chunk), Some(content), Some(gone));
        assert_eq!(leads(content.unwrap()), [content, chunk, content, None, gone]);
        assert_eq!(leads(chunk.unwrap()), [content, chunk, chunk, None, gone]);
    }
}
