//! Removes what is in the way or was created since, but only if it still matches the snapshot of
//! the present.

use std::collections::HashSet;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::found::{PathState, StepError, find_on_disk};
use super::{EDITED, RestoreRun, StepOutcome, StepResult};
use crate::RestoreStep;
use crate::compare::walk::split_walked_path;
use crate::restore::workspace_root::look_below_root;

const HOLDS_MORE: &str = "it holds files that are not stored";

impl RestoreRun<'_> {
    pub(super) fn remove(&self, step: &RestoreStep) -> StepResult {
        let (parent, name) = split_walked_path(&step.path);
        let outcome = self.within(parent, &mut |directory| {
            let found = find_on_disk(self.objects, directory, name, step)?;
            let seen = match found {
                PathState::Missing => return Ok(StepOutcome::Done),
                PathState::Replaceable(seen) => seen,
                PathState::Target(_) | PathState::Other => return Ok(StepOutcome::Kept(EDITED)),
            };
            if look_below_root(directory, name)? != Some(seen) {
                return Ok(StepOutcome::Kept(EDITED));
            }
            self.act()?;
            rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
            Ok(StepOutcome::Done)
        });
        removed_or_gone(outcome)
    }

    /// Removes the directory of a step that deletes or replaces it.
    pub(super) fn remove_directory_of(
        &self,
        step: &RestoreStep,
        stuck: &mut HashSet<Vec<u8>>,
    ) -> Result<(), StepError> {
        let replaced = step.entry.is_some();
        let (parent, name) = split_walked_path(&step.path);
        let outcome = removed_or_gone(self.within(parent, &mut |directory| {
            self.act()?;
            match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => Ok(StepOutcome::Done),
                // Its own step deals with what is there now.
                Err(Errno::NOTDIR) if replaced => Ok(StepOutcome::Done),
                Err(Errno::NOTDIR) => Ok(StepOutcome::Kept(EDITED)),
                Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(StepOutcome::Kept(HOLDS_MORE)),
                Err(error) => Err(error.into()),
            }
        }));
        if replaced && matches!(outcome, Ok(StepOutcome::Done)) {
            return Ok(());
        }
        if replaced {
            stuck.insert(step.path.clone());
        }
        self.settle(step, || outcome)
    }
}

/// If the directory is missing, so are its contents.
fn removed_or_gone(outcome: StepResult) -> StepResult {
    match outcome {
        Err(StepError::Io(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => Ok(StepOutcome::Done),
        outcome => outcome,
    }
}
