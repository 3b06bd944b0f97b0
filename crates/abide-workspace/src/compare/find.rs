//! Finds one file of a snapshot, and the objects that hold its content.

use abide_model::{ObjectHash, Objects};

use crate::compare::read::{ReadError, read_chunks, read_trees};
use crate::{EntryKind, TreeEntry};

/// The entry at a path below a tree; `None` if there is none. The path is relative, as bytes with
/// slashes.
pub fn find_entry(
    objects: &dyn Objects,
    tree: ObjectHash,
    path: &[u8],
) -> Result<Option<TreeEntry>, ReadError> {
    let mut at = tree;
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let Some(tree) = read_trees(objects, &[at])?.pop() else { return Ok(None) };
        let Some(entry) = tree.get(part) else { return Ok(None) };
        if parts.peek().is_none() {
            return Ok(Some(entry.clone()));
        }
        if entry.kind != EntryKind::Directory {
            return Ok(None);
        }
        at = entry.hash;
    }
    Ok(None)
}

/// The objects whose bytes, one after the other, are the content of a file or the target of a link;
/// none for a directory.
pub fn content_objects(
    objects: &dyn Objects,
    entry: &TreeEntry,
) -> Result<Vec<ObjectHash>, ReadError> {
    Ok(match entry.kind {
        EntryKind::Directory => Vec::new(),
        EntryKind::File | EntryKind::Link => vec![entry.hash],
        EntryKind::Large => {
            read_chunks(objects, entry)?.chunks.into_iter().map(|(_, hash)| hash).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{SampleHeap, directory, file};

    #[test]
    fn an_entry_is_found_by_its_path() {
        let heap = SampleHeap::default();
        let tree = directory([("a", directory([("b", file("text"))])), ("c", file("c"))]);
        let tree = tree.store(&heap);
        let find = |path: &str| find_entry(&heap, tree, path.as_bytes()).unwrap();
        let found = find("a/b").unwrap();
        assert_eq!(content_objects(&heap, &found).unwrap(), [ObjectHash::of(b"text")]);
        let dir = find("a").unwrap();
        assert_eq!(dir.kind, EntryKind::Directory);
        assert_eq!(content_objects(&heap, &dir).unwrap(), []);
        for missing in ["", "a/", "a/c", "c/d", "/c", "../c", "b"] {
            assert_eq!(find(missing), None, "{missing}");
        }
    }
}
