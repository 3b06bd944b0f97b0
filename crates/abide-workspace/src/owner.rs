//! Whose a new file is: that of the directory it is made in.
//!
//! Root may work in a workspace that is somebody else's. What it put there as its own, the workspace's
//! owner could not write any more. So it gives away what it makes. Nothing else is given away: who owns
//! a directory can put something of root's in it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Gid, Mode, OFlags, Stat, Uid};

use crate::restore::root::names;

/// A user and a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    user: Uid,
    group: Gid,
}

impl Owner {
    /// To whom what is made in this directory is given; `None` where it stays with who makes it.
    pub(crate) fn of_new(directory: impl AsFd) -> Option<Self> {
        is_root().then(|| rustix::fs::fstat(directory).ok()).flatten().and_then(Self::other)
    }

    fn other(directory: Stat) -> Option<Self> {
        let (user, group) = (Uid::from_raw(directory.st_uid), Gid::from_raw(directory.st_gid));
        (!user.is_root()).then_some(Self { user, group })
    }

    /// Gives a file that was just made. Where the file system knows no owners, it stays.
    pub(crate) fn give(self, file: impl AsFd) {
        let _ = rustix::fs::fchown(file, Some(self.user), Some(self.group));
    }

    /// Gives a directory that was just made, unless something is in it: then it may be another.
    pub(crate) fn give_directory(self, directory: &OwnedFd, name: &[u8]) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(made) = rustix::fs::openat(directory, name, flags, Mode::empty()) else { return };
        if names(&made).is_ok_and(|names| names.is_empty()) {
            self.give(made);
        }
    }

    /// Gives a link that was just made, and nothing else that stands there by now.
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

    /// A link without an owner of its own is nobody's loss.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn give_link(self, _: &OwnedFd, _: &[u8]) {}
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
