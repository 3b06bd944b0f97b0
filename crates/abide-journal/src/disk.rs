//! The real file system.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::owner_directory::OwnerDirectory;
use crate::{Access, LockMode, Storage, StorageFile, StorageLock};

/// The real file system. Directories are created with mode 0700, files with 0600. Both belong to
/// the owner of the directory they are created in, even if root creates them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

/// Symlinks in a store are not followed: a store may come from somebody else, and nothing in it may
/// redirect a write outside of it.
const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();

/// Opening a named pipe must not wait for its other end. Later operations on it fail: a pipe has no
/// offsets to read and write at.
const NO_WAIT: i32 = OFlags::NONBLOCK.bits().cast_signed();

/// The file systems that overwrite in place, as `statfs` numbers them: ext2, ext3 and ext4; XFS.
#[cfg(target_os = "linux")]
const IN_PLACE: [i128; 2] = [0xEF53, 0x5846_5342];

#[derive(Debug)]
struct DiskFile(File);

#[derive(Debug)]
struct DiskLock {
    path: PathBuf,
    /// The directory of the locked file: a look at one name in it costs less than one at a path.
    dir: OwnedFd,
    name: OsString,
    /// When the path was last looked at, in milliseconds after `since`.
    looked: AtomicU64,
    since: Instant,
    /// The locked file when it was locked.
    locked: rustix::fs::Stat,
    file: File,
}

impl Storage for Disk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let mut options = OpenOptions::new();
        options.read(true).mode(0o600);
        let file = match access {
            Access::Read => open_disk_file(&mut options, path),
            Access::Write => open_disk_file(options.write(true), path),
            Access::Create => open_or_make_disk_file(options.write(true), path),
            Access::CreateNew => make_disk_file(options.write(true), path),
        };
        Ok(Arc::new(DiskFile(file?)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // A name that is not UTF-8 is not one of ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let made = match OwnerDirectory::of(dir) {
            Some(theirs) => theirs.make_directory(),
            None => fs::DirBuilder::new().mode(0o700).create(dir),
        };
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            made => made,
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if fs::symlink_metadata(path)?.is_dir() {
            fs::remove_dir(path)
        } else {
            fs::remove_file(path)
        }
    }

    fn modified(&self, path: &Path) -> io::Result<SystemTime> {
        fs::symlink_metadata(path)?.modified()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let disk = rustix::fs::statvfs(dir)?;
        // Some file systems (some network ones) report no blocks, so their size is unknown.
        match disk.f_blocks {
            0 => Ok(u64::MAX),
            _ => Ok(disk.f_bavail.saturating_mul(disk.f_frsize)),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Option<Box<dyn StorageLock>>> {
        Ok(lock_disk(path, mode)?.map(|lock| Box::new(lock) as Box<dyn StorageLock>))
    }
}

fn lock_disk(path: &Path, mode: LockMode) -> io::Result<Option<DiskLock>> {
    let operation = match mode {
        LockMode::Shared => FlockOperation::NonBlockingLockShared,
        LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    // The file is opened close-on-exec, as std always does, so that no child inherits the lock. If
    // the locked file is no longer the one at the path, it was unlinked in between: retry with
    // the one that is there now.
    for _ in 0..100 {
        let file = open_to_lock(path, mode)?;
        match rustix::fs::flock(&file, operation) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let lock = DiskLock {
            path: path.to_owned(),
            dir: rustix::fs::open(
                parent.unwrap_or(Path::new(".")),
                DIRECTORY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )?,
            name: path.file_name().unwrap_or_default().to_owned(),
            looked: AtomicU64::new(0),
            since: Instant::now(),
            locked: rustix::fs::fstat(&file)?,
            file,
        };
        if lock.still_holds()? {
            return Ok(Some(lock));
        }
    }
    Ok(None)
}

/// Opens a file for locking, creating it if missing. A shared lock does not require write
/// permission.
fn open_to_lock(path: &Path, mode: LockMode) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    if mode == LockMode::Shared {
        match open_disk_file(&mut options, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
    }
    open_or_make_disk_file(options.write(true).mode(0o600), path)
}

/// Creates a file.
fn make_disk_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    match OwnerDirectory::of(path) {
        Some(theirs) => theirs.make(),
        None => open_disk_file(options.create_new(true), path),
    }
}

/// Opens a file, creating it if missing.
fn open_or_make_disk_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // Only what is created here may be given away.
    if let Some(theirs) = OwnerDirectory::of(path) {
        match theirs.make() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
    }
    open_disk_file(options.create(true).truncate(false), path)
}

