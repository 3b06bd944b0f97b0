//! Plans a restore. Pure: compares two trees and reads no files.
//!
//! The present state is a snapshot taken just before, so the store holds every path that is deleted
//! or overwritten. Each path has at most one step.

use std::collections::BTreeMap;

use abide_model::{ObjectHash, Objects};

use crate::compare::diff::{diff_same_kind, is_told_in_diff, same_content};
use crate::compare::read::{ReadError, read_trees};
use crate::compare::rename::find_renames;
use crate::compare::walk::{Descent, EntryPair, split_walked_path, walk_differences};
use crate::reserved::is_reserved;
use crate::snapshot::{OmissionReason, Snapshot};
use crate::{ChangeKind, ChangedPath, EntryKind, TreeEntry};

/// What a step does with its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RestoreAction {
    /// Create it; nothing is there.
    Create,
    /// Replace its content or type.
    Change,
    /// Delete it.
    Delete,
    /// Change only its mode.
    Chmod,
}

/// One step of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreStep {
    /// Path relative to the root, as bytes with slashes.
    pub path: Vec<u8>,
    /// What to do.
    pub action: RestoreAction,
    /// The target entry; `None` for a deletion.
    pub entry: Option<TreeEntry>,
    /// The present entry; `None` for a creation.
    pub was: Option<TreeEntry>,
}

/// A requested path that is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPath {
    /// Path relative to the root, as bytes with slashes.
    pub path: Vec<u8>,
    /// The reason.
    pub why: &'static str,
}

/// The steps of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestorePlan {
    /// Sorted by path.
    pub steps: Vec<RestoreStep>,
    /// Sorted by path.
    pub kept: Vec<KeptPath>,
    /// Parent directories whose mode locks their owner out, with that mode. It is set again if this
    /// restore, or an interrupted one, had to open them.
    pub closed: Vec<(Vec<u8>, u16)>,
}

impl RestorePlan {
    /// What the steps do to the files, for display: from the present to the target, sorted by path,
    /// with renames as such. A directory is listed only if it is empty or if it stays.
    pub fn changes(&self, objects: &dyn Objects) -> Result<Vec<ChangedPath>, ReadError> {
        let mut changes: Vec<ChangedPath> =
            self.steps.iter().filter_map(RestoreStep::change).collect();
        find_renames(objects, &mut changes)?;
        Ok(changes)
    }
}

impl RestoreStep {
    fn change(&self) -> Option<ChangedPath> {
        let (old, new) = (&self.was, &self.entry);
        let change = match self.action {
            RestoreAction::Create => {
                new.as_ref().filter(|new| is_told_in_diff(new)).map(|_| ChangeKind::Created)?
            }
            RestoreAction::Delete => {
                old.as_ref().filter(|old| is_told_in_diff(old)).map(|_| ChangeKind::Deleted)?
            }
            RestoreAction::Chmod => ChangeKind::ModeChanged,
            RestoreAction::Change => match (old, new) {
                (Some(old), Some(new)) if diff_same_kind(old.kind, new.kind) => {
                    ChangeKind::Modified
                }
                _ => ChangeKind::KindChanged,
            },
        };
        Some(ChangedPath { path: self.path.clone(), change, old: old.clone(), new: new.clone() })
    }
}

pub(crate) const RESERVED: &str = "its name is reserved for a repository or a store";
const NOWHERE: &str = "it is neither in the snapshot nor in the workspace";
const UNREAD: &str = "it could not be read";

/// Plans how to turn the tree `present` into the tree `target`: all of it, or only the given files
/// and directories with their parents. Deletes everything that `target` does not hold;
/// [`Workspace::plan`](crate::Workspace::plan) spares what `target` could not see.
pub fn plan(
    objects: &dyn Objects,
    present: ObjectHash,
    target: ObjectHash,
    paths: &[Vec<u8>],
) -> Result<RestorePlan, ReadError> {
    let paths: Vec<&[u8]> = paths.iter().map(|path| trimmed_restore_path(path)).collect();
    let mut plan = plan_between(objects, Some(present), target, &paths)?;
    for path in paths {
        if !restore_tree_has(objects, present, path)? && !restore_tree_has(objects, target, path)? {
            plan.kept.push(KeptPath { path: path.to_vec(), why: NOWHERE });
        }
    }
    plan.kept.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(plan)
}

/// Keeps what could not be read when `present` was taken and is not in `target`: a file that is
/// there, and would be deleted if it could be captured first.
pub(crate) fn keep_unread(
    plan: &mut RestorePlan,
    present: &Snapshot,
    target: &Snapshot,
    paths: &[Vec<u8>],
) {
    let paths: Vec<&[u8]> = paths.iter().map(|path| trimmed_restore_path(path)).collect();
    for omission in &present.omitted {
        let path = omission.path.as_bytes();
        let was_omitted = || target.omitted.iter().any(|other| other.path == omission.path);
        let has_step =
            || plan.steps.binary_search_by(|step| step.path.as_slice().cmp(path)).is_ok();
        if matches!(omission.reason, OmissionReason::Unreadable | OmissionReason::Changing)
            && PathScope::of(path, &paths) == PathScope::Within
            && !has_step()
            && !was_omitted()
        {
            plan.kept.push(KeptPath { path: path.to_vec(), why: UNREAD });
        }
    }
    plan.kept.sort_by(|a, b| a.path.cmp(&b.path));
}

