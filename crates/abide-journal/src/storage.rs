//! The seam to the file system.
//!
//! Two implementations: [`Disk`](crate::Disk), and a simulated disk in the test kit that loses
//! what was not synced and fails on demand. Everything durable goes through here.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read it; it must exist.
    Read,
    /// To read and write it; it must exist.
    Write,
    /// To read and write it; made where it is missing.
    Create,
    /// To read and write it; it must not exist.
    CreateNew,
}

/// Who else may hold a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Others that share it.
    Shared,
    /// Nobody.
    Exclusive,
}

/// A tree of files.
pub trait Storage: Debug + Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StorageFile>>;
    /// The names in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes a directory; its parent must exist. One that exists is left as it is.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file, over another where there is one; or a directory with all that is in it, over
    /// an empty one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file, or a directory that is empty.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// When a file was last written.
    fn modified(&self, path: &Path) -> io::Result<SystemTime>;
    /// How many bytes may still be written where a directory is; `u64::MAX` where that is not known.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes a lock on a file, made where it is missing; `None` when somebody else has it. It is
    /// let go when dropped, and when the process ends.
    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Option<Box<dyn Lock>>>;
}

/// An open file. Reads and writes name their place, so that there is no position to share.
pub trait StorageFile: Debug + Send + Sync {
    /// Reads up to `buf.len()` bytes; 0 at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes some of `buf`, perhaps not all.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;
    /// How long it is.
    fn len(&self) -> io::Result<u64>;
    /// Cuts it, or fills it up with zeros.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Makes its bytes and its length durable.
    fn sync(&self) -> io::Result<()>;
    /// Sets room aside for bytes that will be written, without changing the length. A hint: where
    /// it cannot be done, nothing is.
    fn reserve(&self, offset: u64, bytes: u64);

    /// Has it no bytes?
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
}

/// A lock that is held.
pub trait Lock: Debug + Send + Sync {
    /// Does the path still lead to the file that is locked? Otherwise somebody else may hold
    /// what now stands there.
    fn still_holds(&self) -> io::Result<bool>;
}

/// Reads until `buf` is full or the file ends; says how much.
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

/// Writes all of `buf`, however short the single writes are.
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
