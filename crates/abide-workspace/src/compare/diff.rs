//! Lists the differences between two snapshots.

use abide_model::{ObjectHash, Objects};

use crate::compare::read::ReadError;
use crate::compare::rename::find_renames;
use crate::compare::walk::{Descent, EntryPair, walk_differences};
use crate::{EntryKind, Tree, TreeEntry};

/// How a path differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// Only in the new tree.
    Created,
    /// Only in the old tree.
    Deleted,
    /// The content changed, and perhaps the mode.
    Modified,
    /// Only the mode changed.
    ModeChanged,
    /// The type changed, for example from a file to a link or a directory.
    KindChanged,
    /// Moved from another path, with the same or similar content.
    Renamed {
        /// The old path.
        from: Vec<u8>,
    },
}

/// A path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPath {
    /// Path relative to the root, as bytes with slashes.
    pub path: Vec<u8>,
    /// How it differs.
    pub change: ChangeKind,
    /// The old entry.
    pub old: Option<TreeEntry>,
    /// The new entry.
    pub new: Option<TreeEntry>,
}

/// Lists the differences between two trees, sorted by path. Without an old tree, everything in the
/// new one counts as created.
///
/// A directory is listed only if its mode or type changed or if it is empty; otherwise its contents
/// are listed instead.
pub fn diff(
    objects: &dyn Objects,
    old: Option<ObjectHash>,
    new: ObjectHash,
    renames: bool,
) -> Result<Vec<ChangedPath>, ReadError> {
    let mut changes = Vec::new();
    walk_differences(objects, old, Some(new), &mut |pair| {
        changes.extend(diff_of_pair(&pair));
        Descent::Enter
    })?;
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    if renames {
        find_renames(objects, &mut changes)?;
    }
    Ok(changes)
}

fn diff_of_pair(pair: &EntryPair<'_>) -> Option<ChangedPath> {
    let change = match (pair.old, pair.new) {
        (None, Some(new)) => is_told_in_diff(new).then_some(ChangeKind::Created)?,
        (Some(old), None) => is_told_in_diff(old).then_some(ChangeKind::Deleted)?,
        (Some(old), Some(new)) if !diff_same_kind(old.kind, new.kind) => ChangeKind::KindChanged,
        (Some(old), Some(new)) if old.kind == EntryKind::Directory => {
            (old.mode != new.mode).then_some(ChangeKind::ModeChanged)?
        }
        (Some(old), Some(new)) if same_content(old, new) => ChangeKind::ModeChanged,
        (Some(_), Some(_)) => ChangeKind::Modified,
        (None, None) => return None,
    };
    let path = pair.path.to_vec();
    Some(ChangedPath { path, change, old: pair.old.cloned(), new: pair.new.cloned() })
}

/// A directory is listed only if it is empty.
pub(crate) fn is_told_in_diff(entry: &TreeEntry) -> bool {
    entry.kind != EntryKind::Directory || entry.hash == ObjectHash::of(&Tree::default().write())
}

/// A large file is still a file.
pub(crate) fn diff_same_kind(a: EntryKind, b: EntryKind) -> bool {
    let plain = |kind| matches!(kind, EntryKind::File | EntryKind::Large);
    a == b || plain(a) && plain(b)
}

pub(crate) fn same_content(a: &TreeEntry, b: &TreeEntry) -> bool {
    a.kind == b.kind && a.hash == b.hash && a.size == b.size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{SampleHeap, SampleNode, directory, file, link};

    fn told(old: &SampleNode, new: &SampleNode) -> Vec<(String, ChangeKind)> {
        let heap = SampleHeap::default();
        let changes = diff(&heap, Some(old.store(&heap)), new.store(&heap), true).unwrap();
        let name = |path: Vec<u8>| String::from_utf8(path).unwrap();
        changes.into_iter().map(|changed| (name(changed.path), changed.change)).collect()
    }

    fn renamed(from: &str) -> ChangeKind {
        ChangeKind::Renamed { from: from.as_bytes().to_vec() }
    }

    #[test]
    fn every_change_is_told_by_path() {
        let old = directory([
            ("a", directory([("b", file("b")), ("gone", file("gone"))])),
            ("a.txt", file("same")),
            ("dir", directory([("x", file("x"))])),
            ("edited", file("one")),
            ("empty", directory([])),
            ("kind", file("k")),
            ("link", link("a")),
            ("mode", file("m")),
            ("modes", directory([("x", file("x"))])),
        ]);
        let new = directory([
            ("a", directory([("b", file("bb"))])),
            ("a.txt", file("same")),
            ("dir", file("")),
            ("edited", file("two").with_mode(0o755)),
            ("empty2", directory([])),
            ("kind", link("k")),
            ("link", link("b")),
            ("mode", file("m").with_mode(0o755)),
            ("modes", directory([("x", file("x"))]).with_mode(0o700)),
            ("new", directory([("f", file("f"))])),
        ]);
        let expected = [
            ("a/b", ChangeKind::Modified),
            ("a/gone", ChangeKind::Deleted),
            ("dir", ChangeKind::KindChanged),
            ("dir/x", ChangeKind::Deleted),
            ("edited", ChangeKind::Modified),
            ("empty", ChangeKind::Deleted),
            ("empty2", ChangeKind::Created),
            ("kind", ChangeKind::KindChanged),
            ("link", ChangeKind::Modified),
            ("mode", ChangeKind::ModeChanged),
            ("modes", ChangeKind::ModeChanged),
            ("new/f", ChangeKind::Created),
        ];
        let expected: Vec<_> = expected.map(|(path, change)| (path.to_owned(), change)).into();
        assert_eq!(told(&old, &new), expected);
    }

    #[test]
    fn equal_subtrees_are_not_read() {
        let heap = SampleHeap::default();
        let same = directory([("x", file("x"))]);
        let old = directory([("same", same.clone()), ("f", file("1"))]).store(&heap);
        let new = directory([("same", same.clone()), ("f", file("2"))]).store(&heap);
        heap.lose(same.store(&heap));
        assert_eq!(diff(&heap, Some(old), new, false).unwrap().len(), 1);
        let all = diff(&heap, None, new, false);
        assert!(matches!(all, Err(ReadError::Missing(_))));
    }

    #[test]
    fn renames_are_found_by_content_and_by_likeness() {
        let lines = |count: u32| (0..count).map(|n| format!("{n}\n")).collect::<String>();
        let old = directory([
            ("a", directory([("name", file("equal"))])),
            ("other", file("equal")),
            ("text", file(&lines(10))),
            ("unlike", file("nothing of it stays\n")),
            ("void", file("")),
        ]);
        let new = directory([
            ("b", directory([("name", file("equal"))])),
            ("else", file("quite different, all of it\n")),
            ("moved", file(&(lines(10) + "more\n"))),
            ("void2", file("")),
        ]);
        let expected = [
            ("b/name", renamed("a/name")),
            ("else", ChangeKind::Created),
            ("moved", renamed("text")),
            ("other", ChangeKind::Deleted),
            ("unlike", ChangeKind::Deleted),
            ("void", ChangeKind::Deleted),
            ("void2", ChangeKind::Created),
        ];
        let expected: Vec<_> = expected.map(|(path, change)| (path.to_owned(), change)).into();
        assert_eq!(told(&old, &new), expected);
    }
}
