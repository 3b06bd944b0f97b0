//! A disk that counts its syncs.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use abide_journal::{Access, Disk, LockMode, Storage, StorageFile, StorageLock};

/// How often something was made durable, of files and of directories.
#[derive(Debug, Clone, Default)]
pub(crate) struct Syncs(Arc<AtomicU64>);

impl Syncs {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The real file system, with a count of its syncs.
#[derive(Debug, Default)]
pub(crate) struct CountingDisk {
    disk: Disk,
    pub(crate) syncs: Syncs,
}

#[derive(Debug)]
struct CountingFile {
    file: Arc<dyn StorageFile>,
    syncs: Syncs,
}

impl Storage for CountingDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(CountingFile {
            file: self.disk.open(path, access)?,
            syncs: self.syncs.clone(),
        }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.make_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn modified(&self, path: &Path) -> io::Result<std::time::SystemTime> {
        self.disk.modified(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.syncs.add();
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Option<Box<dyn StorageLock>>> {
        self.disk.lock(path, mode)
    }
}

impl StorageFile for CountingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }

    fn overwrites_in_place(&self) -> bool {
        self.file.overwrites_in_place()
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.add();
        self.file.sync()
    }
}
