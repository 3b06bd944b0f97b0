//! The least that finding changes can cost: every directory listed, every name's metadata read, by
//! two threads, and nothing kept.
//!
//! A thread goes depth first and opens directories from their parents' descriptors, so that no path
//! is resolved twice. It gives away work from the top of the tree, and only when another waits.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat, statat};

use crate::Outcome;

pub(crate) const THREADS: usize = 2;
/// The bytes of names that are read at once.
const NAMES: usize = 64 << 10;

/// What a walk met.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Met {
    /// Files and symbolic links.
    pub(crate) files: u64,
    pub(crate) directories: u64,
    pub(crate) bytes: u64,
}

/// A directory that is still to be walked.
struct Ahead {
    parent: Option<Arc<OwnedFd>>,
    name: CString,
}

/// Work that anyone may take.
#[derive(Default)]
struct Shared {
    given: Mutex<Vec<Ahead>>,
    /// Changed only while `given` is held, but looked at without.
    waiting: AtomicUsize,
    news: Condvar,
}

/// Walks everything below a directory.
pub(crate) fn walk(dir: &Path) -> Outcome<Met> {
    let root = CString::new(dir.as_os_str().as_encoded_bytes())?;
    let shared = Shared::default();
    shared.give([Ahead { parent: None, name: root }]);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..THREADS).map(|_| scope.spawn(|| run(&shared))).collect();
        let mut met = run(&shared)?;
        for thread in threads {
            let other = thread.join().map_err(|_| "a walker ended early")??;
            met.files += other.files;
            met.directories += other.directories;
            met.bytes += other.bytes;
        }
        Ok(met)
    })
}

impl Shared {
    fn give(&self, ahead: impl IntoIterator<Item = Ahead>) {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).extend(ahead);
        self.news.notify_one();
    }

    /// Waits for work. There is none any more when all wait.
    fn take(&self) -> Option<Ahead> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        loop {
            if let Some(ahead) = given.pop() {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                return Some(ahead);
            }
            if self.waiting.load(Ordering::Relaxed) == THREADS {
                self.news.notify_all();
                return None;
            }
            given = self.news.wait(given).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One thread's part. A directory that cannot be read ends it, and others find no more work.
fn run(shared: &Shared) -> Outcome<Met> {
    let mut met = Met::default();
    let mut buffer = vec![MaybeUninit::uninit(); NAMES];
    let mut stack: Vec<Ahead> = Vec::new();
    let mut failed = None;
    while let Some(ahead) = shared.take() {
        stack.push(ahead);
        while let Some(ahead) = stack.pop() {
            if let Err(error) = list(&ahead, &mut buffer, &mut stack, &mut met) {
                failed = Some(error);
            }
            if stack.len() > 1 && shared.waiting.load(Ordering::Relaxed) > 0 {
                shared.give(stack.drain(..stack.len() / 2));
            }
        }
    }
    failed.map_or(Ok(met), Err)
}

fn list(
    ahead: &Ahead,
    buffer: &mut [MaybeUninit<u8>],
    stack: &mut Vec<Ahead>,
    met: &mut Met,
) -> Outcome {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = match &ahead.parent {
        Some(parent) => openat(parent, &ahead.name, flags, Mode::empty()),
        None => openat(CWD, &ahead.name, flags, Mode::empty()),
    }?;
    let dir = Arc::new(dir);
    let mut entries = RawDir::new(&dir, buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if is_dots(name) {
            continue;
        }
        let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            met.directories += 1;
            stack.push(Ahead { parent: Some(dir.clone()), name: name.to_owned() });
        } else {
            met.files += 1;
            met.bytes += stat.st_size.cast_unsigned();
        }
    }
    Ok(())
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_met_once() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..300 {
            let inner = dir.path().join(format!("{}/{}", number % 7, number % 31));
            std::fs::create_dir_all(&inner).unwrap();
            std::fs::write(inner.join(number.to_string()), "12345").unwrap();
        }
        std::os::unix::fs::symlink("..", dir.path().join("link")).unwrap();
        let met = walk(dir.path()).unwrap();
        assert_eq!(met, Met { files: 301, directories: 7 + 7 * 31, bytes: 1502 });
    }

    #[test]
    fn what_is_not_there_is_said() {
        assert!(walk(Path::new("/nowhere/at/all")).is_err());
    }
}
