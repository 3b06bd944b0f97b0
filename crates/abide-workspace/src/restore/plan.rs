//! What putting a snapshot back will do. Pure: it looks at two trees and at no file.
//!
//! The present is described by a snapshot taken just before, so a path that is deleted or written
//! over is one that the store holds. Each path has at most one step.

use std::collections::BTreeMap;

use abide_model::{ObjectHash, Objects};

use crate::compare::diff::{same_content, same_kind};
use crate::compare::read::{ReadError, read_trees};
use crate::compare::walk::{Pair, Within, split, walk};
use crate::reserved::is_reserved;
use crate::{Entry, EntryKind};

/// What is done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// It is made: nothing is there.
    Create,
    /// Its content, or what it is, becomes another.
    Change,
    /// It goes.
    Delete,
    /// Only its mode becomes another.
    Chmod,
}

/// One path that becomes another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its bytes from the root, with slashes.
    pub path: Vec<u8>,
    /// What is done.
    pub action: Action,
    /// What it becomes; nothing where it is deleted.
    pub entry: Option<Entry>,
    /// What it is at present; nothing where it is created.
    pub was: Option<Entry>,
}

/// A path that is left as it is, although it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its bytes from the root, with slashes.
    pub path: Vec<u8>,
    /// Why.
    pub why: &'static str,
}

/// What a restore will do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// By path.
    pub steps: Vec<Step>,
    /// By path.
    pub kept: Vec<Kept>,
    /// Directories on the way whose mode keeps their owner out, and that mode. It is put back
    /// where a restore, or one that was cut off, had to let itself in.
    pub closed: Vec<(Vec<u8>, u16)>,
}

pub(crate) const RESERVED: &str = "its name is one of a repository or of a store";
const NOWHERE: &str = "it is neither in the snapshot nor in the workspace";

/// What makes the tree `present` into the tree `target`: in all, or only these files and
/// directories, with the directories that lead to them. Everything goes that `target` does not
/// hold: [`Workspace::plan`](crate::Workspace::plan) spares what `target` did not see.
pub fn plan(
    objects: &dyn Objects,
    present: ObjectHash,
    target: ObjectHash,
    paths: &[Vec<u8>],
) -> Result<Plan, ReadError> {
    let paths: Vec<&[u8]> = paths.iter().map(|path| trimmed(path)).collect();
    let mut plan = plan_between(objects, Some(present), target, &paths)?;
    for path in paths {
        if !has(objects, present, path)? && !has(objects, target, path)? {
            plan.kept.push(Kept { path: path.to_vec(), why: NOWHERE });
        }
    }
    plan.kept.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(plan)
}

/// What makes an empty directory into the tree `target`.
pub(crate) fn plan_all(objects: &dyn Objects, target: ObjectHash) -> Result<Plan, ReadError> {
    plan_between(objects, None, target, &[])
}

fn plan_between(
    objects: &dyn Objects,
    present: Option<ObjectHash>,
    target: ObjectHash,
    paths: &[&[u8]],
) -> Result<Plan, ReadError> {
    let mut plan = Plan::default();
    let mut ways = BTreeMap::new();
    walk(objects, present, Some(target), &mut |pair| {
        let place = Place::of(pair.path, paths);
        if place == Place::Outside {
            return Within::Pass;
        }
        if is_reserved(split(pair.path).1) {
            plan.kept.push(Kept { path: pair.path.to_vec(), why: RESERVED });
            return Within::Pass;
        }
        note_closed(&pair, place, &mut plan.closed);
        match (place, step(&pair)) {
            (Place::Within, Some(step)) => plan.steps.push(step),
            (Place::Above, Some(step)) if makes_way(&step) => {
                ways.insert(step.path.clone(), step);
            }
            _ => {}
        }
        Within::Enter
    })?;
    add_ways(&mut plan.steps, ways);
    plan.steps.sort_by(|a, b| a.path.cmp(&b.path));
    plan.kept.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(plan)
}

fn step(pair: &Pair<'_>) -> Option<Step> {
    let directory = |entry: &Entry| entry.kind == EntryKind::Directory;
    let action = match (pair.old, pair.new) {
        (None, None) => return None,
        (None, Some(_)) => Action::Create,
        (Some(_), None) => Action::Delete,
        (Some(old), Some(new)) if directory(old) && directory(new) => {
            (old.mode != new.mode).then_some(Action::Chmod)?
        }
        (Some(old), Some(new)) if same_kind(old.kind, new.kind) && same_content(old, new) => {
            Action::Chmod
        }
        (Some(_), Some(_)) => Action::Change,
    };
    let path = pair.path.to_vec();
    Some(Step { path, action, entry: pair.new.cloned(), was: pair.old.cloned() })
}

/// Does it make a directory where there is none?
fn makes_way(step: &Step) -> bool {
    let directory =
        |entry: &Option<Entry>| entry.as_ref().is_some_and(|e| e.kind == EntryKind::Directory);
    directory(&step.entry) && !directory(&step.was)
}

/// Adds the directories that lead to something that is made.
fn add_ways(steps: &mut Vec<Step>, mut ways: BTreeMap<Vec<u8>, Step>) {
    let mut found = Vec::new();
    for step in steps.iter().filter(|step| step.entry.is_some()) {
        let mut path = step.path.as_slice();
        while !path.is_empty() && !ways.is_empty() {
            path = split(path).0;
            found.extend(ways.remove(path));
        }
    }
    steps.extend(found);
}

/// Notes a directory that stays and whose mode keeps its owner out.
fn note_closed(pair: &Pair<'_>, place: Place, closed: &mut Vec<(Vec<u8>, u16)>) {
    let (Some(old), Some(new)) = (pair.old, pair.new) else { return };
    if old.kind != EntryKind::Directory || new.kind != EntryKind::Directory {
        return;
    }
    let mode = if place == Place::Within { new.mode } else { old.mode };
    if mode & 0o700 != 0o700 {
        closed.push((pair.path.to_vec(), mode));
    }
}

/// Where a path stands to those that were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Within,
    Above,
    Outside,
}

impl Place {
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

/// Is `path` this directory, or in it?
fn leads_to(directory: &[u8], path: &[u8]) -> bool {
    directory.is_empty()
        || path
            .strip_prefix(directory)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn trimmed(path: &[u8]) -> &[u8] {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |end| end + 1);
    match path.get(..end) {
        Some(b".") | None => &[],
        Some(path) => path,
    }
}

/// Is this path in a tree?
fn has(objects: &dyn Objects, tree: ObjectHash, path: &[u8]) -> Result<bool, ReadError> {
    let mut at = Some(tree);
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let Some(hash) = at else { return Ok(false) };
        let trees = read_trees(objects, &[hash])?;
        let Some(entry) = trees.first().and_then(|tree| tree.get(name)) else { return Ok(false) };
        at = (entry.kind == EntryKind::Directory).then_some(entry.hash);
    }
    Ok(true)
}
