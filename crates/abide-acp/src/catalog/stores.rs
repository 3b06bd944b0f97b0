//! The stores: one for all, or one for each directory. Each is opened once and kept.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abide::{
    Error, LocalStore, Options, Place, Store, StoreError, Where, check_accepted, find_store,
    store_for_recording,
};

use super::CatalogError;
use crate::options::StoreOptions;

/// A store, and where it is.
#[derive(Debug, Clone)]
pub(super) struct OpenStore {
    pub(super) store: Arc<Store>,
    pub(super) at: Where,
}

impl OpenStore {
    /// Where it is, for people.
    pub(super) fn place(&self) -> String {
        self.store.place()
    }

    /// The directory of sessions that do not say theirs: the project.
    pub(super) fn project(&self) -> &Path {
        self.store.project().unwrap_or(Path::new("/"))
    }
}

/// The stores that are open.
#[derive(Debug)]
pub(super) struct Stores {
    options: StoreOptions,
    /// Where this process was started.
    here: Option<PathBuf>,
    /// By their places.
    open: Mutex<HashMap<Where, OpenStore>>,
}

impl Stores {
    pub(super) fn new(options: StoreOptions, here: Option<PathBuf>) -> Self {
        Self { options, here, open: Mutex::default() }
    }

    /// The store of what is recorded in this directory; made where there is none.
    pub(super) fn for_recording(&self, directory: &Path) -> Result<OpenStore, CatalogError> {
        let StoreOptions { named, usual, trust, .. } = &self.options;
        let at = match named {
            Some(named) => named.clone(),
            None => {
                let place = store_for_recording(directory, usual.as_ref(), trust);
                self.accepted(place.map_err(Error::from)?)?
            }
        };
        self.opened(at, LocalStore::init)
    }

    /// The store of a place, where it may be used. Nobody can be asked here.
    fn accepted(&self, place: Place) -> Result<Where, Error> {
        check_accepted(&place, &self.options.trust, self.options.consent.as_ref())?;
        Ok(place.store)
    }

    /// The store of this directory, if there is one.
    pub(super) fn of(&self, directory: &Path) -> Result<Option<OpenStore>, CatalogError> {
        let StoreOptions { named, usual, trust, .. } = &self.options;
        let at = match named {
            Some(named) => Some(named.clone()),
            None => {
                let place = find_store(directory, usual.as_ref(), trust).map_err(Error::from)?;
                place.map(|place| self.accepted(place)).transpose()?
            }
        };
        match at {
            Some(Where::Files(root)) if !root.is_dir() => Ok(None),
            at => at.map(|at| self.opened(at, LocalStore::open)).transpose(),
        }
    }

    /// Every store that is known so far, and that of where this process was started.
    pub(super) fn all(&self) -> Result<Vec<OpenStore>, CatalogError> {
        // One that has all sessions is that of any directory.
        let anywhere = self.options.named.as_ref().map(|_| Path::new("/"));
        let here = self.here.as_deref().or(anywhere);
        let here = here.map(|here| self.of(here)).transpose()?.flatten();
        let mut all: Vec<OpenStore> =
            self.open().values().filter(|open| is_there(open)).cloned().collect();
        // Always in the same order.
        all.sort_by_key(OpenStore::place);
        all.extend(
            here.filter(|here| all.iter().all(|open| !Arc::ptr_eq(&open.store, &here.store))),
        );
        Ok(all)
    }

    fn opened(
        &self,
        at: Where,
        open: impl FnOnce(&Path, Options) -> Result<LocalStore, StoreError>,
    ) -> Result<OpenStore, CatalogError> {
        let at = real(at);
        let mut stores = self.open();
        if let Some(known) = stores.get(&at).filter(|known| is_there(known)) {
            return Ok(known.clone());
        }
        let store = match &at {
            Where::Files(root) => Store::local(open(root, Options::default())?),
            Where::Shared(url) => self.options.connect.open(url)?,
        };
        // One that was made just now has its links resolved from here on.
        let at = real(at);
        let opened = OpenStore { store: Arc::new(store), at: at.clone() };
        stores.insert(at, opened.clone());
        Ok(opened)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Where, OpenStore>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A directory without links.
fn real(at: Where) -> Where {
    match at {
        Where::Files(root) => Where::Files(root.canonicalize().unwrap_or(root)),
        shared @ Where::Shared(_) => shared,
    }
}

/// Somebody may have taken a directory away since it was opened.
fn is_there(open: &OpenStore) -> bool {
    open.store.root().is_none_or(|root| root.join("config.toml").is_file())
}
