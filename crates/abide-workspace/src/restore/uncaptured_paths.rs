//! What a snapshot does not hold although it may have existed: files that were ignored or omitted.
//! Restoring the snapshot never deletes those.
//!
//! Whether a file was ignored is decided by the ignore files in the snapshot, and by the policy,
//! git's global excludes and `info/exclude` as they are now.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use abide_model::Objects;
use rustix::io::Errno;

use crate::compare::read::{read_content, read_trees};
use crate::compare::walk::split_walked_path;
use crate::restore::workspace_root::WorkspaceRoot;
use crate::take::base::{BaseRules, NameVerdict};
use crate::take::rules::{IgnoreStatus, RuleFile, RuleTexts, Rules};
use crate::take::scan_worker::escaped_worker_path;
use crate::{
    EntryKind, KeptPath, ReadError, RestoreAction, RestorePlan, RestoreStep, Snapshot, Tree,
    TreeEntry, WorkspaceError,
};

const IGNORED: &str = "it was ignored at that time";
const LEFT_OUT: &str = "the snapshot left it out";
const NOT_NAMED: &str = "the snapshot does not list everything it left out";

/// What a snapshot does not hold.
pub(crate) struct UncapturedPaths<'a> {
    objects: &'a dyn Objects,
    base: &'a BaseRules<'a>,
    /// The present workspace.
    root: WorkspaceRoot,
    place: &'a Path,
    omitted: HashSet<&'a str>,
    /// True if every omission is listed.
    all_named: bool,
    /// Directories examined so far.
    directories: HashMap<Vec<u8>, Rc<PastDirectory>>,
}

/// A directory at the time of the snapshot.
enum PastDirectory {
    /// A file or link was in its place or in that of a parent, so it contained nothing.
    New,
    Ignored,
    Judged {
        tree: Tree,
        views: [RulesView; 2],
    },
}

/// How the names of a directory are judged. A nested repository may not have been one at that time:
/// one view stops the outer rules at it, the other does not.
#[derive(Clone)]
struct RulesView {
    within: IgnoreStatus,
    rules: Arc<Rules>,
}

impl<'a> UncapturedPaths<'a> {
    pub(crate) fn new(
        objects: &'a dyn Objects,
        base: &'a BaseRules<'a>,
        root: &'a Path,
        snapshot: &'a Snapshot,
    ) -> Result<Self, WorkspaceError> {
        let opened =
            WorkspaceRoot::open(root).map_err(|errno| WorkspaceError::io("open", root, errno))?;
        let mut unseen = Self {
            objects,
            base,
            root: opened,
            place: root,
            omitted: snapshot.omitted.iter().map(|omission| omission.path.as_str()).collect(),
            all_named: snapshot.omissions <= snapshot.omitted.len() as u64,
            directories: HashMap::new(),
        };
        let tree = read_trees(objects, &[snapshot.tree])?.pop().unwrap_or_default();
        let mut texts = stored_texts_of_uncaptured(objects, &tree)?;
        unseen.add_repository(b"", &mut texts)?;
        let rules = base.rules().inside(b"", &texts);
        let view = RulesView { within: IgnoreStatus::Plain, rules };
        let top = PastDirectory::Judged { tree, views: [view.clone(), view] };
        unseen.directories.insert(Vec::new(), Rc::new(top));
        Ok(unseen)
    }

    /// Removes the steps that would delete something the snapshot may not have seen. For the
    /// contents of a kept directory, only the directory is listed.
    pub(crate) fn spare(&mut self, plan: &mut RestorePlan) -> Result<(), WorkspaceError> {
        let mut spared = HashSet::new();
        for step in std::mem::take(&mut plan.steps) {
            let Some(why) = self.why_kept(&step)? else {
                plan.steps.push(step);
                continue;
            };
            if !spared.contains(split_walked_path(&step.path).0) {
                plan.kept.push(KeptPath { path: step.path.clone(), why });
            }
            spared.insert(step.path);
        }
        plan.kept.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    fn why_kept(&mut self, step: &RestoreStep) -> Result<Option<&'static str>, WorkspaceError> {
        let Some(was) = step.was.as_ref().filter(|_| step.action == RestoreAction::Delete) else {
            return Ok(None);
        };
        let above = self.directory(split_walked_path(&step.path).0)?;
        let ignored = match &*above {
            PastDirectory::New => return Ok(None),
            PastDirectory::Ignored => true,
            PastDirectory::Judged { views, .. } => {
                let is_directory = was.kind == EntryKind::Directory;
                let mut verdicts = views.iter().map(|view| self.verdict(view, step, is_directory));
                verdicts.any(|verdict| !is_captured_by_snapshot(verdict))
            }
        };
        Ok(if ignored {
            Some(IGNORED)
        } else if self.is_left_out(&step.path) {
            Some(LEFT_OUT)
        } else {
            (!self.all_named).then_some(NOT_NAMED)
        })
    }

