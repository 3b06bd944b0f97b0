//! Carries out a restore plan.
//!
//! A restore can be interrupted at any moment, even by a crash, and run again with the same plan:
//! each step checks what it finds. What matches the plan's starting state is changed, what already
//! matches the target is left alone, and anything else was put there meanwhile; it is kept and
//! reported.
//!
//! Order: remove what is in the way, deepest first; create directories; write files; set directory
//! modes; sync.

mod directories;
mod files;
mod found;
mod removal;
pub(crate) mod restore_plan;
pub(crate) mod restore_sync;
mod temporary_write;
#[cfg(test)]
mod tests;
pub(crate) mod uncaptured_paths;
pub(crate) mod ways;
pub(crate) mod workspace_root;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use abide_model::{ObjectHash, Objects};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use self::directories::DirectoryOrigin;
use self::found::StepError;
use self::restore_sync::RestoreSync;
use self::temporary_write::TemporaryNames;
use crate::compare::read::ReadError;
use crate::compare::walk::split_walked_path;
use crate::reserved::is_alias;
use crate::restore::restore_plan::{RESERVED, plan_all};
use crate::restore::workspace_root::{
    WorkspaceRoot, look_below_root, names_below_root, set_mode, set_mode_durably,
};
use crate::{EntryKind, KeptPath, RestoreAction, RestorePlan, RestoreStep, TreeEntry};

/// Mode bits that a restored file can have.
const FILE_BITS: u16 = 0o777;
/// Files that one thread deletes in a row.
const ROW: usize = 16;

const EXISTS: &str = "it exists and is not stored";
const EDITED: &str = "it was changed after the snapshot of the present";
const MODE_EDITED: &str = "its mode was changed after the snapshot of the present";
const SPECIAL_BITS: &str = "its set-user-id, set-group-id and sticky bits are not restored";

/// Returns true for names that a restore gives to incomplete files.
pub(crate) fn is_temporary(name: &[u8]) -> bool {
    TemporaryNames::is(name)
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreReport {
    /// Files, links and directories that were created.
    pub created: u64,
    /// Those whose content, type or mode was changed.
    pub changed: u64,
    /// Those that were deleted.
    pub deleted: u64,
    /// Paths that were left alone, and why. Sorted by path.
    pub kept: Vec<(Vec<u8>, String)>,
    /// Paths that failed, and why. Sorted by path.
    pub failed: Vec<(Vec<u8>, String)>,
}

/// Progress callback and cancellation flag for a running restore.
#[derive(Clone, Copy)]
pub struct RestoreWatch<'a> {
    /// Set it to cancel the restore before its next step.
    pub cancel: &'a AtomicBool,
    /// Called from several threads with the number of completed steps and the total.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl RestoreWatch<'static> {
    /// No progress reports and no cancellation.
    #[must_use]
    pub fn none() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self { cancel: &NEVER, progress: &|_, _| {} }
    }
}

/// Why a restore failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The snapshot cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The workspace directory is unusable.
    #[error("cannot {action} {path}")]
    Root {
        /// The operation.
        action: &'static str,
        /// The path it failed on.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The target directory must be empty.
    #[error("{0} is not empty")]
    NotEmpty(PathBuf),
    /// The restore was cancelled. What was done so far stays. The same plan continues from there,
    /// and the reverse plan undoes it.
    #[error("the restore was cancelled half-way")]
    Cancelled,
}

/// Carries out a plan under `root`. The result is durable when this returns.
pub fn restore(
    root: &Path,
    objects: &dyn Objects,
    plan: &RestorePlan,
    watch: &RestoreWatch<'_>,
) -> Result<RestoreReport, RestoreError> {
    let run = RestoreRun::new(root, objects, watch)?;
    let plan = &*run.without_aliases(plan);
    run.sweep(plan);
    run.all(root, plan, RestoreSync::of(plan))
}

