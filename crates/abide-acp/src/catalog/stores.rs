//! The open stores: one for all directories, or one for each. Each is opened once and kept; a store
//! that holds several projects, once for each project.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abide::{
    Error, LocalOptions, LocalStore, Store,
    locate::{ProjectIdentity, Projects, SessionScope, StoreLocation, StorePlace, check_accepted},
};

use super::CatalogError;
use crate::options::StoreOptions;

/// Identifies an open store: where it is, and the project whose sessions it shows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct StoreKey {
    pub(super) at: StoreLocation,
    project: Option<ProjectClone>,
}

/// A project in one of its clones: its id and its root directory here.
type ProjectClone = (String, PathBuf);

/// A store, and where it is.
#[derive(Debug, Clone)]
pub(super) struct OpenStore {
    pub(super) store: Arc<Store>,
    pub(super) key: StoreKey,
}

impl OpenStore {
    /// Where it is, for people.
    pub(super) fn place(&self) -> String {
        self.store.place()
    }

    /// The directory of sessions that record none: the project's.
    pub(super) fn project(&self) -> &Path {
        self.store.project().unwrap_or(Path::new("/"))
    }
}

/// The open stores.
#[derive(Debug)]
pub(super) struct Stores {
    options: StoreOptions,
    /// The directory this process was started in.
    here: Option<PathBuf>,
    open: Mutex<HashMap<StoreKey, OpenStore>>,
}

impl Stores {
    pub(super) fn new(options: StoreOptions, here: Option<PathBuf>) -> Self {
        Self { options, here, open: Mutex::default() }
    }

    /// The store that records sessions of this directory; created if there is none.
    pub(super) fn for_recording(&self, directory: &Path) -> Result<OpenStore, CatalogError> {
        let directory = &real_dir(directory);
        let place = self.place(directory)?;
        let project = self.project(&place, directory)?;
        // Without an id yet, the store would show the sessions of all projects.
        let lacking =
            matches!(place.store, StoreLocation::Files(_)) && place.scope == SessionScope::Project;
        if (project.is_some() || !lacking)
            && let Some(known) = self.known(&place, project.as_ref())
        {
            return Ok(known);
        }
        let store = match &place.store {
            StoreLocation::Files(_) => {
                let person = &self.options.person;
                Store::for_recording(&place, directory, person, LocalOptions::default())?
            }
            StoreLocation::Shared(url) => self.options.connect.open(url)?,
        };
        // Looked up again: the project may just have got its id, and a new store has its links
        // resolved.
        let project = self.project(&place, directory)?;
        Ok(self.kept(catalog_store_key(&place, project.as_ref()), store))
    }

    /// The store of a directory, if it may be used. The user cannot be asked here.
    fn place(&self, directory: &Path) -> Result<StorePlace, CatalogError> {
        let finder = &self.options.finder;
        let place = finder.find(directory).map_err(Error::from)?;
        check_accepted(&place, &finder.trust, self.options.consent.as_ref())?;
        Ok(place)
    }

    /// The project of a directory, if its store holds several; `None` if it has no id yet.
    fn project(
        &self,
        place: &StorePlace,
        directory: &Path,
    ) -> Result<Option<ProjectIdentity>, CatalogError> {
        Ok(match (&place.store, place.scope) {
            (StoreLocation::Files(root), SessionScope::Project) => {
                Projects::in_store(root, &self.options.person).of(directory)?
            }
            _ => None,
        })
    }

    /// The store of this directory, if there is one. A store with several projects shows the
    /// sessions of this directory's, or all if it belongs to none.
    pub(super) fn of(&self, directory: &Path) -> Result<Option<OpenStore>, CatalogError> {
        let directory = &real_dir(directory);
        let place = self.place(directory)?;
        let project = self.project(&place, directory)?;
        self.read(&place, project.as_ref())
    }

