//! A plan is done: files are put back.
//!
//! It can be stopped at any instant, by the machine as well, and done again with the same plan:
//! each step looks at what it finds. What is as the plan says is changed, what is already as it
//! should be is left, and anything else was put there meanwhile, stays, and is told.
//!
//! Order: what is in the way goes, deepest first; directories are made; files are written; modes
//! of directories are set; all of it is made durable.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use abide_model::{ObjectHash, Objects};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use crate::content::ContentError;
use crate::found::{Found, StepError, find};
use crate::plan::plan_all;
use crate::root::{Root, look, names, set_mode};
use crate::walk::split;
use crate::write::{Body, Temporary};
use crate::{Action, Entry, EntryKind, Plan, Step};

/// Fewer files are written by the thread that asks.
const FEW: usize = 32;
/// Objects that one thread reads together, at the least.
const GROUP: usize = 16;
/// The special bits that a directory may have.
const DIRECTORY_BITS: u16 = 0o3777;
/// The bits that a file may have.
pub(crate) const FILE_BITS: u16 = 0o777;
const OWNER: u16 = 0o700;

const EXISTS: &str = "it exists and is not stored";
const EDITED: &str = "it was changed after the snapshot of the present";
const HOLDS_MORE: &str = "it holds files that are not stored";
const MODE_EDITED: &str = "its mode was changed after the snapshot of the present";
const SPECIAL_BITS: &str = "its set-user-id, set-group-id and sticky bits are left out";
const NOT_A_DIRECTORY: &str = "its directory is not there, or is something else";
const DAMAGED: &str = "its content is missing or damaged in the store";

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// Files, links and directories that were made.
    pub created: u64,
    /// Those whose content, kind or mode became another.
    pub changed: u64,
    /// Those that are gone.
    pub deleted: u64,
    /// What was left as it is, and why. By path.
    pub kept: Vec<(Vec<u8>, String)>,
    /// What could not be done, and why. By path.
    pub failed: Vec<(Vec<u8>, String)>,
}

/// How a restore is followed and stopped.
#[derive(Clone, Copy)]
pub struct RestoreWatch<'a> {
    /// Once it is set, the restore ends at the next step.
    pub cancel: &'a AtomicBool,
    /// Told how many steps are done, and of how many. Called by several threads.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl RestoreWatch<'static> {
    /// Nobody follows, nobody stops it.
    #[must_use]
    pub fn none() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self { cancel: &NEVER, progress: &|_, _| {} }
    }
}

/// Why a restore did not end.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The snapshot cannot be read.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The workspace cannot be worked in.
    #[error("cannot {action} {path}")]
    Root {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// Only an empty directory is filled without a look at what is there.
    #[error("{0} is not empty")]
    NotEmpty(PathBuf),
    /// It was stopped. What was done so far stays; the same plan goes on from there, and the plan
    /// the other way goes back.
    #[error("the restore was stopped half-way")]
    Cancelled,
}

/// Does what a plan says, under `root`. It is durable when this returns.
pub fn restore(
    root: &Path,
    objects: &dyn Objects,
    plan: &Plan,
    watch: &RestoreWatch<'_>,
) -> Result<Restored, RestoreError> {
    let run = Run::new(root, objects, watch)?;
    run.sweep(plan);
    run.all(root, plan)
}

/// Fills an empty directory with a tree. It is durable when this returns.
pub fn restore_all(
    root: &Path,
    objects: &dyn Objects,
    tree: ObjectHash,
    watch: &RestoreWatch<'_>,
) -> Result<Restored, RestoreError> {
    let mut run = Run::new(root, objects, watch)?;
    if !run.root.is_empty().map_err(on("read", root))? {
        return Err(RestoreError::NotEmpty(root.to_owned()));
    }
    run.made.insert(Vec::new());
    run.all(root, &plan_all(objects, tree)?)
}

