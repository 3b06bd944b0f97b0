//! Writes files and links on several threads, grouped so that objects stored together are read
//! together.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use abide_model::ObjectHash;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::found::{Found, StepError, find};
use super::write::Body;
use super::{EDITED, EXISTS, FILE_BITS, Outcome, Run, StepResult, kind};
use crate::compare::read::read_chunks;
use crate::compare::walk::split;
use crate::{Action, Entry, EntryKind, Step};

/// Fewer files than this are written on the calling thread.
const FEW: usize = 32;
/// Minimum number of objects that one thread reads together.
const GROUP: usize = 16;

const NOT_A_DIRECTORY: &str = "its parent is missing or not a directory";
const DAMAGED: &str = "its content is missing or damaged in the store";

impl Run<'_> {
    pub(super) fn write_all(&self, steps: &[&Step]) -> Result<(), StepError> {
        let groups = self.grouped(steps);
        let write = |group: &Vec<&Step>| self.write_group(group);
        if steps.len() < FEW {
            return groups.iter().try_for_each(write);
        }
        self.share(&groups, &write)
    }

    /// Groups steps whose objects are stored together. A large file forms its own group.
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
                let chunks = read_chunks(self.objects, entry)?;
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

    pub(super) fn put(&self, step: &Step, entry: &Entry, body: &Body<'_>) -> StepResult {
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
        directory: &OwnedFd,
        name: &[u8],
        step: &Step,
        entry: &Entry,
        body: &Body<'_>,
    ) -> StepResult {
        // If another process creates the file in between, look again.
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
                        self.set_file_mode(directory, name, mode)?;
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
}

fn hash(step: &Step) -> Option<ObjectHash> {
    step.entry.as_ref().map(|entry| entry.hash)
}
