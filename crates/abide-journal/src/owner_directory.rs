//! Gives new files to the owner of their directory.
//!
//! Root may work in a store that belongs to another user. Files left there as root's could no
//! longer be read or written by the store's owner, so root gives away what it creates. It gives
//! away nothing else: the owner of a directory can put a file of root's into it. And nowhere else:
//! the owner can replace the directory, so it is opened once and files are created through that
//! handle.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Dir, Gid, Mode, OFlags, Uid};

/// A directory of another user in which root creates something.
#[derive(Debug)]
pub(crate) struct OwnerDirectory<'a> {
    directory: OwnedFd,
    user: Uid,
    group: Gid,
    name: &'a OsStr,
}

impl<'a> OwnerDirectory<'a> {
    /// The parent directory of this path, symlinks followed. `None` if what is created there keeps
    /// its creator as owner.
    pub(crate) fn of(path: &'a Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let name = path.file_name()?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(dir, flags, Mode::empty()).ok()?;
        let found = rustix::fs::fstat(&directory).ok()?;
        let (user, group) = (Uid::from_raw(found.st_uid), Gid::from_raw(found.st_gid));
        (!user.is_root()).then_some(Self { directory, user, group, name })
    }

    /// Creates the file, for reading and writing.
    pub(crate) fn make(&self) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let file = rustix::fs::openat(&self.directory, self.name, flags, mode)?;
        self.give(&file);
        Ok(file.into())
    }

    /// Creates the directory. It is given away only while empty: otherwise it may be another one.
    pub(crate) fn make_directory(&self) -> io::Result<()> {
        rustix::fs::mkdirat(&self.directory, self.name, Mode::from_raw_mode(0o700))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(&self.directory, self.name, flags, Mode::empty());
        if let Ok(made) = made
            && owned_directory_is_empty(&made)
        {
            self.give(&made);
        }
        Ok(())
    }

    /// Gives away what was just created. A no-op on file systems without owners.
    pub(crate) fn give(&self, file: impl AsFd) {
        let _ = rustix::fs::fchown(file, Some(self.user), Some(self.group));
    }
}

/// Is the directory empty?
fn owned_directory_is_empty(directory: impl AsFd) -> bool {
    let is_own = |name: &[u8]| matches!(name, b"." | b"..");
    let names = Dir::read_from(directory);
    names.is_ok_and(|names| names.flatten().all(|entry| is_own(entry.file_name().to_bytes())))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    use super::*;

    #[test]
    #[allow(clippy::print_stdout)]
    fn what_is_given_away_is_in_the_directory_that_was_looked_at() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only root gives files away");
        }
        let dir = tempfile::tempdir().unwrap();
        let [theirs, moved, link] = ["theirs", "moved", "link"].map(|name| dir.path().join(name));
        fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(1234), Some(4321)).unwrap();
        let [file, inner] = ["file", "inner"].map(|name| theirs.join(name));
        let [to_file, to_inner] = [&file, &inner].map(|path| OwnerDirectory::of(path).unwrap());
        // Its owner puts another one in its place.
        fs::rename(&theirs, &moved).unwrap();
        fs::create_dir(&theirs).unwrap();
        to_file.make().unwrap();
        to_inner.make_directory().unwrap();
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
        for name in ["file", "inner"] {
            let found = fs::symlink_metadata(moved.join(name)).unwrap();
            assert_eq!((found.uid(), found.gid()), (1234, 4321), "{name}");
        }
        // What was there is not made.
        assert_eq!(to_file.make().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        // A store may be behind a link. What is made there is its owner's, whoever made the link.
        symlink(&moved, &link).unwrap();
        OwnerDirectory::of(&link.join("new")).unwrap().make().unwrap();
        assert_eq!(fs::symlink_metadata(moved.join("new")).unwrap().uid(), 1234);
    }
}