fn on(action: &'static str, path: &Path) -> impl FnOnce(Errno) -> RestoreError {
    let path = path.to_owned();
    move |source| RestoreError::Root { action, path, source: source.into() }
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Kept(&'static str),
}

type StepResult = Result<Outcome, StepError>;

pub(crate) struct Run<'a> {
    pub(crate) objects: &'a dyn Objects,
    root: Root,
    watch: &'a RestoreWatch<'a>,
    pub(crate) temporary: Temporary,
    /// Directories that this run made: all that is in them is its own.
    made: HashSet<Vec<u8>>,
    /// Directories that were let into, and the modes that they had.
    opened: Mutex<BTreeMap<Vec<u8>, u16>>,
    tally: Mutex<Restored>,
    done: AtomicU64,
    total: u64,
    #[cfg(test)]
    pub(crate) fuse: Option<std::sync::atomic::AtomicI64>,
}

impl<'a> Run<'a> {
    fn new(
        root: &Path,
        objects: &'a dyn Objects,
        watch: &'a RestoreWatch<'a>,
    ) -> Result<Self, RestoreError> {
        Ok(Self {
            objects,
            root: Root::open(root).map_err(on("open", root))?,
            watch,
            temporary: Temporary::default(),
            made: HashSet::new(),
            opened: Mutex::default(),
            tally: Mutex::default(),
            done: AtomicU64::new(0),
            total: 0,
            #[cfg(test)]
            fuse: None,
        })
    }