/// Fills an empty directory with a tree. As after a checkout, nothing is synced: a power failure
/// soon afterwards may lose files. [`sync`](crate::sync()) makes it durable.
pub fn restore_all(
    root: &Path,
    objects: &dyn Objects,
    tree: ObjectHash,
    watch: &RestoreWatch<'_>,
) -> Result<RestoreReport, RestoreError> {
    let mut run = RestoreRun::new(root, objects, watch)?;
    if !run.root.is_empty().map_err(restore_error_on("read", root))? {
        return Err(RestoreError::NotEmpty(root.to_owned()));
    }
    run.made.insert(Vec::new());
    let plan = plan_all(objects, tree)?;
    let plan = &*run.without_aliases(&plan);
    run.all(root, plan, RestoreSync::Left)
}

fn restore_error_on(action: &'static str, path: &Path) -> impl FnOnce(Errno) -> RestoreError {
    let path = path.to_owned();
    move |source| RestoreError::Root { action, path, source: source.into() }
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepOutcome {
    Done,
    Kept(&'static str),
}

type StepResult = Result<StepOutcome, StepError>;

struct RestoreRun<'a> {
    objects: &'a dyn Objects,
    root: WorkspaceRoot,
    watch: &'a RestoreWatch<'a>,
    temporary: TemporaryNames,
    durability: RestoreSync,
    /// Directories that this run created: it owns everything in them.
    made: HashSet<Vec<u8>>,
    /// Directories that an earlier, interrupted run created or opened.
    unfinished: HashSet<Vec<u8>>,
    /// Directories that were opened, with their previous modes.
    opened: Mutex<BTreeMap<Vec<u8>, u16>>,
    tally: Mutex<RestoreReport>,
    done: AtomicU64,
    total: u64,
    #[cfg(test)]
    fuse: Option<std::sync::atomic::AtomicI64>,
}

impl<'a> RestoreRun<'a> {
    fn new(
        root: &Path,
        objects: &'a dyn Objects,
        watch: &'a RestoreWatch<'a>,
    ) -> Result<Self, RestoreError> {
        // An empty or relative path does not name a workspace.
        if !root.is_absolute() {
            return Err(restore_error_on("restore into", root)(Errno::INVAL));
        }
        Ok(Self {
            objects,
            root: WorkspaceRoot::open(root).map_err(restore_error_on("open", root))?,
            watch,
            temporary: TemporaryNames::default(),
            durability: RestoreSync::Whole,
            made: HashSet::new(),
            unfinished: HashSet::new(),
            opened: Mutex::default(),
            tally: Mutex::default(),
            done: AtomicU64::new(0),
            total: 0,
            #[cfg(test)]
            fuse: None,
        })
    }

    /// Called before each operation that changes something; tests stop a run here.
    #[cfg(test)]
    fn act(&self) -> Result<(), StepError> {
        match &self.fuse {
            Some(fuse) if fuse.fetch_sub(1, Ordering::SeqCst) <= 0 => Err(StepError::Stopped),
            _ => Ok(()),
        }
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)] // A test's fuse is here.
    fn act(&self) -> Result<(), StepError> {
        Ok(())
    }

    /// The plan without paths that would resolve into a repository or a store on this file system.
    fn without_aliases<'p>(&self, plan: &'p RestorePlan) -> Cow<'p, RestorePlan> {
        let leads = |path: &[u8]| path.split(|byte| *byte == b'/').any(is_alias);
        if self.root.native || !plan.steps.iter().any(|step| leads(&step.path)) {
            return Cow::Borrowed(plan);
        }
        let mut plan = plan.clone();
        plan.closed.retain(|(path, _)| !leads(path));
        let (left, steps): (Vec<_>, Vec<_>) =
            plan.steps.into_iter().partition(|step| leads(&step.path));
        plan.steps = steps;
        let mut tops: Vec<_> = left.into_iter().map(|step| step.path).collect();
        tops.retain(|path| !leads(split_walked_path(path).0));
        plan.kept.extend(tops.into_iter().map(|path| KeptPath { path, why: RESERVED }));
        Cow::Owned(plan)
    }

    fn all(
        mut self,
        root: &Path,
        plan: &RestorePlan,
        durability: RestoreSync,
    ) -> Result<RestoreReport, RestoreError> {
        self.durability = durability;
        self.total = plan.steps.len() as u64;
        let kept = plan.kept.iter().map(|kept| (kept.path.clone(), kept.why.to_owned()));
        self.tally().kept.extend(kept);
        let phases = self.phases(plan);
        if phases.is_err() {
            self.close_opened_directories();
            return Err(RestoreError::Cancelled);
        }
        self.sync(plan).map_err(restore_error_on("sync", root))?;
        (self.watch.progress)(self.total, self.total);
        let mut restored = self.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        restored.kept.sort();
        restored.failed.sort();
        Ok(restored)
    }

    fn phases(&mut self, plan: &RestorePlan) -> Result<(), StepError> {
        let mut deletes = Vec::new();
        let mut directories_gone = Vec::new();
        let mut directories = Vec::new();
        let mut writes = Vec::new();
        let mut modes = Vec::new();
        for step in &plan.steps {
            match (step.action, restored_kind(&step.was), restored_kind(&step.entry)) {
                (RestoreAction::Delete, Some(EntryKind::Directory), _) => {
                    directories_gone.push(step)
                }
                (RestoreAction::Delete, ..) => deletes.push(step),
                (RestoreAction::Chmod, _, Some(EntryKind::Directory)) => {}
                (RestoreAction::Chmod, ..) => modes.push(step),
                (_, _, Some(EntryKind::Directory)) => directories.push(step),
                (_, Some(EntryKind::Directory), _) => {
                    directories_gone.push(step);
                    writes.push(step);
                }
                _ => writes.push(step),
            }
        }
        let deletes: Vec<_> = deletes.chunks(ROW).collect();
        self.share(&deletes, &|group| {
            group.iter().try_for_each(|step| self.settle(step, || self.remove(step)))
        })?;
        let mut stuck = HashSet::new();
        for step in directories_gone.into_iter().rev() {
            self.remove_directory_of(step, &mut stuck)?;
        }
        for step in directories {
            let made = self.make_directory(step);
            match made {
                Ok((_, DirectoryOrigin::Here)) => _ = self.made.insert(step.path.clone()),
                Ok((_, DirectoryOrigin::Earlier)) => _ = self.unfinished.insert(step.path.clone()),
                Ok((_, DirectoryOrigin::Elsewhere)) | Err(_) => {}
            }
            self.settle(step, || made.map(|(outcome, _)| outcome))?;
        }
        for step in modes {
            self.settle(step, || self.chmod(step))?;
        }
        writes.retain(|step| !stuck.contains(&step.path));
        self.write_files(&writes)?;
        self.set_directory_modes(plan)
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, RestoreReport> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a step and records its outcome.
    fn settle(
        &self,
        step: &RestoreStep,
        work: impl FnOnce() -> StepResult,
    ) -> Result<(), StepError> {
        if self.watch.cancel.load(Ordering::Relaxed) {
            return Err(StepError::Stopped);
        }
        let outcome = match work() {
            Err(StepError::Stopped) => return Err(StepError::Stopped),
            outcome => outcome,
        };
        self.note(step, outcome);
        Ok(())
    }

    fn note(&self, step: &RestoreStep, outcome: StepResult) {
        let mut tally = self.tally();
        let special =
            |entry: &TreeEntry| entry.kind != EntryKind::Directory && entry.mode & !FILE_BITS != 0;
        if outcome.is_ok() && step.entry.as_ref().is_some_and(special) {
            tally.kept.push((step.path.clone(), SPECIAL_BITS.to_owned()));
        }
        match outcome {
            Ok(StepOutcome::Done) => match step.action {
                RestoreAction::Create => tally.created += 1,
                RestoreAction::Change | RestoreAction::Chmod => tally.changed += 1,
                RestoreAction::Delete => tally.deleted += 1,
            },
            Ok(StepOutcome::Kept(why)) => tally.kept.push((step.path.clone(), why.to_owned())),
            Err(error) => tally.failed.push((step.path.clone(), restore_error_text(&error))),
        }
        drop(tally);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(32) {
            (self.watch.progress)(done.min(self.total), self.total);
        }
    }

    /// Runs `work` on each item, on several threads if there are many.
    fn share<T: Sync>(
        &self,
        items: &[T],
        work: &(dyn Fn(&T) -> Result<(), StepError> + Sync),
    ) -> Result<(), StepError> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
        if items.len() < 2 {
            return items.iter().try_for_each(work);
        }
        let next = AtomicUsize::new(0);
        let one = || {
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                work(item)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.min(items.len())).map(|_| scope.spawn(one)).collect();
            let mut all = one();
            for other in others {
                all =
                    all.and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            all
        })
    }

    /// Runs `work` in a directory. If the mode locks the owner out, the directory is opened
    /// temporarily.
    fn within(&self, directory: &[u8], work: &mut dyn FnMut(&OwnedFd) -> StepResult) -> StepResult {
        let fd = self.directory(directory)?;
        match work(&fd) {
            Err(StepError::Io(Errno::ACCESS)) if self.open_directory_to_owner(directory) => {
                work(&fd)
            }
            outcome => outcome,
        }
    }

    fn directory(&self, path: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        match self.root.directory(path) {
            Err(Errno::ACCESS) if !path.is_empty() => {
                self.open_directory_to_owner(split_walked_path(path).0);
                self.root.directory(path)
            }
            opened => opened,
        }
    }

    fn chmod(&self, step: &RestoreStep) -> StepResult {
        let (Some(was), Some(entry)) = (&step.was, &step.entry) else {
            return Ok(StepOutcome::Done);
        };
        let (parent, name) = split_walked_path(&step.path);
        let mode = entry.mode & FILE_BITS;
        self.within(parent, &mut |directory| match look_below_root(directory, name)? {
            Some(seen) if seen.kind != FileType::RegularFile => Ok(StepOutcome::Kept(EDITED)),
            Some(seen) if seen.mode == mode => Ok(StepOutcome::Done),
            Some(seen) if (seen.mode ^ was.mode) & FILE_BITS != 0 => {
                Ok(StepOutcome::Kept(MODE_EDITED))
            }
            Some(_) => {
                self.act()?;
                self.set_file_mode(directory, name, mode)?;
                Ok(StepOutcome::Done)
            }
            None => Ok(StepOutcome::Kept(EDITED)),
        })
    }

    fn set_file_mode(&self, directory: &OwnedFd, name: &[u8], mode: u16) -> Result<(), Errno> {
        match self.durability {
            RestoreSync::Each => set_mode_durably(directory, name, mode),
            RestoreSync::Left | RestoreSync::Whole => set_mode(directory, name, mode),
        }
    }

    /// Removes temporary files that an interrupted run left in the directories the plan touches.
    fn sweep(&self, plan: &RestorePlan) {
        let parents: BTreeSet<_> =
            plan.steps.iter().map(|step| split_walked_path(&step.path).0).collect();
        for parent in parents {
            // What cannot be removed does no harm.
            let _ = self.within(parent, &mut |directory| {
                for name in
                    names_below_root(directory)?.iter().filter(|name| TemporaryNames::is(name))
                {
                    rustix::fs::unlinkat(directory, name.as_slice(), AtFlags::empty())?;
                }
                Ok(StepOutcome::Done)
            });
        }
    }
}

fn restored_kind(entry: &Option<TreeEntry>) -> Option<EntryKind> {
    entry.as_ref().map(|entry| entry.kind)
}

fn restore_error_text(error: &StepError) -> String {
    match error {
        StepError::Io(errno) => std::io::Error::from(*errno).to_string(),
        error => error.to_string(),
    }
}