/// Opens a file without following symlinks or waiting for a pipe.
fn open_disk_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    match options.custom_flags(NO_FOLLOW | NO_WAIT).open(path) {
        // A file server has lent the file to a client and is recalling it.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            options.custom_flags(NO_FOLLOW).open(path)
        }
        opened => opened,
    }
}

impl StorageFile for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(buf, offset)
    }

    /// By a seek and not by `stat`: Linux gives a file whose times were looked at new ones with the next
    /// write, and on ext4 without a journal every sync then writes the inode too. Nobody uses the
    /// position.
    fn len(&self) -> io::Result<u64> {
        match (&self.0).seek(SeekFrom::End(0))? {
            // The end of a directory is wherever its file system says.
            end if end >= i64::MAX.cast_unsigned() => Err(io::ErrorKind::IsADirectory.into()),
            end => Ok(end),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn overwrites_in_place(&self) -> bool {
        #[cfg(target_os = "linux")]
        return rustix::fs::fstatfs(&self.0)
            .is_ok_and(|found| IN_PLACE.iter().any(|kind| i128::from(found.f_type) == *kind));
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Uses `fdatasync`; on macOS std uses `F_FULLFSYNC`.
    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// A busy writer looks at the path of its lock after so many milliseconds.
const LOOK_EVERY: u64 = 100;

/// To look names up in a directory, permission to search it is enough.
#[cfg(target_os = "linux")]
const DIRECTORY: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const DIRECTORY: OFlags = OFlags::RDONLY;

impl DiskLock {
    /// Milliseconds since it was locked.
    fn age(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn is_locked_file(&self, found: rustix::io::Result<rustix::fs::Stat>) -> io::Result<bool> {
        let locked = &self.locked;
        match found {
            Ok(there) => Ok((there.st_dev, there.st_ino) == (locked.st_dev, locked.st_ino)),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for DiskLock {
    /// Unlocks rather than only closing the file: a child that another thread has just started
    /// shares the open file until it runs its own program, and would keep the lock until then.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl StorageLock for DiskLock {
    fn still_holds(&self) -> io::Result<bool> {
        self.looked.store(self.age(), Ordering::Relaxed);
        self.is_locked_file(rustix::fs::lstat(&self.path))
    }

    fn seems_held(&self) -> io::Result<bool> {
        if self.age().saturating_sub(self.looked.load(Ordering::Relaxed)) > LOOK_EVERY {
            return self.still_holds();
        }
        self.is_locked_file(rustix::fs::statat(
            &self.dir,
            &self.name,
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_exclusive_and_notices_that_its_file_was_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = Disk.lock(&path, LockMode::Exclusive).unwrap().unwrap();
        assert!(Disk.lock(&path, LockMode::Exclusive).unwrap().is_none());
        assert!(Disk.lock(&path, LockMode::Shared).unwrap().is_none());
        assert!(held.still_holds().unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!held.still_holds().unwrap());
        assert!(!held.seems_held().unwrap());
        let second = Disk.lock(&path, LockMode::Exclusive).unwrap().unwrap();
        assert!(!held.still_holds().unwrap() && !held.seems_held().unwrap());
        assert!(second.still_holds().unwrap() && second.seems_held().unwrap());
        // The directory is moved away with its lock, and another one takes its place.
        let (inner, away) = (dir.path().join("inner"), dir.path().join("away"));
        fs::create_dir(&inner).unwrap();
        let held = Disk.lock(&inner.join("lock"), LockMode::Exclusive).unwrap().unwrap();
        fs::rename(&inner, &away).unwrap();
        assert!(!held.still_holds().unwrap());
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("lock"), "").unwrap();
        assert!(!held.still_holds().unwrap());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_system_that_does_not_tell_its_size_has_room() {
        assert_eq!(Disk.free_bytes(Path::new("/proc")).unwrap(), u64::MAX);
        assert_ne!(Disk.free_bytes(Path::new("/")).unwrap(), u64::MAX);
    }

    #[test]
    fn the_length_is_that_of_the_bytes_and_a_directory_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = Disk.open(&path, Access::Create).unwrap();
        assert_eq!(file.len().unwrap(), 0);
        fs::write(&path, [1; 4097]).unwrap();
        assert_eq!(file.len().unwrap(), 4097);
        let directory = Disk.open(dir.path(), Access::Read).unwrap();
        assert!(directory.len().map_or(true, |len| len < 1 << 30));
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for access in [Access::Read, Access::Write, Access::Create, Access::CreateNew] {
            assert!(Disk.open(&link, access).is_err(), "{access:?}");
        }
        assert!(Disk.lock(&link, LockMode::Exclusive).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    }

    #[test]
    #[allow(clippy::print_stdout)]
    fn what_root_makes_belongs_to_the_owner_of_the_directory() {
        use std::os::unix::fs::{MetadataExt, chown};
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only root gives files away");
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("of root"), "secret").unwrap();
        fs::create_dir(at("directory of root")).unwrap();
        let owner = |name: &str| {
            let found = fs::symlink_metadata(at(name)).unwrap();
            (found.uid(), found.gid())
        };
        Disk.open(&at("before"), Access::Create).unwrap();
        assert_eq!(owner("before"), (0, 0), "the directory is root's");
        chown(dir.path(), Some(1234), Some(4321)).unwrap();
        Disk.open(&at("new"), Access::CreateNew).unwrap();
        Disk.open(&at("opened"), Access::Create).unwrap();
        Disk.lock(&at("shared"), LockMode::Shared).unwrap();
        Disk.lock(&at("exclusive"), LockMode::Exclusive).unwrap();
        Disk.make_dir(&at("inner")).unwrap();
        Disk.open(&at("inner/deep"), Access::Create).unwrap();
        for name in ["new", "opened", "shared", "exclusive", "inner", "inner/deep"] {
            assert_eq!(owner(name), (1234, 4321), "{name}");
        }
        // What was there is not given away.
        Disk.open(&at("of root"), Access::Create).unwrap();
        Disk.lock(&at("of root"), LockMode::Exclusive).unwrap();
        Disk.make_dir(&at("directory of root")).unwrap();
        assert_eq!((owner("of root"), owner("directory of root")), ((0, 0), (0, 0)));
    }

    #[test]
    fn a_pipe_is_not_waited_for_and_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for access in [Access::Read, Access::Write, Access::Create] {
            let opened = Disk.open(&pipe, access).unwrap();
            assert!(opened.read_at(&mut [0; 8], 0).is_err(), "{access:?}");
            assert!(opened.write_at(b"lost", 0).is_err(), "{access:?}");
        }
        drop(Disk.lock(&pipe, LockMode::Shared));
    }

    #[test]
    fn a_child_that_is_being_started_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = lock_disk(&path, LockMode::Exclusive).unwrap().unwrap();
        // Until a child runs its own program it shares the open file, as this handle does.
        let _child = held.file.try_clone().unwrap();
        assert!(Disk.lock(&path, LockMode::Exclusive).unwrap().is_none());
        drop(held);
        assert!(Disk.lock(&path, LockMode::Exclusive).unwrap().is_some());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_does_not_inherit_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _held = Disk.lock(&path, LockMode::Exclusive).unwrap().unwrap();
        let files =
            std::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
        let files = String::from_utf8(files.stdout).unwrap();
        assert!(files.contains("/proc/"), "its own open files are listed: {files}");
        assert!(!files.contains(path.to_str().unwrap()), "{files}");
    }
}
