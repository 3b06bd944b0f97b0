//! Creates directories and sets their modes.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;

use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::found::{PathState, StepError, find_on_disk};
use super::{
    EDITED, EXISTS, FILE_BITS, MODE_EDITED, RestoreRun, StepOutcome, StepResult,
    restore_error_text, restored_kind,
};
use crate::compare::walk::split_walked_path;
use crate::owner::FileOwner;
use crate::restore::workspace_root::{look_below_root, set_mode};
use crate::{EntryKind, RestoreAction, RestorePlan, RestoreStep, TreeEntry};

/// Mode bits that a restored directory can have.
const DIRECTORY_BITS: u16 = 0o3777;
/// The owner's permission bits.
const OWNER: u16 = 0o700;

/// The sticky bit marks a directory whose final mode is still to be set. It tells a run what an
/// interrupted run created or opened.
const UNFINISHED: u16 = 0o1000;

/// Added to the mode of a directory that locks its owner out.
const OPENED: u16 = OWNER | UNFINISHED;

/// Who created a directory.
#[derive(Clone, Copy)]
pub(super) enum DirectoryOrigin {
    /// This run.
    Here,
    /// An interrupted run. Or that run opened the directory to remove its contents.
    Earlier,
    /// Somebody else.
    Elsewhere,
}

/// Where the final mode of a directory comes from.
enum DirectoryMode<'a> {
    /// It keeps this mode, which locks its owner out.
    Closed(u16),
    /// It was opened and had this mode before.
    Opened(u16),
    /// A step sets it.
    Step(&'a RestoreStep),
}

/// The mode of a directory while files are written into it.
fn first_directory_mode(mode: u16) -> u16 {
    let first = mode & FILE_BITS | OWNER;
    if first == mode & DIRECTORY_BITS { first } else { first | UNFINISHED }
}

