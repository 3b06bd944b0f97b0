//! Removes what is in the way or was created since, but only if it still matches the snapshot of
//! the present.

use std::collections::HashSet;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::found::{Found, StepError, find};
use super::{EDITED, Outcome, Run, StepResult};
use crate::Step;
use crate::compare::walk::split;
use crate::restore::root::look;

const HOLDS_MORE: &str = "it holds files that are not stored";

impl Run<'_> {
    pub(super) fn delete(&self, step: &Step) -> StepResult {
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

    /// Removes the directory of a step that deletes or replaces it.
    pub(super) fn remove_directory_of(
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
                // Its own step deals with what is there now.
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
}

/// If the directory is missing, so are its contents.
fn gone_is_done(outcome: StepResult) -> StepResult {
    match outcome {
        Err(StepError::Io(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => Ok(Outcome::Done),
        outcome => outcome,
    }
}