    /// Whether this is the store that records sessions of the directory.
    pub(super) fn is_of(&self, open: &OpenStore, directory: &Path) -> Result<bool, CatalogError> {
        Ok(resolved_store_location(self.place(&real_dir(directory))?.store) == open.key.at)
    }

    fn read(
        &self,
        place: &StorePlace,
        project: Option<&ProjectIdentity>,
    ) -> Result<Option<OpenStore>, CatalogError> {
        if let Some(known) = self.known(place, project) {
            return Ok(Some(known));
        }
        let store = match &place.store {
            StoreLocation::Files(root) if !root.is_dir() => return Ok(None),
            StoreLocation::Files(root) => {
                let projects = project.map(ProjectIdentity::ids).unwrap_or_default();
                let options = LocalOptions { projects, ..LocalOptions::default() };
                let store = LocalStore::open(root, options).map_err(Error::from)?;
                let store = Store::local(store);
                // Sessions recorded through it later belong to this project.
                if project.is_some() { store.in_project(place) } else { store }
            }
            StoreLocation::Shared(url) => self.options.connect.open(url)?,
        };
        Ok(Some(self.kept(catalog_store_key(place, project), store)))
    }

    /// Every store known so far and that of the directory this process was started in, each with
    /// the sessions of all its projects.
    pub(super) fn all(&self) -> Result<Vec<OpenStore>, CatalogError> {
        // A store named for all sessions is that of any directory.
        let anywhere = self.options.finder.named.as_ref().map(|_| Path::new("/"));
        let here = self.here.as_deref().or(anywhere);
        if let Some(here) = here {
            self.read(&self.place(here)?, None)?;
        }
        let mut places: Vec<StoreLocation> = self
            .open()
            .values()
            .filter(|open| open_store_exists(open))
            .map(|open| open.key.at.clone())
            .collect();
        // In a fixed order, without duplicates.
        places.sort_by_cached_key(ToString::to_string);
        places.dedup();
        let whole = |at: StoreLocation| {
            let place = StorePlace {
                store: at,
                project: PathBuf::new(),
                scope: SessionScope::Store,
                elsewhere: None,
            };
            self.read(&place, None).transpose()
        };
        places.into_iter().filter_map(whole).collect()
    }

    /// The store, if it is open already.
    fn known(&self, place: &StorePlace, project: Option<&ProjectIdentity>) -> Option<OpenStore> {
        self.open()
            .get(&catalog_store_key(place, project))
            .filter(|known| open_store_exists(known))
            .cloned()
    }

    fn kept(&self, key: StoreKey, store: Store) -> OpenStore {
        let mut stores = self.open();
        // Another thread may have opened it first.
        if let Some(known) = stores.get(&key).filter(|known| open_store_exists(known)) {
            return known.clone();
        }
        let opened = OpenStore { store: Arc::new(store), key: key.clone() };
        stores.insert(key, opened.clone());
        opened
    }

    fn open(&self) -> MutexGuard<'_, HashMap<StoreKey, OpenStore>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of the store at a place, with the sessions of this project.
fn catalog_store_key(place: &StorePlace, project: Option<&ProjectIdentity>) -> StoreKey {
    let project = project.map(|project| (project.id.clone(), place.project.clone()));
    StoreKey { at: resolved_store_location(place.store.clone()), project }
}

/// A directory with links resolved, if it exists.
pub(super) fn real_dir(directory: &Path) -> PathBuf {
    directory.canonicalize().unwrap_or_else(|_| {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        // Drops `.` and repeated slashes.
        directory.components().collect()
    })
}

/// A store's location with links resolved.
fn resolved_store_location(at: StoreLocation) -> StoreLocation {
    match at {
        StoreLocation::Files(root) => StoreLocation::Files(root.canonicalize().unwrap_or(root)),
        shared @ StoreLocation::Shared(_) => shared,
    }
}

/// Whether the store still exists: its directory may have been removed since it was opened.
fn open_store_exists(open: &OpenStore) -> bool {
    open.store.root().is_none_or(|root| root.join("config.toml").is_file())
}
