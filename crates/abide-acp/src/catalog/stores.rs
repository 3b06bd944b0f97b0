//! The stores: one for all, or one for each directory. Each is opened once and kept.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abide::{LocalStore, Options, Store, find_store, store_for_recording};

use super::CatalogError;

/// A store, as the library sees it and as files.
#[derive(Debug, Clone)]
pub(super) struct OpenStore {
    pub(super) store: Arc<Store>,
    pub(super) local: Arc<LocalStore>,
}

impl OpenStore {
    /// Where it is, for people.
    pub(super) fn place(&self) -> String {
        self.local.root().display().to_string()
    }

    /// The directory of sessions that do not say theirs: the project.
    pub(super) fn project(&self) -> &Path {
        self.local.root().parent().unwrap_or(Path::new("/"))
    }
}

/// The stores that are open.
#[derive(Debug)]
pub(super) struct Stores {
    /// The one that has all sessions.
    named: Option<PathBuf>,
    /// Where this process was started.
    here: Option<PathBuf>,
    /// By their directories.
    open: Mutex<HashMap<PathBuf, OpenStore>>,
}

impl Stores {
    pub(super) fn new(named: Option<PathBuf>, here: Option<PathBuf>) -> Self {
        Self { named, here, open: Mutex::default() }
    }

    /// The store of what is recorded in this directory; made where there is none.
    pub(super) fn for_recording(&self, directory: &Path) -> Result<OpenStore, CatalogError> {
        let root = self.named.clone().unwrap_or_else(|| store_for_recording(directory).store);
        self.opened(root, LocalStore::init)
    }

    /// The store of this directory, if there is one.
    pub(super) fn of(&self, directory: &Path) -> Result<Option<OpenStore>, CatalogError> {
        let named = self.named.clone();
        let root = named.or_else(|| find_store(directory).map(|place| place.store));
        let root = root.filter(|root| root.is_dir());
        root.map(|root| self.opened(root, LocalStore::open)).transpose()
    }

    /// Every store that is known so far, and that of where this process was started.
    pub(super) fn all(&self) -> Result<Vec<OpenStore>, CatalogError> {
        let here = match (&self.named, &self.here) {
            (Some(named), _) => self.of(named)?,
            (None, Some(here)) => self.of(here)?,
            (None, None) => None,
        };
        let mut all: Vec<OpenStore> =
            self.open().values().filter(|open| is_there(open)).cloned().collect();
        // Always in the same order.
        all.sort_by(|a, b| a.local.root().cmp(b.local.root()));
        all.extend(
            here.filter(|here| all.iter().all(|open| !Arc::ptr_eq(&open.store, &here.store))),
        );
        Ok(all)
    }

    fn opened(
        &self,
        root: PathBuf,
        open: impl FnOnce(&Path, Options) -> Result<LocalStore, abide::StoreError>,
    ) -> Result<OpenStore, CatalogError> {
        let root = root.canonicalize().unwrap_or(root);
        let mut stores = self.open();
        if let Some(known) = stores.get(&root).filter(|known| is_there(known)) {
            return Ok(known.clone());
        }
        let local = Arc::new(open(&root, Options::default())?);
        let opened = OpenStore { store: Arc::new(Store::local(local.clone())), local };
        // One that was made just now has its links resolved from here on.
        let root = root.canonicalize().unwrap_or(root);
        stores.insert(root, opened.clone());
        Ok(opened)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<PathBuf, OpenStore>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody may have taken it away since it was opened.
fn is_there(open: &OpenStore) -> bool {
    open.local.root().join("config.toml").is_file()
}
