//! Walks two trees side by side and visits every name that differs.
//!
//! Equal subtrees are skipped by comparing hashes. All trees at one depth are read in one batch.

use abide_model::{ObjectHash, Objects};

use crate::compare::read::{ReadError, read_trees};
use crate::{EntryKind, Tree, TreeEntry};

/// No system call accepts a path deeper than this.
const MAX_DEPTH: usize = 4096;

/// A name that differs. A directory that is in both trees is visited even if only its contents
/// differ.
pub(crate) struct EntryPair<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) old: Option<&'a TreeEntry>,
    pub(crate) new: Option<&'a TreeEntry>,
}

/// Whether to descend into a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Descent {
    Enter,
    Pass,
}

struct Level {
    path: Vec<u8>,
    old: Option<ObjectHash>,
    new: Option<ObjectHash>,
}

/// Calls `visit` for every name that differs, a directory before its contents.
pub(crate) fn walk_differences(
    objects: &dyn Objects,
    old: Option<ObjectHash>,
    new: Option<ObjectHash>,
    visit: &mut dyn FnMut(EntryPair<'_>) -> Descent,
) -> Result<(), ReadError> {
    if old == new {
        return Ok(());
    }
    let mut level = vec![Level { path: Vec::new(), old, new }];
    for _ in 0..MAX_DEPTH {
        if level.is_empty() {
            return Ok(());
        }
        let hashes: Vec<_> = level.iter().flat_map(|at| [at.old, at.new]).flatten().collect();
        let mut trees = read_trees(objects, &hashes)?.into_iter();
        let mut below = Vec::new();
        for at in level {
            let mut take =
                |hash: Option<ObjectHash>| hash.and_then(|_| trees.next()).unwrap_or_default();
            let (old, new) = (take(at.old), take(at.new));
            compare_walked_trees(&at.path, &old, &new, visit, &mut below);
        }
        level = below;
    }
    Err(ReadError::TooDeep(MAX_DEPTH))
}

fn compare_walked_trees(
    path: &[u8],
    old: &Tree,
    new: &Tree,
    visit: &mut dyn FnMut(EntryPair<'_>) -> Descent,
    below: &mut Vec<Level>,
) {
    let mut olds = old.entries.iter().peekable();
    let mut news = new.entries.iter().peekable();
    loop {
        let order = match (olds.peek(), news.peek()) {
            (Some(old), Some(new)) => old.name.cmp(&new.name),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return,
        };
        let old = if order.is_le() { olds.next() } else { None };
        let new = if order.is_ge() { news.next() } else { None };
        if old == new {
            continue;
        }
        let name = old.or(new).map_or(&[][..], |entry| &entry.name);
        let path = join_walked_path(path, name);
        if visit(EntryPair { path: &path, old, new }) == Descent::Pass {
            continue;
        }
        let tree = |entry: Option<&TreeEntry>| {
            entry.filter(|entry| entry.kind == EntryKind::Directory).map(|entry| entry.hash)
        };
        let (old, new) = (tree(old), tree(new));
        if old != new {
            below.push(Level { path, old, new });
        }
    }
}

/// Joins a directory and a name to a path relative to the root.
pub(crate) fn join_walked_path(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    path.extend_from_slice(directory);
    if !directory.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Splits a path into its directory and last name.
pub(crate) fn split_walked_path(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    let (directory, name) = path.split_at(slash.unwrap_or(0));
    (directory, name.strip_prefix(b"/").unwrap_or(name))
}
