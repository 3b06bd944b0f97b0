//! Whose a new file is: that of the directory it is made in.
//!
//! Root may work in a store that is somebody else's. What it left there as its own, the store's owner
//! could not read or write any more. So it gives away what it makes. Nothing else is given away: who
//! owns a directory can put something of root's in it.

use std::fs::{self, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Dir, OFlags};

/// A user and a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    user: u32,
    group: u32,
}

impl Owner {
    /// To whom what is made at this path is given; `None` where it stays with who makes it.
    pub(crate) fn of_new(path: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = fs::metadata(dir.unwrap_or(Path::new("."))).ok()?;
        (dir.uid() != 0).then(|| Self { user: dir.uid(), group: dir.gid() })
    }

    /// Gives a file that was just made. Where the file system knows no owners, it stays.
    pub(crate) fn give(self, file: impl AsFd) {
        let _ = std::os::unix::fs::fchown(file, Some(self.user), Some(self.group));
    }

    /// Gives a directory that was just made, unless something is in it: then it may be another.
    pub(crate) fn give_directory(self, dir: &Path) {
        let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
        let Ok(opened) = OpenOptions::new().read(true).custom_flags(flags).open(dir) else {
            return;
        };
        let Ok(names) = Dir::read_from(&opened) else { return };
        let is_own = |name: &[u8]| matches!(name, b"." | b"..");
        let mut names = names.flatten();
        if names.all(|entry| is_own(entry.file_name().to_bytes())) {
            self.give(&opened);
        }
    }
}
