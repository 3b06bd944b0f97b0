//! New files get the owner of the directory they are created in.
//!
//! Root may work in somebody else's workspace, and the workspace's owner could not write to files
//! owned by root. So root gives away every file it creates there. It gives away nothing else: the
//! owner of a directory could have moved one of root's files into it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Gid, Mode, OFlags, Stat, Uid};

use crate::restore::workspace_root::names_below_root;

/// A user and a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileOwner {
    user: Uid,
    group: Gid,
}

impl FileOwner {
    /// The owner for new files in this directory; `None` if they stay with their creator.
    pub(crate) fn of_new(directory: impl AsFd) -> Option<Self> {
        is_root().then(|| rustix::fs::fstat(directory).ok()).flatten().and_then(Self::other)
    }

    fn other(directory: Stat) -> Option<Self> {
        let (user, group) = (Uid::from_raw(directory.st_uid), Gid::from_raw(directory.st_gid));
        (!user.is_root()).then_some(Self { user, group })
    }

    /// Changes the owner of a file that was just created. Does nothing on file systems without
    /// owners.
    pub(crate) fn give(self, file: impl AsFd) {
        let _ = rustix::fs::fchown(file, Some(self.user), Some(self.group));
    }

    /// Changes the owner of a directory that was just created, unless it is not empty: then it may
    /// be a different directory.
    pub(crate) fn give_directory(self, directory: &OwnedFd, name: &[u8]) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(made) = rustix::fs::openat(directory, name, flags, Mode::empty()) else { return };
        if names_below_root(&made).is_ok_and(|names| names.is_empty()) {
            self.give(made);
        }
    }

    /// Changes the owner of a link that was just created, unless something else has replaced it.
    #[cfg(target_os = "linux")]
    pub(crate) fn give_link(self, directory: &OwnedFd, name: &[u8]) {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(made) = rustix::fs::openat(directory, name, flags, Mode::empty()) else { return };
        let kind = |stat: Stat| rustix::fs::FileType::from_raw_mode(stat.st_mode);
        if rustix::fs::fstat(&made).map(kind) == Ok(rustix::fs::FileType::Symlink) {
            let (user, group) = (Some(self.user), Some(self.group));
            let _ = rustix::fs::chownat(made, c"", user, group, rustix::fs::AtFlags::EMPTY_PATH);
        }
    }

    /// The owner of a link does not matter here.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn give_link(self, _: &OwnedFd, _: &[u8]) {}
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
