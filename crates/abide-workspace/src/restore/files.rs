//! Writes files and links on several threads, grouped so that objects stored together are read
//! together.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use abide_model::ObjectHash;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::found::{PathState, StepError, find_on_disk};
use super::temporary_write::FileContent;
use super::{EDITED, EXISTS, FILE_BITS, RestoreRun, StepOutcome, StepResult, restored_kind};
use crate::compare::read::read_chunks;
use crate::compare::walk::split_walked_path;
use crate::{EntryKind, RestoreAction, RestoreStep, TreeEntry};

/// Fewer files than this are written on the calling thread.
const FEW: usize = 32;
/// Minimum number of objects that one thread reads together.
const GROUP: usize = 16;

const NOT_A_DIRECTORY: &str = "its parent is missing or not a directory";
const DAMAGED: &str = "its content is missing or damaged in the store";

impl RestoreRun<'_> {
    pub(super) fn write_files(&self, steps: &[&RestoreStep]) -> Result<(), StepError> {
        let groups = self.file_groups(steps);
        let write = |group: &Vec<&RestoreStep>| self.write_file_group(group);
        if steps.len() < FEW {
            return groups.iter().try_for_each(write);
        }
        self.share(&groups, &write)
    }

    /// Groups steps whose objects are stored together. A large file forms its own group.
    fn file_groups<'s>(&self, steps: &[&'s RestoreStep]) -> Vec<Vec<&'s RestoreStep>> {
        let (large, small): (Vec<&RestoreStep>, Vec<&RestoreStep>) = steps
            .iter()
            .copied()
            .partition(|step| restored_kind(&step.entry) == Some(EntryKind::Large));
        let hashes: Vec<_> = small.iter().filter_map(|step| restored_file_hash(step)).collect();
        let places = self.objects.places(&hashes).unwrap_or_default();
        let mut placed: Vec<_> = small
            .into_iter()
            .enumerate()
            .map(|(at, step)| (places.get(at).copied().flatten(), restored_file_hash(step), step))
            .collect();
        placed.sort_by_key(|(place, hash, _)| (*place, *hash));
        let mut groups: Vec<Vec<&RestoreStep>> = large.into_iter().map(|step| vec![step]).collect();
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

    fn write_file_group(&self, group: &[&RestoreStep]) -> Result<(), StepError> {
        if let [step] = group
            && let Some(entry) = step.entry.as_ref().filter(|e| e.kind == EntryKind::Large)
        {
            return self.settle(step, || {
                let chunks = read_chunks(self.objects, entry)?;
                self.put_file(step, entry, &FileContent::Chunks(&chunks))
            });
        }
        let mut rows: Vec<(ObjectHash, Vec<&RestoreStep>)> = Vec::new();
        for step in group {
            let Some(hash) = restored_file_hash(step) else { continue };
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
                stopped =
                    self.settle(step, || self.put_file(step, entry, &FileContent::Bytes(bytes)));
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

    pub(super) fn put_file(
        &self,
        step: &RestoreStep,
        entry: &TreeEntry,
        body: &FileContent<'_>,
    ) -> StepResult {
        let (parent, name) = split_walked_path(&step.path);
        let fresh = self.made.contains(parent);
        let outcome = self.within(parent, &mut |directory| {
            if fresh {
                match self.write(directory, name, entry, body) {
                    Err(StepError::Io(Errno::EXIST)) => {}
                    written => return written.map(|()| StepOutcome::Done),
                }
            }
            self.put_file_beside(directory, name, step, entry, body)
        });
        match outcome {
            Err(StepError::Io(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => {
                Err(StepError::File(std::io::Error::other(NOT_A_DIRECTORY)))
            }
            outcome => outcome,
        }
    }

    fn put_file_beside(
        &self,
        directory: &OwnedFd,
        name: &[u8],
        step: &RestoreStep,
        entry: &TreeEntry,
        body: &FileContent<'_>,
    ) -> StepResult {
        // If another process creates the file in between, look again.
        for _ in 0..3 {
            match find_on_disk(self.objects, directory, name, step)? {
                PathState::Missing => match self.write_new(directory, name, entry, body) {
                    Err(StepError::Io(Errno::EXIST)) => {}
                    written => return written.map(|()| StepOutcome::Done),
                },
                PathState::Target(seen) => {
                    let mode = entry.mode & FILE_BITS;
                    if seen.kind == FileType::RegularFile && seen.mode != mode {
                        self.act()?;
                        self.set_file_mode(directory, name, mode)?;
                    }
                    return Ok(StepOutcome::Done);
                }
                PathState::Replaceable(seen) => {
                    let replaced = self.replace(directory, name, seen, entry, body)?;
                    return Ok(if replaced {
                        StepOutcome::Done
                    } else {
                        StepOutcome::Kept(EDITED)
                    });
                }
                PathState::Other if step.action == RestoreAction::Create => {
                    return Ok(StepOutcome::Kept(EXISTS));
                }
                PathState::Other => break,
            }
        }
        Ok(StepOutcome::Kept(EDITED))
    }
}

fn restored_file_hash(step: &RestoreStep) -> Option<ObjectHash> {
    step.entry.as_ref().map(|entry| entry.hash)
}