    fn verdict(&self, view: &RulesView, step: &RestoreStep, is_directory: bool) -> NameVerdict {
        self.base.verdict(view.within, &step.path, is_directory, &view.rules)
    }

    /// Returns true if it, or a directory it is in, was omitted.
    fn is_left_out(&self, path: &[u8]) -> bool {
        !self.omitted.is_empty()
            && directories_to_path(path)
                .any(|path| self.omitted.contains(escaped_worker_path(path).as_str()))
    }

    /// The directory at this path.
    fn directory(&mut self, path: &[u8]) -> Result<Rc<PastDirectory>, WorkspaceError> {
        if let Some(known) = self.directories.get(path) {
            return Ok(Rc::clone(known));
        }
        let mut at =
            self.directories.get(&b""[..]).map_or(Rc::new(PastDirectory::Ignored), Rc::clone);
        for path in directories_to_path(path) {
            at = match self.directories.get(path) {
                Some(known) => Rc::clone(known),
                None => Rc::new(self.enter(&at, path)?),
            };
            self.directories.entry(path.to_vec()).or_insert_with(|| Rc::clone(&at));
        }
        Ok(at)
    }

    /// The directory at this path, which is inside `above`.
    fn enter(&self, above: &PastDirectory, path: &[u8]) -> Result<PastDirectory, WorkspaceError> {
        let (tree, views) = match above {
            PastDirectory::New => return Ok(PastDirectory::New),
            PastDirectory::Ignored => return Ok(PastDirectory::Ignored),
            PastDirectory::Judged { tree, views } => (tree, views),
        };
        let tree = match tree.get(split_walked_path(path).1) {
            Some(TreeEntry { kind: EntryKind::Directory, hash, .. }) => {
                read_trees(self.objects, &[*hash])?.pop().unwrap_or_default()
            }
            Some(_) => return Ok(PastDirectory::New),
            None => Tree::default(),
        };
        let [mut now, mut plain] = views.clone();
        for view in [&mut now, &mut plain] {
            match self.base.verdict(view.within, path, true, &view.rules) {
                NameVerdict::Ignored => return Ok(PastDirectory::Ignored),
                NameVerdict::Taken(within) => view.within = within,
            }
        }
        let mut texts = stored_texts_of_uncaptured(self.objects, &tree)?;
        plain.rules = plain.rules.inside(path, &texts);
        self.add_repository(path, &mut texts)?;
        now.rules = now.rules.inside(path, &texts);
        Ok(PastDirectory::Judged { tree, views: [now, plain] })
    }

    /// Adds the excludes of the repository whose root this directory is now.
    fn add_repository(&self, path: &[u8], texts: &mut RuleTexts) -> Result<(), WorkspaceError> {
        let read = match self.root.directory(path) {
            Ok(directory) => texts.read_repository(directory.as_fd()),
            // Nothing is deleted where the present cannot be examined.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(()),
            Err(errno) => Err(errno),
        };
        let place = || self.place.join(OsStr::from_bytes(path));
        read.map_err(|errno| WorkspaceError::io("read the ignore files of", place(), errno))
    }
}

/// Returns true if a snapshot would hold it. A directory that is only searched is left out if
/// nothing in it is captured.
fn is_captured_by_snapshot(verdict: NameVerdict) -> bool {
    matches!(verdict, NameVerdict::Taken(IgnoreStatus::Plain | IgnoreStatus::Included))
}

/// The ignore files of a stored directory. Links are not followed.
fn stored_texts_of_uncaptured(objects: &dyn Objects, tree: &Tree) -> Result<RuleTexts, ReadError> {
    let mut texts = RuleTexts::default();
    for (file, name) in RuleFile::NAMED {
        let entry = tree.get(name.to_bytes());
        let entry = entry.filter(|entry| matches!(entry.kind, EntryKind::File | EntryKind::Large));
        if let Some(entry) = entry {
            texts.set(file, Some(read_content(objects, entry)?));
        }
    }
    Ok(texts)
}

/// The directories that lead to a path, top down, and then the path itself.
fn directories_to_path(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let ends = slashes.map(|(at, _)| at).chain([path.len()]);
    ends.filter_map(|end| path.get(..end)).filter(|path| !path.is_empty())
}
