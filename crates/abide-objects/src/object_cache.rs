//! A cache on the local disk: objects read or put lately, as they are in the store.
//!
//! It holds only copies: every file is verified when it is read, any may be missing, and an error
//! here is never an error of the store. Several processes share a directory; files appear by
//! rename.

use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use abide_model::ObjectHash;

use crate::envelope;

/// A cache on the local disk.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// Its directory; created if it does not exist.
    pub directory: PathBuf,
    /// The most bytes it may hold. The least recently used objects are removed first. Each writing
    /// process may exceed it by a sixteenth.
    pub bytes: u64,
}

#[derive(Debug)]
pub(crate) struct ObjectCache {
    options: CacheOptions,
    /// Bytes that may be added before the next sweep.
    left: AtomicU64,
}

impl ObjectCache {
    pub(crate) fn new(options: CacheOptions) -> Self {
        Self { options, left: AtomicU64::new(0) }
    }

    /// An object, if it is cached and whole.
    pub(crate) fn read(&self, hash: ObjectHash) -> Option<Vec<u8>> {
        let path = self.path(hash);
        let sealed = fs::read(&path).ok()?;
        let Some(plain) = envelope::open_envelope(hash, &sealed) else {
            let _ = fs::remove_file(&path);
            return None;
        };
        if let Ok(file) = File::options().append(true).open(&path) {
            let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
        }
        Some(plain)
    }

    /// Adds an object in its envelope.
    pub(crate) fn keep(&self, hash: ObjectHash, sealed: &[u8]) {
        let length = sealed.len() as u64;
        let path = self.path(hash);
        if length > self.options.bytes / 4 || fs::exists(&path).unwrap_or(true) {
            return;
        }
        if self.write(&path, sealed).is_none() {
            return;
        }
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(length));
        if taken.is_err() {
            self.sweep();
            self.left.store(self.options.bytes / 16, Ordering::Relaxed);
        }
    }

    /// Removes an object.
    pub(crate) fn remove(&self, hash: ObjectHash) {
        let _ = fs::remove_file(self.path(hash));
    }

    fn path(&self, hash: ObjectHash) -> PathBuf {
        let name = hash.to_string();
        let (first, rest) = name.split_at(2);
        self.options.directory.join(first).join(rest)
    }

    fn write(&self, path: &Path, sealed: &[u8]) -> Option<()> {
        let directory = path.parent()?;
        fs::create_dir_all(directory).ok()?;
        let mut file = tempfile::NamedTempFile::new_in(directory).ok()?;
        file.write_all(sealed).ok()?;
        file.persist(path).ok()?;
        Some(())
    }

    /// Removes the least recently used files until the rest fits. Half-written files of dead
    /// processes are removed the same way.
    fn sweep(&self) {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = cache_entries(&self.options.directory)
            .flat_map(|directory| cache_entries(&directory))
            .filter_map(|path| {
                let metadata = fs::metadata(&path).ok()?;
                Some((metadata.modified().ok()?, metadata.len(), path))
            })
            .collect();
        files.sort();
        let mut total: u64 = files.iter().map(|(_, length, _)| length).sum();
        for (_, length, path) in files {
            if total <= self.options.bytes {
                return;
            }
            let _ = fs::remove_file(path);
            total -= length;
        }
    }
}

fn cache_entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn object(number: u64) -> (ObjectHash, Vec<u8>) {
        let plain: Vec<u8> = noise(number);
        (ObjectHash::of(&plain), envelope::seal_envelope(&plain))
    }

    /// A thousand bytes that do not shrink.
    fn noise(number: u64) -> Vec<u8> {
        (0..32_u64)
            .flat_map(|part| ObjectHash::of(&(number * 32 + part).to_le_bytes()).0)
            .take(1000)
            .collect()
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let room = tempfile::tempdir().unwrap();
        let options = CacheOptions { directory: room.path().join("cache"), bytes: 10 * 1014 };
        let cache = ObjectCache::new(options);
        let long_ago = SystemTime::now() - Duration::from_secs(1_000_000);
        for number in 0..10 {
            let (hash, sealed) = object(number);
            cache.keep(hash, &sealed);
            let file = File::options().append(true).open(cache.path(hash)).unwrap();
            let at = long_ago + Duration::from_secs(number);
            file.set_times(FileTimes::new().set_modified(at)).unwrap();
        }
        // The oldest is used; it stays.
        assert!(cache.read(object(0).0).is_some());
        for number in 10..14 {
            let (hash, sealed) = object(number);
            cache.keep(hash, &sealed);
        }
        cache.sweep();
        let kept: Vec<u64> =
            (0..14).filter(|number| cache.read(object(*number).0).is_some()).collect();
        assert_eq!(kept, [0, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
    }

    #[test]
    fn it_stays_within_its_size_by_itself() {
        let room = tempfile::tempdir().unwrap();
        let options = CacheOptions { directory: room.path().to_owned(), bytes: 50_000 };
        let cache = ObjectCache::new(options);
        for number in 0..200 {
            let (hash, sealed) = object(number);
            cache.keep(hash, &sealed);
        }
        let total: u64 = cache_entries(room.path())
            .flat_map(|directory| cache_entries(&directory))
            .map(|path| fs::metadata(path).unwrap().len())
            .sum();
        assert!((30_000..=50_000 + 50_000 / 16 + 1014).contains(&total), "{total}");
    }

    #[test]
    fn a_damaged_file_is_removed() {
        let room = tempfile::tempdir().unwrap();
        let options = CacheOptions { directory: room.path().to_owned(), bytes: 1 << 20 };
        let cache = ObjectCache::new(options);
        let (hash, sealed) = object(1);
        cache.keep(hash, &sealed);
        fs::write(cache.path(hash), &sealed[..500]).unwrap();
        assert!(cache.read(hash).is_none());
        assert!(!cache.path(hash).exists());
        cache.keep(hash, &sealed);
        assert!(cache.read(hash).is_some());
    }
}
