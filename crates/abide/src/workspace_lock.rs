//! Keeps two processes from restoring files in one directory at the same time.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::Error;

/// A lock on a workspace while its files are restored. Nothing is written for it.
#[derive(Debug)]
pub(crate) struct WorkspaceLock(Option<File>);

impl WorkspaceLock {
    /// Locks the workspace in this directory. A file system that cannot lock directories is used
    /// without a lock.
    ///
    /// # Errors
    ///
    /// Another process is restoring files there.
    pub(crate) fn of(root: &Path) -> Result<Self, Error> {
        let Ok(dir) = File::open(root) else { return Ok(Self(None)) };
        match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self(Some(dir))),
            Err(Errno::WOULDBLOCK) => Err(Error::Restoring { root: root.to_owned() }),
            Err(_) => Ok(Self(None)),
        }
    }
}

impl Drop for WorkspaceLock {
    /// A child that is just being started shares the open directory, and would keep the lock.
    fn drop(&mut self) {
        if let Some(dir) = &self.0 {
            let _ = flock(dir, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time_restores_files_in_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let held = WorkspaceLock::of(dir.path()).unwrap();
        let refused = WorkspaceLock::of(dir.path());
        assert!(matches!(refused, Err(Error::Restoring { .. })), "{refused:?}");
        drop(held);
        WorkspaceLock::of(dir.path()).unwrap();
        WorkspaceLock::of(&dir.path().join("gone")).unwrap();
    }
}
