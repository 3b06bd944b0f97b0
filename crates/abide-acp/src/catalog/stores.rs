//! The stores: one for all, or one for each directory. Each is opened once and kept; one that holds
//! sessions of many projects, once for each project.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abide::{
    Error, LocalStore, Options, Place, ProjectIdentity, Projects, Scope, Store, Where,
    check_accepted,
};

use super::CatalogError;
use crate::options::StoreOptions;

/// What tells an open store from others: where it is, and the project whose sessions are meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct StoreKey {
    pub(super) at: Where,
    project: Option<String>,
}

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
    open: Mutex<HashMap<StoreKey, OpenStore>>,
}

impl Stores {
    pub(super) fn new(options: StoreOptions, here: Option<PathBuf>) -> Self {
        Self { options, here, open: Mutex::default() }
    }

    /// The store of what is recorded in this directory; made where there is none.
    pub(super) fn for_recording(&self, directory: &Path) -> Result<OpenStore, CatalogError> {
        let place = self.place(directory)?;
        let person = &self.options.person;
        let project = match (&place.store, place.scope) {
            (Where::Files(root), Scope::Project) => {
                abide::make_parents(root).map_err(Error::from)?;
                LocalStore::init(root, Options::default()).map_err(Error::from)?;
                Some(Projects::in_store(root, person).for_recording(directory)?)
            }
            _ => None,
        };
        self.opened(&place, project.as_ref(), |_, options| {
            Store::for_recording(&place, directory, person, options)
        })
    }

    /// The store of a directory, where it may be used. Nobody can be asked here.
    fn place(&self, directory: &Path) -> Result<Place, CatalogError> {
        let finder = &self.options.finder;
        let place = finder.find(directory).map_err(Error::from)?;
        check_accepted(&place, &finder.trust, self.options.consent.as_ref())?;
        Ok(place)
    }

    /// The store of this directory, if there is one: of one that holds many projects, the sessions of
    /// this directory's, or all where it is of none.
    pub(super) fn of(&self, directory: &Path) -> Result<Option<OpenStore>, CatalogError> {
        let place = self.place(directory)?;
        let project = match (&place.store, place.scope) {
            (Where::Files(root), Scope::Project) => {
                Projects::in_store(root, &self.options.person).of(directory)?
            }
            _ => None,
        };
        self.read(&place, project.as_ref())
    }

    fn read(
        &self,
        place: &Place,
        project: Option<&ProjectIdentity>,
    ) -> Result<Option<OpenStore>, CatalogError> {
        if let Where::Files(root) = &place.store
            && !root.is_dir()
        {
            return Ok(None);
        }
        let opened = self.opened(place, project, |root, options| {
            Ok(Store::local(LocalStore::open(root, options)?))
        });
        opened.map(Some)
    }

    /// Every store that is known so far, and that of where this process was started, each with the
    /// sessions of all its projects.
    pub(super) fn all(&self) -> Result<Vec<OpenStore>, CatalogError> {
        // One that has all sessions is that of any directory.
        let anywhere = self.options.finder.named.as_ref().map(|_| Path::new("/"));
        let here = self.here.as_deref().or(anywhere);
        if let Some(here) = here {
            self.read(&self.place(here)?, None)?;
        }
        let mut places: Vec<Where> = self
            .open()
            .values()
            .filter(|open| is_there(open))
            .map(|open| open.key.at.clone())
            .collect();
        // Always in the same order, each once.
        places.sort_by_cached_key(ToString::to_string);
        places.dedup();
        let whole = |at: Where| {
            let place =
                Place { store: at, project: PathBuf::new(), scope: Scope::Store, elsewhere: None };
            self.read(&place, None).transpose()
        };
        places.into_iter().filter_map(whole).collect()
    }

    fn opened(
        &self,
        place: &Place,
        project: Option<&ProjectIdentity>,
        open: impl FnOnce(&Path, Options) -> Result<Store, Error>,
    ) -> Result<OpenStore, CatalogError> {
        let key = |at: &Where| StoreKey {
            at: real(at.clone()),
            project: project.map(|project| project.id.clone()),
        };
        let mut stores = self.open();
        if let Some(known) = stores.get(&key(&place.store)).filter(|known| is_there(known)) {
            return Ok(known.clone());
        }
        let store = match &place.store {
            Where::Files(root) => {
                let projects = project.map(ProjectIdentity::ids).unwrap_or_default();
                open(root, Options { projects, ..Options::default() })?
            }
            Where::Shared(url) => self.options.connect.open(url)?,
        };
        // One that was made just now has its links resolved from here on.
        let key = key(&place.store);
        let opened = OpenStore { store: Arc::new(store), key: key.clone() };
        stores.insert(key, opened.clone());
        Ok(opened)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<StoreKey, OpenStore>> {
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
