//! What differs between two snapshots.

use abide_model::{ObjectHash, Objects};

use crate::content::ContentError;
use crate::rename::find_renames;
use crate::walk::{Pair, Within, walk};
use crate::{Entry, EntryKind, Tree};

/// In what way a path differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is only in the new one.
    Created,
    /// It is only in the old one.
    Deleted,
    /// Its content is another, and perhaps its mode.
    Modified,
    /// Only its mode is another.
    ModeChanged,
    /// It is a file in one, and a link or a directory in the other.
    KindChanged,
    /// It was at another path, with this content or much of it.
    Renamed {
        /// Where it was.
        from: Vec<u8>,
    },
}

/// A path that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its bytes from the root, with slashes.
    pub path: Vec<u8>,
    /// In what way.
    pub change: Change,
    /// What it was.
    pub old: Option<Entry>,
    /// What it is.
    pub new: Option<Entry>,
}

/// What differs between two trees, by path. With no old tree, all of the new one is created.
///
/// Directories are named where their mode changed, where they became something else, and where
/// they are empty; otherwise what is in them tells.
pub fn diff(
    objects: &dyn Objects,
    old: Option<ObjectHash>,
    new: ObjectHash,
    renames: bool,
) -> Result<Vec<Changed>, ContentError> {
    let mut changes = Vec::new();
    walk(objects, old, Some(new), &mut |pair| {
        changes.extend(changed(&pair));
        Within::Enter
    })?;
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    if renames {
        find_renames(objects, &mut changes)?;
    }
    Ok(changes)
}

fn changed(pair: &Pair<'_>) -> Option<Changed> {
    let change = match (pair.old, pair.new) {
        (None, Some(new)) => is_told(new).then_some(Change::Created)?,
        (Some(old), None) => is_told(old).then_some(Change::Deleted)?,
        (Some(old), Some(new)) if !same_kind(old.kind, new.kind) => Change::KindChanged,
        (Some(old), Some(new)) if old.kind == EntryKind::Directory => {
            (old.mode != new.mode).then_some(Change::ModeChanged)?
        }
        (Some(old), Some(new)) if same_content(old, new) => Change::ModeChanged,
        (Some(_), Some(_)) => Change::Modified,
        (None, None) => return None,
    };
    let path = pair.path.to_vec();
    Some(Changed { path, change, old: pair.old.cloned(), new: pair.new.cloned() })
}

fn is_told(entry: &Entry) -> bool {
    entry.kind != EntryKind::Directory || entry.hash == ObjectHash::of(&Tree::default().write())
}

/// A large file is a file.
pub(crate) fn same_kind(a: EntryKind, b: EntryKind) -> bool {
    let plain = |kind| matches!(kind, EntryKind::File | EntryKind::Large);
    a == b || plain(a) && plain(b)
}

pub(crate) fn same_content(a: &Entry, b: &Entry) -> bool {
    a.kind == b.kind && a.hash == b.hash && a.size == b.size
}
