//! The disk, with something that happens between two of the store's operations.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use abide_journal::{Access, Disk, LockMode, Storage, StorageFile, StorageLock};
use abide_local::{LocalOptions, LocalStore};

/// What is about to be done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Open(Access),
    Lock,
}

/// What happens before an operation. Says whether it did.
type Happening = dyn Fn(&Path, What) -> bool + Send + Sync;

pub(crate) struct Meanwhile {
    happening: Box<Happening>,
    happened: AtomicBool,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl Meanwhile {
    pub(crate) fn on(happening: impl Fn(&Path, What) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { happening: Box::new(happening), happened: AtomicBool::new(false) })
    }

    /// Did it ever happen?
    pub(crate) fn happened(&self) -> bool {
        self.happened.load(Ordering::Relaxed)
    }

    fn before(&self, path: &Path, what: What) {
        if (self.happening)(path, what) {
            self.happened.store(true, Ordering::Relaxed);
        }
    }
}

impl Storage for Meanwhile {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        self.before(path, What::Open(access));
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
        self.before(path, What::Lock);
        Disk.lock(path, mode)
    }
}

#[test]
fn an_id_that_another_process_made_just_now_is_the_stores() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join(".abide");
    LocalStore::init(&root, LocalOptions::default()).unwrap();
    let (place, made) = (root.clone(), Arc::new(Mutex::new(None)));
    let theirs = made.clone();
    let other = Meanwhile::on(move |path, what| {
        let locks = what == What::Lock && path.ends_with("id");
        if locks {
            let store = LocalStore::open(&place, LocalOptions::default()).unwrap();
            *theirs.lock().unwrap() = Some(store.make_store_id().unwrap());
        }
        locks
    });
    let options = LocalOptions { storage: other.clone(), ..LocalOptions::default() };
    let id = LocalStore::open(&root, options).unwrap().make_store_id().unwrap();
    assert!(other.happened());
    assert_eq!(made.lock().unwrap().as_deref(), Some(&*id));
}
