//! A store of very many sessions: what is asked of one does not read the journals of all.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use abide_journal::{Access, Disk, LockMode, Storage, StorageFile, StorageLock};
use abide_local::{LocalOptions, LocalStore};
use abide_model::{NewSession, SessionFields, SessionRef, Store, StoreError};

/// More than are looked at one by one.
const SESSIONS: usize = 40;

/// The disk, and how often a journal was opened on it.
#[derive(Debug, Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn journals(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Storage for Counted {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        if path.parent().is_some_and(|dir| dir.ends_with("journal")) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Disk.open(path, access)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Disk.list(dir)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.make_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }

    fn modified(&self, path: &Path) -> io::Result<SystemTime> {
        Disk.modified(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        Disk.free_bytes(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Option<Box<dyn StorageLock>>> {
        Disk.lock(path, mode)
    }
}

fn opened(root: &Path, disk: &Counted, projects: &[&str]) -> LocalStore {
    let projects = projects.iter().map(ToString::to_string).collect();
    let options =
        LocalOptions { storage: Arc::new(disk.clone()), projects, ..LocalOptions::default() };
    LocalStore::init(root, options).unwrap()
}

fn fill(root: &Path, disk: &Counted) {
    let store = opened(root, disk, &[]);
    for number in 0..SESSIONS {
        let fields =
            SessionFields { key: Some(format!("key-{number}")), ..SessionFields::default() };
        store.create(NewSession::from(fields)).unwrap();
    }
}

#[test]
fn a_key_that_nobody_has_is_not_looked_for_in_the_journals() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Counted::default());
    fill(dir.path(), &disk);
    disk.journals();
    let find = |store: &LocalStore| store.find(&SessionRef::Key("nobody".to_owned()));
    for projects in [&[][..], &["red"]] {
        let none = find(&opened(dir.path(), &disk, projects));
        assert!(matches!(none, Err(StoreError::NoSession { .. })), "{none:?}");
    }
    assert_eq!(disk.journals(), 0);
    // Where it is not certain that every key has its file, the sessions are asked.
    std::fs::remove_file(dir.path().join("keys/complete")).unwrap();
    find(&opened(dir.path(), &disk, &[])).unwrap_err();
    assert!(disk.journals() >= SESSIONS);
}
