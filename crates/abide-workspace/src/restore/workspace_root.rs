//! The workspace root, opened once. Every path is resolved from it, and none leads out of it.
//!
//! Directories are opened without following links. Every operation uses a single name in an opened
//! directory, so a link that is swapped in meanwhile has no effect.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, Result};

use crate::file_system::is_native;

/// Maximum number of directories kept open.
const OPEN: usize = 64;

/// Opens a directory to work in, without needing permission to list it where the system allows
/// that.
#[cfg(target_os = "linux")]
pub(crate) const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Opens a directory to work in.
#[cfg(not(target_os = "linux"))]
pub(crate) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a file of unknown type for reading: does not follow links or block on pipes.
pub(crate) const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

pub(crate) struct WorkspaceRoot {
    fd: OwnedFd,
    /// True if names on this file system have only one spelling.
    pub(crate) native: bool,
    open: Mutex<HashMap<Vec<u8>, Arc<OwnedFd>>>,
}

impl WorkspaceRoot {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { fd, native: is_native(path), open: Mutex::default() })
    }

    /// Opens the directory at this path.
    pub(crate) fn directory(&self, path: &[u8]) -> Result<Arc<OwnedFd>> {
        if let Some(fd) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
            return Ok(Arc::clone(fd));
        }
        let fd = Arc::new(self.open_directory(path)?);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= OPEN {
            open.clear();
        }
        open.insert(path.to_vec(), Arc::clone(&fd));
        Ok(fd)
    }

    #[cfg(target_os = "linux")]
    fn open_directory(&self, path: &[u8]) -> Result<OwnedFd> {
        use rustix::fs::ResolveFlags;
        if path.is_empty() {
            return rustix::fs::openat(&self.fd, c".", DIRECTORY, Mode::empty());
        }
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&self.fd, path, DIRECTORY, Mode::empty(), resolve) {
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN | Errno::NAMETOOLONG) => {
                self.open_by_steps(path)
            }
            opened => opened,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open_directory(&self, path: &[u8]) -> Result<OwnedFd> {
        self.open_by_steps(path)
    }

    /// For kernels without `openat2`, and for paths too long for one call.
    fn open_by_steps(&self, path: &[u8]) -> Result<OwnedFd> {
        let mut at = rustix::fs::openat(&self.fd, c".", DIRECTORY, Mode::empty())?;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            if name == b".." {
                return Err(Errno::XDEV);
            }
            at = rustix::fs::openat(&at, name, DIRECTORY, Mode::empty())?;
        }
        Ok(at)
    }

    /// Makes everything that was written durable.
    #[cfg(target_os = "linux")]
    pub(crate) fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.fd)
    }

    /// Starts writing everything out; other systems guarantee no more.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn sync(&self) -> Result<()> {
        rustix::fs::sync();
        Ok(())
    }

    /// Makes the entries and the mode of this directory durable.
    pub(crate) fn sync_directory(&self, path: &[u8]) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = self.directory(path)?;
        rustix::fs::fsync(rustix::fs::openat(&directory, c".", flags, Mode::empty())?)
    }

    /// Returns true if the root is empty.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        Ok(names_below_root(&self.fd)?.is_empty())
    }
}

/// The names in an open directory.
pub(crate) fn names_below_root(directory: &OwnedFd) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(directory, c".", flags, Mode::empty())?;
    for entry in rustix::fs::Dir::new(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// The state of a file. Two equal values mean the same file, not written to in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileFingerprint {
    pub(crate) kind: FileType,
    pub(crate) mode: u16,
    pub(crate) size: u64,
    identity: (u64, u64),
    times: [(i64, i64); 2],
}

impl FileFingerprint {
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)] // The types differ by system.
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            mode: (stat.st_mode & 0o7777) as u16,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            identity: (stat.st_dev as u64, stat.st_ino as u64),
            times: [
                (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
                (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            ],
        }
    }
}

/// The state of the file with this name; links are not followed.
pub(crate) fn look_below_root(directory: &OwnedFd, name: &[u8]) -> Result<Option<FileFingerprint>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileFingerprint::of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets the mode of a file or directory; never follows a link.
pub(crate) fn set_mode(directory: &OwnedFd, name: &[u8], mode: u16) -> Result<()> {
    let kind = look_below_root(directory, name)?.ok_or(Errno::NOENT)?.kind;
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Err(Errno::LOOP);
    }
    let mode = Mode::from_raw_mode(mode.into());
    match rustix::fs::openat(directory, name, READ, Mode::empty()) {
        Ok(fd) => rustix::fs::fchmod(fd, mode),
        Err(Errno::ACCESS) => set_mode_unread(directory, name, mode),
        Err(error) => Err(error),
    }
}

/// Sets the mode of a file durably. The new mode must let the owner read it.
pub(crate) fn set_mode_durably(directory: &OwnedFd, name: &[u8], mode: u16) -> Result<()> {
    set_mode(directory, name, mode)?;
    rustix::fs::fsync(rustix::fs::openat(directory, name, READ, Mode::empty())?)
}

/// Makes the content of the file durable.
#[cfg(target_os = "linux")]
pub(crate) fn sync_data(file: &OwnedFd) -> Result<()> {
    rustix::fs::fdatasync(file)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn sync_data(file: &OwnedFd) -> Result<()> {
    rustix::fs::fsync(file)
}

/// For files that may not be read: goes through the kernel's name for the open file.
#[cfg(target_os = "linux")]
fn set_mode_unread(directory: &OwnedFd, name: &[u8], mode: Mode) -> Result<()> {
    use std::os::fd::AsRawFd;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    if FileFingerprint::of(&rustix::fs::fstat(&fd)?).kind == FileType::Symlink {
        return Err(Errno::LOOP);
    }
    rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), mode)
}

#[cfg(not(target_os = "linux"))]
fn set_mode_unread(directory: &OwnedFd, name: &[u8], mode: Mode) -> Result<()> {
    rustix::fs::chmodat(directory, name, mode, AtFlags::SYMLINK_NOFOLLOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{directory, file, link};

    #[test]
    fn no_link_is_followed_on_the_way_and_none_leads_up() {
        let room = tempfile::tempdir().unwrap();
        let up = room.path().join("up");
        directory([
            ("root", directory([("d", directory([("e", directory([]))])), ("f", file("f"))])),
            ("out", directory([("e", directory([]))])),
        ])
        .make(&up);
        link("../out").make(&up.join("root/l"));
        link("d").make(&up.join("root/inner"));
        let root = WorkspaceRoot::open(&up.join("root")).unwrap();
        for path in ["d", "d/e", ""] {
            assert!(root.open_directory(path.as_bytes()).is_ok(), "{path}");
            assert!(root.open_by_steps(path.as_bytes()).is_ok(), "{path}");
        }
        for path in ["l", "l/e", "inner", "inner/e", "..", "d/../..", "../out", "f", "none"] {
            assert!(root.open_directory(path.as_bytes()).is_err(), "{path}");
            assert!(root.open_by_steps(path.as_bytes()).is_err(), "{path}");
        }
        let top = root.directory(b"").unwrap();
        assert_eq!(set_mode(&top, b"l", 0o700), Err(Errno::LOOP));
    }
}
