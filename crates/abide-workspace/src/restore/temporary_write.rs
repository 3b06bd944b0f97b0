//! Writes one file or link: complete under its name, or not at all.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::found::StepError;
use super::restore_sync::RestoreSync;
use super::{FILE_BITS, RestoreRun};
use crate::compare::read::{ReadError, read_object};
use crate::owner::FileOwner;
use crate::restore::workspace_root::{FileFingerprint, look_below_root, sync_data};
use crate::{ChunkList, EntryKind, TreeEntry};

const PREFIX: &[u8] = b".abide-tmp-";
/// Bytes per write. Small in tests, so that they can stop in the middle of a file.
const PIECE: usize = if cfg!(test) { 4 } else { 1024 * 1024 };

/// Names for incomplete files, unique to each run.
pub(super) struct TemporaryNames {
    run: u64,
    next: AtomicU64,
}

impl Default for TemporaryNames {
    fn default() -> Self {
        let run = RandomState::new().build_hasher().finish();
        Self { run, next: AtomicU64::new(0) }
    }
}

impl TemporaryNames {
    pub(super) fn name(&self) -> Vec<u8> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let mut name = PREFIX.to_vec();
        name.extend_from_slice(format!("{:016x}-{next:x}", self.run).as_bytes());
        name
    }

    /// Returns true for a name that any run could have used.
    pub(super) fn is(name: &[u8]) -> bool {
        let hex = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_hexdigit);
        name.strip_prefix(PREFIX)
            .and_then(|rest| rest.split_at_checked(16))
            .is_some_and(|(run, next)| hex(run) && next.strip_prefix(b"-").is_some_and(hex))
    }
}

/// The content of a file, or the target of a link.
pub(super) enum FileContent<'a> {
    Bytes(&'a [u8]),
    Chunks(&'a ChunkList),
}

impl RestoreRun<'_> {
    /// Writes a file or link under a name that must be free.
    pub(super) fn write(
        &self,
        directory: &OwnedFd,
        name: &[u8],
        entry: &TreeEntry,
        body: &FileContent<'_>,
    ) -> Result<(), StepError> {
        self.act()?;
        if let (EntryKind::Link, FileContent::Bytes(target)) = (entry.kind, body) {
            rustix::fs::symlinkat(*target, directory, name)?;
            if let Some(owner) = FileOwner::of_new(directory) {
                owner.give_link(directory, name);
            }
            return Ok(());
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode((entry.mode & FILE_BITS).into());
        let file = rustix::fs::openat(directory, name, flags, mode)?;
        if let Some(owner) = FileOwner::of_new(directory) {
            owner.give(&file);
        }
        let written = self.write_content(&file, entry, body);
        if !matches!(written, Ok(()) | Err(StepError::Stopped)) {
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
        }
        written
    }

    fn write_content(
        &self,
        file: &OwnedFd,
        entry: &TreeEntry,
        body: &FileContent<'_>,
    ) -> Result<(), StepError> {
        match body {
            FileContent::Bytes(bytes) => self.write_bytes(file, bytes)?,
            FileContent::Chunks(chunks) => {
                for (length, hash) in &chunks.chunks {
                    let bytes = read_object(self.objects, *hash)?;
                    if bytes.len() as u64 != u64::from(*length) {
                        return Err(ReadError::Missing(*hash).into());
                    }
                    self.write_bytes(file, &bytes)?;
                }
            }
        }
        let mode = entry.mode & FILE_BITS;
        if FileFingerprint::of(&rustix::fs::fstat(file)?).mode != mode {
            self.act()?;
            rustix::fs::fchmod(file, Mode::from_raw_mode(mode.into()))?;
        }
        if self.durability == RestoreSync::Each {
            sync_data(file)?;
        }
        Ok(())
    }

    fn write_bytes(&self, file: &OwnedFd, mut bytes: &[u8]) -> Result<(), StepError> {
        while !bytes.is_empty() {
            self.act()?;
            let piece = bytes.get(..PIECE).unwrap_or(bytes);
            let written = match rustix::io::write(file, piece) {
                Err(Errno::INTR) => continue,
                Ok(0) => return Err(Errno::IO.into()),
                written => written?,
            };
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Writes a file or link under a name that was free. Fails with [`Errno::EXIST`] if it no
    /// longer is.
    pub(super) fn write_new(
        &self,
        directory: &OwnedFd,
        name: &[u8],
        entry: &TreeEntry,
        body: &FileContent<'_>,
    ) -> Result<(), StepError> {
        if entry.kind == EntryKind::Link {
            return self.write(directory, name, entry, body);
        }
        let temporary = self.temporary.name();
        self.write(directory, &temporary, entry, body)?;
        self.act()?;
        let renamed = rename_written(directory, &temporary, name);
        if renamed.is_err() {
            let _ = rustix::fs::unlinkat(directory, temporary.as_slice(), AtFlags::empty());
        }
        Ok(renamed?)
    }

    /// Replaces what was seen under a name. Does nothing if something else is there now.
    pub(super) fn replace(
        &self,
        directory: &OwnedFd,
        name: &[u8],
        seen: FileFingerprint,
        entry: &TreeEntry,
        body: &FileContent<'_>,
    ) -> Result<bool, StepError> {
        let temporary = self.temporary.name();
        self.write(directory, &temporary, entry, body)?;
        self.act()?;
        let same = look_below_root(directory, name).map(|now| now == Some(seen));
        let renamed = match same {
            Ok(true) => rustix::fs::renameat(directory, temporary.as_slice(), directory, name),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if renamed.is_err() || same == Ok(false) {
            let _ = rustix::fs::unlinkat(directory, temporary.as_slice(), AtFlags::empty());
        }
        renamed?;
        Ok(same?)
    }
}

/// Renames a file if the new name is free.
fn rename_written(directory: &OwnedFd, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    match rustix::fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())?;
            rustix::fs::unlinkat(directory, from, AtFlags::empty())
        }
        renamed => renamed,
    }
}
