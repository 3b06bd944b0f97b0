//! Checks, byte by byte, whether a file still matches a snapshot.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use abide_model::{ObjectHash, Objects};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

use crate::compare::read::{ReadError, read_chunks, read_object};
use crate::restore::workspace_root::{FileFingerprint, READ, look_below_root};
use crate::{EntryKind, RestoreStep, TreeEntry};

/// What a step finds at its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathState {
    /// Nothing.
    Missing,
    /// Already the target: the step was done before.
    Target(FileFingerprint),
    /// What the plan expects; or only the first bytes of that or of the target, as an interrupted
    /// restore leaves them. The store holds the complete file.
    Replaceable(FileFingerprint),
    /// Something else, which the store may not hold.
    Other,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    #[error(transparent)]
    Io(#[from] Errno),
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The restore was cancelled.
    #[error("the restore was cancelled")]
    Stopped,
}

/// Examines the path of a step that writes or deletes a file or a link.
pub(super) fn find_on_disk(
    objects: &dyn Objects,
    directory: &OwnedFd,
    name: &[u8],
    step: &RestoreStep,
) -> Result<PathState, StepError> {
    let Some(seen) = look_below_root(directory, name)? else { return Ok(PathState::Missing) };
    let holds = |entry: Option<&TreeEntry>| {
        entry.map_or(Ok(false), |entry| found_matches_entry(objects, directory, name, &seen, entry))
    };
    if holds(step.entry.as_ref())? {
        return Ok(PathState::Target(seen));
    }
    let was = step.was.as_ref().filter(|was| was.kind != EntryKind::Directory);
    let begins = |entry| found_begins_entry(objects, directory, name, &seen, entry);
    if holds(was)? || begins(step.entry.as_ref())? || begins(was)? {
        return Ok(PathState::Replaceable(seen));
    }
    Ok(PathState::Other)
}

/// Returns true if what was seen under this name matches the entry. Modes are not compared.
fn found_matches_entry(
    objects: &dyn Objects,
    directory: &OwnedFd,
    name: &[u8],
    seen: &FileFingerprint,
    entry: &TreeEntry,
) -> Result<bool, StepError> {
    match entry.kind {
        EntryKind::Directory => Ok(seen.kind == FileType::Directory),
        EntryKind::Link => {
            if seen.kind != FileType::Symlink {
                return Ok(false);
            }
            let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
            Ok(ObjectHash::of(target.to_bytes()) == entry.hash)
        }
        EntryKind::File | EntryKind::Large => {
            if seen.kind != FileType::RegularFile || seen.size != entry.size {
                return Ok(false);
            }
            let Some(mut file) = open_found(directory, name, seen)? else { return Ok(false) };
            if entry.kind == EntryKind::File {
                let mut hasher = blake3::Hasher::new();
                hasher.update_reader(&mut file)?;
                return Ok(ObjectHash(*hasher.finalize().as_bytes()) == entry.hash);
            }
            for (length, hash) in read_chunks(objects, entry)?.chunks {
                if ObjectHash::of(&read_found(&mut file, u64::from(length))?) != hash {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// Returns true if the file holds only the first bytes of the entry.
fn found_begins_entry(
    objects: &dyn Objects,
    directory: &OwnedFd,
    name: &[u8],
    seen: &FileFingerprint,
    entry: Option<&TreeEntry>,
) -> Result<bool, StepError> {
    let Some(entry) = entry else { return Ok(false) };
    let file = matches!(entry.kind, EntryKind::File | EntryKind::Large);
    if !file || seen.kind != FileType::RegularFile || seen.size >= entry.size {
        return Ok(false);
    }
    let Some(mut file) = open_found(directory, name, seen)? else { return Ok(false) };
    let parts = match entry.kind {
        EntryKind::Large => read_chunks(objects, entry)?.chunks,
        _ => vec![(u32::MAX, entry.hash)],
    };
    let mut left = seen.size;
    for (length, hash) in parts {
        if left == 0 {
            break;
        }
        let bytes = read_found(&mut file, left.min(u64::from(length)))?;
        if !read_object(objects, hash)?.starts_with(&bytes) {
            return Ok(false);
        }
        left = left.saturating_sub(u64::from(length));
    }
    Ok(true)
}

/// Opens the file that was seen; `None` if it is a different one now.
fn open_found(
    directory: &OwnedFd,
    name: &[u8],
    seen: &FileFingerprint,
) -> Result<Option<File>, StepError> {
    let fd = match rustix::fs::openat(directory, name, READ, Mode::empty()) {
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        opened => opened?,
    };
    let same = FileFingerprint::of(&rustix::fs::fstat(&fd)?) == *seen;
    Ok(same.then(|| File::from(fd)))
}

fn read_found(file: &mut File, length: u64) -> Result<Vec<u8>, StepError> {
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}