/// Plans how to fill an empty directory with the tree `target`.
pub(crate) fn plan_all(
    objects: &dyn Objects,
    target: ObjectHash,
) -> Result<RestorePlan, ReadError> {
    plan_between(objects, None, target, &[])
}

fn plan_between(
    objects: &dyn Objects,
    present: Option<ObjectHash>,
    target: ObjectHash,
    paths: &[&[u8]],
) -> Result<RestorePlan, ReadError> {
    let mut plan = RestorePlan::default();
    let mut ways = BTreeMap::new();
    walk_differences(objects, present, Some(target), &mut |pair| {
        let place = PathScope::of(pair.path, paths);
        if place == PathScope::Outside {
            return Descent::Pass;
        }
        if is_reserved(split_walked_path(pair.path).1) {
            plan.kept.push(KeptPath { path: pair.path.to_vec(), why: RESERVED });
            return Descent::Pass;
        }
        note_closed_to_restore(&pair, place, &mut plan.closed);
        match (place, restore_step(&pair)) {
            (PathScope::Within, Some(step)) => plan.steps.push(step),
            (PathScope::Above, Some(step)) if restore_makes_way(&step) => {
                ways.insert(step.path.clone(), step);
            }
            _ => {}
        }
        Descent::Enter
    })?;
    add_restore_ways(&mut plan.steps, ways);
    plan.steps.sort_by(|a, b| a.path.cmp(&b.path));
    plan.kept.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(plan)
}

fn restore_step(pair: &EntryPair<'_>) -> Option<RestoreStep> {
    let directory = |entry: &TreeEntry| entry.kind == EntryKind::Directory;
    let action = match (pair.old, pair.new) {
        (None, None) => return None,
        (None, Some(_)) => RestoreAction::Create,
        (Some(_), None) => RestoreAction::Delete,
        (Some(old), Some(new)) if directory(old) && directory(new) => {
            (old.mode != new.mode).then_some(RestoreAction::Chmod)?
        }
        (Some(old), Some(new)) if diff_same_kind(old.kind, new.kind) && same_content(old, new) => {
            RestoreAction::Chmod
        }
        (Some(_), Some(_)) => RestoreAction::Change,
    };
    let path = pair.path.to_vec();
    Some(RestoreStep { path, action, entry: pair.new.cloned(), was: pair.old.cloned() })
}

/// Returns true if the step creates a directory where there is none.
fn restore_makes_way(step: &RestoreStep) -> bool {
    let directory =
        |entry: &Option<TreeEntry>| entry.as_ref().is_some_and(|e| e.kind == EntryKind::Directory);
    directory(&step.entry) && !directory(&step.was)
}

/// Adds the parent directories of everything that is created.
fn add_restore_ways(steps: &mut Vec<RestoreStep>, mut ways: BTreeMap<Vec<u8>, RestoreStep>) {
    let mut found = Vec::new();
    for step in steps.iter().filter(|step| step.entry.is_some()) {
        let mut path = step.path.as_slice();
        while !path.is_empty() && !ways.is_empty() {
            path = split_walked_path(path).0;
            found.extend(ways.remove(path));
        }
    }
    steps.extend(found);
}

/// Records a directory that stays and whose mode locks its owner out.
fn note_closed_to_restore(
    pair: &EntryPair<'_>,
    place: PathScope,
    closed: &mut Vec<(Vec<u8>, u16)>,
) {
    let (Some(old), Some(new)) = (pair.old, pair.new) else { return };
    if old.kind != EntryKind::Directory || new.kind != EntryKind::Directory {
        return;
    }
    let mode = if place == PathScope::Within { new.mode } else { old.mode };
    if mode & 0o700 != 0o700 {
        closed.push((pair.path.to_vec(), mode));
    }
}

/// How a path relates to the requested paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathScope {
    Within,
    Above,
    Outside,
}

impl PathScope {
    fn of(path: &[u8], asked: &[&[u8]]) -> Self {
        if asked.is_empty() || asked.iter().any(|asked| leads_to(asked, path)) {
            Self::Within
        } else if asked.iter().any(|asked| leads_to(path, asked)) {
            Self::Above
        } else {
            Self::Outside
        }
    }
}

/// Returns true if `path` is this directory or inside it.
fn leads_to(directory: &[u8], path: &[u8]) -> bool {
    directory.is_empty()
        || path
            .strip_prefix(directory)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn trimmed_restore_path(path: &[u8]) -> &[u8] {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |end| end + 1);
    match path.get(..end) {
        Some(b".") | None => &[],
        Some(path) => path,
    }
}

/// Returns true if the tree contains this path.
fn restore_tree_has(
    objects: &dyn Objects,
    tree: ObjectHash,
    path: &[u8],
) -> Result<bool, ReadError> {
    let mut at = Some(tree);
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let Some(hash) = at else { return Ok(false) };
        let trees = read_trees(objects, &[hash])?;
        let Some(entry) = trees.first().and_then(|tree| tree.get(name)) else { return Ok(false) };
        at = (entry.kind == EntryKind::Directory).then_some(entry.hash);
    }
    Ok(true)
}
