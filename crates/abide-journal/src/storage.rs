//! The abstraction of the file system. Everything durable goes through it.
//!
//! There are two implementations: [`Disk`](crate::Disk), and a simulated disk in the test kit that
//! loses unsynced data and fails on demand.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading and writing; created if missing.
    Create,
    /// For reading and writing; it must not exist.
    CreateNew,
}

/// Who else may hold the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Other shared holders.
    Shared,
    /// Nobody.
    Exclusive,
}

/// A file system.
pub trait Storage: Debug + Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StorageFile>>;
    /// Lists the names in a directory, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates a directory; its parent must exist. An existing one is left alone.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file, replacing an existing one; or a directory and its contents, replacing an
    /// empty one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file or an empty directory.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// When a file was last written.
    fn modified(&self, path: &Path) -> io::Result<SystemTime>;
    /// How many bytes can still be written where `dir` is; `u64::MAX` if unknown.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// Syncs a directory: makes the names in it durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Locks a file, creating it if missing; `None` if somebody else holds the lock. The lock is
    /// released when dropped and when the process ends.
    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Option<Box<dyn StorageLock>>>;
}

/// An open file. Reads and writes take an offset, so there is no shared position.
pub trait StorageFile: Debug + Send + Sync {
    /// Reads up to `buf.len()` bytes; 0 at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes a prefix of `buf`, possibly not all of it.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Truncates the file, or extends it with zeros.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Makes the file's bytes and length durable.
    fn sync(&self) -> io::Result<()>;
    /// Does a write over existing bytes go to the place where they are? Not on a file system that
    /// copies on write, nor where nobody knows.
    fn overwrites_in_place(&self) -> bool;

    /// Is the file empty?
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
}

/// A held lock.
pub trait StorageLock: Debug + Send + Sync {
    /// Does the path still name the locked file? If not, somebody else may hold a lock on the file
    /// that is there now.
    fn still_holds(&self) -> io::Result<bool>;

    /// The same for each commit of a busy writer: cheaper, and perhaps a moment late to notice that
    /// the directory was moved away.
    fn seems_held(&self) -> io::Result<bool> {
        self.still_holds()
    }
}

/// Reads until `buf` is full or the file ends. Returns the number of bytes read.
pub fn read_full(file: &dyn StorageFile, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all of `buf`, retrying short writes.
pub fn write_full(file: &dyn StorageFile, buf: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = buf.get(done..).filter(|rest| !rest.is_empty()) {
        match file.write_at(rest, offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