    /// Before each operation that changes something: tests stop a run here.
    #[cfg(test)]
    pub(crate) fn act(&self) -> Result<(), StepError> {
        match &self.fuse {
            Some(fuse) if fuse.fetch_sub(1, Ordering::SeqCst) <= 0 => Err(StepError::Stopped),
            _ => Ok(()),
        }
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)] // A test's fuse is here.
    pub(crate) fn act(&self) -> Result<(), StepError> {
        Ok(())
    }

    fn all(mut self, root: &Path, plan: &Plan) -> Result<Restored, RestoreError> {
        self.total = plan.steps.len() as u64;
        let kept = plan.kept.iter().map(|kept| (kept.path.clone(), kept.why.to_owned()));
        self.tally().kept.extend(kept);
        let phases = self.phases(plan);
        if phases.is_err() {
            self.close_opened();
            return Err(RestoreError::Cancelled);
        }
        self.root.sync().map_err(on("sync", root))?;
        (self.watch.progress)(self.total, self.total);
        let mut restored = self.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        restored.kept.sort();
        restored.failed.sort();
        Ok(restored)
    }

    fn phases(&mut self, plan: &Plan) -> Result<(), StepError> {
        let mut deletes = Vec::new();
        let mut directories_gone = Vec::new();
        let mut directories = Vec::new();
        let mut writes = Vec::new();
        let mut modes = Vec::new();
        for step in &plan.steps {
            match (step.action, kind(&step.was), kind(&step.entry)) {
                (Action::Delete, Some(EntryKind::Directory), _) => directories_gone.push(step),
                (Action::Delete, ..) => deletes.push(step),
                (Action::Chmod, _, Some(EntryKind::Directory)) => {}
                (Action::Chmod, ..) => modes.push(step),
                (_, _, Some(EntryKind::Directory)) => directories.push(step),
                (_, Some(EntryKind::Directory), _) => {
                    directories_gone.push(step);
                    writes.push(step);
                }
                _ => writes.push(step),
            }
        }
        let deletes: Vec<_> = deletes.chunks(GROUP).collect();
        self.share(&deletes, &|group| {
            group.iter().try_for_each(|step| self.settle(step, || self.delete(step)))
        })?;
        let mut stuck = HashSet::new();
        for step in directories_gone.into_iter().rev() {
            self.remove_directory_of(step, &mut stuck)?;
        }
        for step in directories {
            let made = self.make_directory(step);
            if matches!(made, Ok((_, Made::Here))) {
                self.made.insert(step.path.clone());
            }
            self.settle(step, || made.map(|(outcome, _)| outcome))?;
        }
        for step in modes {
            self.settle(step, || self.chmod(step))?;
        }
        writes.retain(|step| !stuck.contains(&step.path));
        self.write_all(&writes)?;
        self.set_directory_modes(plan)
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, Restored> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a step, and notes how it ended.
    fn settle(&self, step: &Step, work: impl FnOnce() -> StepResult) -> Result<(), StepError> {
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

    fn note(&self, step: &Step, outcome: StepResult) {
        let mut tally = self.tally();
        match outcome {
            Ok(Outcome::Done) => match step.action {
                Action::Create => tally.created += 1,
                Action::Change | Action::Chmod => tally.changed += 1,
                Action::Delete => tally.deleted += 1,
            },
            Ok(Outcome::Kept(why)) => tally.kept.push((step.path.clone(), why.to_owned())),
            Err(error) => tally.failed.push((step.path.clone(), told(&error))),
        }
        let special =
            |entry: &Entry| entry.kind != EntryKind::Directory && entry.mode & !FILE_BITS != 0;
        if step.entry.as_ref().is_some_and(special) {
            tally.kept.push((step.path.clone(), SPECIAL_BITS.to_owned()));
        }
        drop(tally);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(32) {
            (self.watch.progress)(done.min(self.total), self.total);
        }
    }

    /// Does `work` on each item, with several threads where there are many.
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
                all = all.and(other.join().unwrap_or(Err(StepError::Stopped)));
            }
            all
        })
    }

    /// Does `work` in a directory. One that keeps its owner out is opened to him for the time.
    fn within(
        &self,
        directory: &[u8],
        work: &mut dyn FnMut(&std::os::fd::OwnedFd) -> StepResult,
    ) -> StepResult {
        let fd = self.directory(directory)?;
        match work(&fd) {
            Err(StepError::Io(Errno::ACCESS)) if self.let_in(directory) => work(&fd),
            outcome => outcome,
        }
    }

    fn directory(&self, path: &[u8]) -> Result<Arc<std::os::fd::OwnedFd>, Errno> {
        match self.root.directory(path) {
            Err(Errno::ACCESS) if !path.is_empty() => {
                self.let_in(split(path).0);
                self.root.directory(path)
            }
            opened => opened,
        }
    }

    /// Gives the owner every right in a directory. Can he work in it now?
    fn let_in(&self, path: &[u8]) -> bool {
        if path.is_empty() {
            return false;
        }
        let (parent, name) = split(path);
        let Ok(parent) = self.directory(parent) else { return false };
        let Ok(Some(seen)) = look(&parent, name) else { return false };
        if seen.kind != FileType::Directory {
            return false;
        }
        if seen.mode & OWNER == OWNER {
            return true;
        }
        if self.act().is_err() {
            return false;
        }
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.entry(path.to_vec()).or_insert(seen.mode);
        set_mode(&parent, name, seen.mode | OWNER).is_ok()
    }

    /// Removes what an earlier run, cut off, left in the directories that the plan touches.
    fn sweep(&self, plan: &Plan) {
        let parents: BTreeSet<_> = plan.steps.iter().map(|step| split(&step.path).0).collect();
        for parent in parents {
            // What cannot be swept is in nobody's way.
            let _ = self.within(parent, &mut |directory| {
                for name in names(directory)?.iter().filter(|name| Temporary::is(name)) {
                    rustix::fs::unlinkat(directory, name.as_slice(), AtFlags::empty())?;
                }
                Ok(Outcome::Done)
            });
        }
    }

    fn delete(&self, step: &Step) -> StepResult {
        let (parent, name) = split(&step.path);
        let outcome = self.within(parent, &mut |directory| {
            let found = find(self.objects, directory, name, step)?;
            let seen = match found {
                Found::Missing => return Ok(Outcome::Done),
                Found::Replaceable(seen) => seen,
                Found::Target(_) | Found::Other => return Ok(Outcome::Kept(EDITED)),
            };
            if look(directory, name)? != Some(seen) {
                return Ok(Outcome::Kept(EDITED));
            }
            self.act()?;
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
            Ok(Outcome::Done)
        });
        gone_is_done(outcome)
    }

    /// Removes the directory of a step that deletes it, or puts something else in its place.
    fn remove_directory_of(
        &self,
        step: &Step,
        stuck: &mut HashSet<Vec<u8>>,
    ) -> Result<(), StepError> {
        let replaced = step.entry.is_some();
        let (parent, name) = split(&step.path);
        let outcome = gone_is_done(self.within(parent, &mut |directory| {
            self.act()?;
            match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => Ok(Outcome::Done),
                // What stands there now is looked at when its own turn comes.
                Err(Errno::NOTDIR) if replaced => Ok(Outcome::Done),
                Err(Errno::NOTDIR) => Ok(Outcome::Kept(EDITED)),
                Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Outcome::Kept(HOLDS_MORE)),
                Err(error) => Err(error.into()),
            }
        }));
        if replaced && matches!(outcome, Ok(Outcome::Done)) {
            return Ok(());
        }
        if replaced {
            stuck.insert(step.path.clone());
        }
        self.settle(step, || outcome)
    }

    fn make_directory(&self, step: &Step) -> Result<(Outcome, Made), StepError> {
        let (parent, name) = split(&step.path);
        let mode = step.entry.as_ref().map_or(OWNER, |entry| entry.mode & FILE_BITS | OWNER);
        let mut made = Made::Before;
        let outcome = self.within(parent, &mut |directory| {
            if let Outcome::Kept(why) = self.clear_for_directory(directory, name, step)? {
                return Ok(Outcome::Kept(why));
            }
            self.act()?;
            match rustix::fs::mkdirat(directory, name, rustix::fs::Mode::from_raw_mode(mode.into()))
            {
                Ok(()) => made = Made::Here,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            match look(directory, name)? {
                Some(seen) if seen.kind == FileType::Directory => Ok(Outcome::Done),
                _ => Ok(Outcome::Kept(EXISTS)),
            }
        })?;
        Ok((outcome, made))
    }

    /// Removes the file or link that is where a directory comes.
    fn clear_for_directory(
        &self,
        directory: &std::os::fd::OwnedFd,
        name: &[u8],
        step: &Step,
    ) -> StepResult {
        if step.was.is_none() {
            return Ok(Outcome::Done);
        }
        match find(self.objects, directory, name, step)? {
            Found::Missing | Found::Target(_) => Ok(Outcome::Done),
            Found::Replaceable(seen) if look(directory, name)? == Some(seen) => {
                self.act()?;
                rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
                Ok(Outcome::Done)
            }
            Found::Replaceable(_) | Found::Other => Ok(Outcome::Kept(EDITED)),
        }
    }

    fn chmod(&self, step: &Step) -> StepResult {
        let (Some(was), Some(entry)) = (&step.was, &step.entry) else { return Ok(Outcome::Done) };
        let (parent, name) = split(&step.path);
        let mode = entry.mode & FILE_BITS;
        self.within(parent, &mut |directory| match look(directory, name)? {
            Some(seen) if seen.kind != FileType::RegularFile => Ok(Outcome::Kept(EDITED)),
            Some(seen) if seen.mode == mode => Ok(Outcome::Done),
            Some(seen) if seen.mode != was.mode => Ok(Outcome::Kept(MODE_EDITED)),
            Some(_) => {
                self.act()?;
                set_mode(directory, name, mode)?;
                Ok(Outcome::Done)
            }
            None => Ok(Outcome::Kept(EDITED)),
        })
    }

    fn write_all(&self, steps: &[&Step]) -> Result<(), StepError> {
        let groups = self.grouped(steps);
        let write = |group: &Vec<&Step>| self.write_group(group);
        if steps.len() < FEW {
            return groups.iter().try_for_each(write);
        }
        self.share(&groups, &write)
    }

    /// Steps whose objects are kept together, together. A large file is alone.
    fn grouped<'s>(&self, steps: &[&'s Step]) -> Vec<Vec<&'s Step>> {
        let (large, small): (Vec<&Step>, Vec<&Step>) =
            steps.iter().copied().partition(|step| kind(&step.entry) == Some(EntryKind::Large));
        let hashes: Vec<_> = small.iter().filter_map(|step| hash(step)).collect();
        let places = self.objects.places(&hashes).unwrap_or_default();
        let mut placed: Vec<_> = small
            .into_iter()
            .enumerate()
            .map(|(at, step)| (places.get(at).copied().flatten(), hash(step), step))
            .collect();
        placed.sort_by_key(|(place, hash, _)| (*place, *hash));
        let mut groups: Vec<Vec<&Step>> = large.into_iter().map(|step| vec![step]).collect();
        let mut last = None;
        for (place, _, step) in placed {
            match groups.last_mut() {
                Some(group) if last.is_some() && (last == Some(place) || group.len() < GROUP) => {
                    group.push(step);
                }
                _ => groups.push(vec![step]),
            }
            last = Some(place);
        }
        groups
    }

    fn write_group(&self, group: &[&Step]) -> Result<(), StepError> {
        if let [step] = group
            && let Some(entry) = step.entry.as_ref().filter(|e| e.kind == EntryKind::Large)
        {
            return self.settle(step, || {
                let chunks = crate::content::read_chunks(self.objects, entry)?;
                self.put(step, entry, &Body::Chunks(&chunks))
            });
        }
        let mut rows: Vec<(ObjectHash, Vec<&Step>)> = Vec::new();
        for step in group {
            let Some(hash) = hash(step) else { continue };
            match rows.last_mut() {
                Some((last, steps)) if *last == hash => steps.push(step),
                _ => rows.push((hash, vec![step])),
            }
        }
        let hashes: Vec<_> = rows.iter().map(|(hash, _)| *hash).collect();
        let mut missing = vec![true; rows.len()];
        let mut stopped = Ok(());
        let read = self.objects.read_many(&hashes, &mut |at, bytes| {
            let (Some(bytes), Some((_, steps))) = (bytes, rows.get(at)) else {
                return ControlFlow::Continue(());
            };
            if let Some(missing) = missing.get_mut(at) {
                *missing = false;
            }
            for step in steps {
                let Some(entry) = &step.entry else { continue };
                stopped = self.settle(step, || self.put(step, entry, &Body::Bytes(bytes)));
                if stopped.is_err() {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        stopped?;
        let why = read.err().map_or(DAMAGED.to_owned(), |error| error.to_string());
        for (_, (_, steps)) in missing.iter().zip(&rows).filter(|(missing, _)| **missing) {
            let failed = steps.iter().map(|step| (step.path.clone(), why.clone()));
            self.tally().failed.extend(failed);
        }
        Ok(())
    }

    fn put(&self, step: &Step, entry: &Entry, body: &Body<'_>) -> StepResult {
        let (parent, name) = split(&step.path);
        let fresh = self.made.contains(parent);
        let outcome = self.within(parent, &mut |directory| {
            if fresh {
                match self.write(directory, name, entry, body) {
                    Err(StepError::Io(Errno::EXIST)) => {}
                    written => return written.map(|()| Outcome::Done),
                }
            }
            self.put_beside(directory, name, step, entry, body)
        });
        match outcome {
            Err(StepError::Io(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => {
                Err(StepError::File(std::io::Error::other(NOT_A_DIRECTORY)))
            }
            outcome => outcome,
        }
    }

    fn put_beside(
        &self,
        directory: &std::os::fd::OwnedFd,
        name: &[u8],
        step: &Step,
        entry: &Entry,
        body: &Body<'_>,
    ) -> StepResult {
        // Another may make the file in between: then it is looked at again.
        for _ in 0..3 {
            match find(self.objects, directory, name, step)? {
                Found::Missing => match self.write_new(directory, name, entry, body) {
                    Err(StepError::Io(Errno::EXIST)) => {}
                    written => return written.map(|()| Outcome::Done),
                },
                Found::Target(seen) => {
                    let mode = entry.mode & FILE_BITS;
                    if seen.kind == FileType::RegularFile && seen.mode != mode {
                        self.act()?;
                        set_mode(directory, name, mode)?;
                    }
                    return Ok(Outcome::Done);
                }
                Found::Replaceable(seen) => {
                    let replaced = self.replace(directory, name, seen, entry, body)?;
                    return Ok(if replaced { Outcome::Done } else { Outcome::Kept(EDITED) });
                }
                Found::Other if step.action == Action::Create => return Ok(Outcome::Kept(EXISTS)),
                Found::Other => break,
            }
        }
        Ok(Outcome::Kept(EDITED))
    }

    fn set_directory_modes(&self, plan: &Plan) -> Result<(), StepError> {
        let mut modes: BTreeMap<&[u8], DirectoryMode<'_>> = BTreeMap::new();
        for (path, mode) in &plan.closed {
            modes.insert(path, DirectoryMode::Closed(*mode));
        }
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (path, mode) in &opened {
            modes.insert(path, DirectoryMode::Opened(*mode));
        }
        for step in plan.steps.iter().filter(|s| kind(&s.entry) == Some(EntryKind::Directory)) {
            modes.insert(&step.path, DirectoryMode::Step(step));
        }
        for (path, mode) in modes.into_iter().rev() {
            let set = || self.set_directory_mode(path, &mode);
            match mode {
                DirectoryMode::Step(step) if step.action == Action::Chmod => {
                    self.settle(step, set)?;
                }
                _ => match set() {
                    Err(StepError::Stopped) => return Err(StepError::Stopped),
                    // It is gone or was kept, which is told already.
                    Ok(_) | Err(StepError::Io(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => {}
                    Err(error) => self.tally().failed.push((path.to_vec(), told(&error))),
                },
            }
        }
        Ok(())
    }

    fn set_directory_mode(&self, path: &[u8], to: &DirectoryMode<'_>) -> StepResult {
        let (parent, name) = split(path);
        let directory = self.directory(parent)?;
        let Some(seen) = look(&directory, name)? else { return Ok(Outcome::Kept(EDITED)) };
        if seen.kind != FileType::Directory {
            return Ok(Outcome::Kept(EDITED));
        }
        let mode = match to {
            DirectoryMode::Closed(mode) if seen.mode != mode | OWNER => return Ok(Outcome::Done),
            DirectoryMode::Closed(mode) | DirectoryMode::Opened(mode) => *mode,
            DirectoryMode::Step(step) => {
                let mode = step.entry.as_ref().map_or(seen.mode, |e| e.mode & DIRECTORY_BITS);
                let was = step.was.as_ref().filter(|_| step.action == Action::Chmod);
                let known = |was: &Entry| {
                    [was.mode, was.mode | OWNER, mode, mode | OWNER].contains(&seen.mode)
                };
                if !was.is_none_or(known) {
                    return Ok(Outcome::Kept(MODE_EDITED));
                }
                mode
            }
        };
        if seen.mode != mode {
            self.act()?;
            set_mode(&directory, name, mode)?;
        }
        Ok(Outcome::Done)
    }

    /// Gives back the modes of the directories that were let into: the restore was stopped.
    fn close_opened(&self) {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (path, mode) in opened.iter().rev() {
            let _ = self.set_directory_mode(path, &DirectoryMode::Opened(*mode));
        }
    }
}

/// Was a directory made by this run?
#[derive(Clone, Copy)]
enum Made {
    Here,
    Before,
}

/// Where the mode of a directory comes from.
enum DirectoryMode<'a> {
    /// It stays as it was, closed to its owner.
    Closed(u16),
    /// It was let into, and had this one.
    Opened(u16),
    /// A step sets it.
    Step(&'a Step),
}

fn kind(entry: &Option<Entry>) -> Option<EntryKind> {
    entry.as_ref().map(|entry| entry.kind)
}

fn hash(step: &Step) -> Option<ObjectHash> {
    step.entry.as_ref().map(|entry| entry.hash)
}

/// Where the directory is not there, neither is what was in it.
fn gone_is_done(outcome: StepResult) -> StepResult {
    match outcome {
        Err(StepError::Io(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => Ok(Outcome::Done),
        outcome => outcome,
    }
}

fn told(error: &StepError) -> String {
    match error {
        StepError::Io(errno) => std::io::Error::from(*errno).to_string(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