impl RestoreRun<'_> {
    pub(super) fn make_directory(
        &self,
        step: &RestoreStep,
    ) -> Result<(StepOutcome, DirectoryOrigin), StepError> {
        let (parent, name) = split_walked_path(&step.path);
        let mode = step.entry.as_ref().map_or(OWNER, |entry| first_directory_mode(entry.mode));
        let mut made = DirectoryOrigin::Elsewhere;
        let outcome = self.within(parent, &mut |directory| {
            if let StepOutcome::Kept(why) = self.clear_for_directory(directory, name, step)? {
                return Ok(StepOutcome::Kept(why));
            }
            self.act()?;
            match rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(mode.into())) {
                Ok(()) => {
                    made = DirectoryOrigin::Here;
                    if let Some(owner) = FileOwner::of_new(directory) {
                        owner.give_directory(directory, name);
                    }
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            match look_below_root(directory, name)? {
                Some(seen) if seen.kind == FileType::Directory => {
                    let as_made = seen.mode & (FILE_BITS | UNFINISHED) == mode;
                    match made {
                        // The umask cleared some bits.
                        DirectoryOrigin::Here if !as_made => set_mode(directory, name, mode)?,
                        DirectoryOrigin::Elsewhere if as_made && mode & UNFINISHED != 0 => {
                            made = DirectoryOrigin::Earlier;
                        }
                        _ => {}
                    }
                    Ok(StepOutcome::Done)
                }
                _ => Ok(StepOutcome::Kept(EXISTS)),
            }
        })?;
        Ok((outcome, made))
    }

    /// Removes the file or link that is in the way of a directory.
    fn clear_for_directory(
        &self,
        directory: &OwnedFd,
        name: &[u8],
        step: &RestoreStep,
    ) -> StepResult {
        if step.was.is_none() {
            return Ok(StepOutcome::Done);
        }
        match find_on_disk(self.objects, directory, name, step)? {
            PathState::Missing | PathState::Target(_) => Ok(StepOutcome::Done),
            PathState::Replaceable(seen) if look_below_root(directory, name)? == Some(seen) => {
                self.act()?;
                rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
                Ok(StepOutcome::Done)
            }
            PathState::Replaceable(_) | PathState::Other => Ok(StepOutcome::Kept(EDITED)),
        }
    }

    /// Gives the owner full access to a directory. Returns whether the owner can work in it now.
    pub(super) fn open_directory_to_owner(&self, path: &[u8]) -> bool {
        if path.is_empty() {
            return false;
        }
        let (parent, name) = split_walked_path(path);
        let Ok(parent) = self.directory(parent) else { return false };
        let Ok(Some(seen)) = look_below_root(&parent, name) else { return false };
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
        set_mode(&parent, name, seen.mode | OPENED).is_ok()
    }

    pub(super) fn set_directory_modes(&self, plan: &RestorePlan) -> Result<(), StepError> {
        let mut modes: BTreeMap<&[u8], DirectoryMode<'_>> = BTreeMap::new();
        for (path, mode) in &plan.closed {
            modes.insert(path, DirectoryMode::Closed(*mode));
        }
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (path, mode) in &opened {
            modes.insert(path, DirectoryMode::Opened(*mode));
        }
        for step in
            plan.steps.iter().filter(|s| restored_kind(&s.entry) == Some(EntryKind::Directory))
        {
            // A directory that existed already and is not stored keeps its mode.
            let made = self.made.contains(&step.path) || self.unfinished.contains(&step.path);
            if made || step.action == RestoreAction::Chmod {
                modes.insert(&step.path, DirectoryMode::Step(step));
            }
        }
        for (path, mode) in modes.into_iter().rev() {
            let set = || self.set_directory_mode(path, &mode);
            match mode {
                DirectoryMode::Step(step) if step.action == RestoreAction::Chmod => {
                    self.settle(step, set)?;
                }
                _ => match set() {
                    Err(StepError::Stopped) => return Err(StepError::Stopped),
                    // It is gone or was kept, which is reported already.
                    Ok(_) | Err(StepError::Io(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => {}
                    Err(error) => {
                        self.tally().failed.push((path.to_vec(), restore_error_text(&error)))
                    }
                },
            }
        }
        Ok(())
    }

    fn set_directory_mode(&self, path: &[u8], to: &DirectoryMode<'_>) -> StepResult {
        let (parent, name) = split_walked_path(path);
        let directory = self.directory(parent)?;
        let Some(seen) = look_below_root(&directory, name)? else {
            return Ok(StepOutcome::Kept(EDITED));
        };
        if seen.kind != FileType::Directory {
            return Ok(StepOutcome::Kept(EDITED));
        }
        let mode = match to {
            DirectoryMode::Closed(mode) if seen.mode != mode | OPENED => {
                return Ok(StepOutcome::Done);
            }
            DirectoryMode::Closed(mode) | DirectoryMode::Opened(mode) => *mode,
            DirectoryMode::Step(step) => {
                let mode = step.entry.as_ref().map_or(seen.mode, |e| e.mode & DIRECTORY_BITS);
                let was = step.was.as_ref().filter(|_| step.action == RestoreAction::Chmod);
                let known = |was: &TreeEntry| {
                    let known = [was.mode, was.mode | OPENED, mode, mode | OPENED];
                    known.iter().any(|known| (known ^ seen.mode) & DIRECTORY_BITS == 0)
                };
                if !was.is_none_or(known) {
                    return Ok(StepOutcome::Kept(MODE_EDITED));
                }
                mode
            }
        };
        if seen.mode != mode {
            self.act()?;
            set_mode(&directory, name, mode)?;
        }
        Ok(StepOutcome::Done)
    }

    /// Puts back the modes of opened directories after the restore was cancelled.
    pub(super) fn close_opened_directories(&self) {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (path, mode) in opened.iter().rev() {
            let _ = self.set_directory_mode(path, &DirectoryMode::Opened(*mode));
        }
    }
}
