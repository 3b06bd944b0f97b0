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
    project: Option<Of>,
}

/// A project in one of its clones: its id, and the directory that is all of it here.
type Of = (String, PathBuf);

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
        let directory = &real_dir(directory);
        let place = self.place(directory)?;
        let project = self.project(&place, directory)?;
        // Without an id yet, the sessions of all projects would be meant.
        let lacking = matches!(place.store, Where::Files(_)) && place.scope == Scope::Project;
        if (project.is_some() || !lacking)
            && let Some(known) = self.known(&place, project.as_ref())
        {
            return Ok(known);
        }
        let store = match &place.store {
            Where::Files(_) => {
                let person = &self.options.person;
                Store::for_recording(&place, directory, person, Options::default())?
            }
            Where::Shared(url) => self.options.connect.open(url)?,
        };
        // It may have got its id just now. One that was made just now has its links resolved.
        let project = self.project(&place, directory)?;
        Ok(self.kept(key(&place, project.as_ref()), store))
    }

    /// The store of a directory, where it may be used. Nobody can be asked here.
    fn place(&self, directory: &Path) -> Result<Place, CatalogError> {
        let finder = &self.options.finder;
        let place = finder.find(directory).map_err(Error::from)?;
        check_accepted(&place, &finder.trust, self.options.consent.as_ref())?;
        Ok(place)
    }

    /// The project of a directory, where the store at its place holds sessions of many; none where it
    /// has no id yet.
    fn project(
        &self,
        place: &Place,
        directory: &Path,
    ) -> Result<Option<ProjectIdentity>, CatalogError> {
        Ok(match (&place.store, place.scope) {
            (Where::Files(root), Scope::Project) => {
                Projects::in_store(root, &self.options.person).of(directory)?
            }
            _ => None,
        })
    }

    /// The store of this directory, if there is one: of one that holds many projects, the sessions of
    /// this directory's, or all where it is of none.
    pub(super) fn of(&self, directory: &Path) -> Result<Option<OpenStore>, CatalogError> {
        let directory = &real_dir(directory);
        let place = self.place(directory)?;
        let project = self.project(&place, directory)?;
        self.read(&place, project.as_ref())
    }

    /// Is this the store of what is recorded in a directory?
    pub(super) fn is_of(&self, open: &OpenStore, directory: &Path) -> Result<bool, CatalogError> {
        Ok(real(self.place(&real_dir(directory))?.store) == open.key.at)
    }

    fn read(
        &self,
        place: &Place,
        project: Option<&ProjectIdentity>,
    ) -> Result<Option<OpenStore>, CatalogError> {
        if let Some(known) = self.known(place, project) {
            return Ok(Some(known));
        }
        let store = match &place.store {
            Where::Files(root) if !root.is_dir() => return Ok(None),
            Where::Files(root) => {
                let projects = project.map(ProjectIdentity::ids).unwrap_or_default();
                let options = Options { projects, ..Options::default() };
                let store = LocalStore::open(root, options).map_err(Error::from)?;
                let store = Store::local(store);
                // What is recorded through it later is of this project.
                if project.is_some() { store.in_project(place) } else { store }
            }
            Where::Shared(url) => self.options.connect.open(url)?,
        };
        Ok(Some(self.kept(key(place, project), store)))
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

    /// One that is open already.
    fn known(&self, place: &Place, project: Option<&ProjectIdentity>) -> Option<OpenStore> {
        self.open().get(&key(place, project)).filter(|known| is_there(known)).cloned()
    }

    fn kept(&self, key: StoreKey, store: Store) -> OpenStore {
        let mut stores = self.open();
        // Another thread may have been faster.
        if let Some(known) = stores.get(&key).filter(|known| is_there(known)) {
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

/// What tells the store at a place from others, where the sessions of this project are meant.
fn key(place: &Place, project: Option<&ProjectIdentity>) -> StoreKey {
    let project = project.map(|project| (project.id.clone(), place.project.clone()));
    StoreKey { at: real(place.store.clone()), project }
}

/// A directory as whoever stands in it has it: without links, where it is there.
pub(super) fn real_dir(directory: &Path) -> PathBuf {
    directory.canonicalize().unwrap_or_else(|_| {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        // Without the `.` and the doubled slashes that people type.
        directory.components().collect()
    })
}

/// A store's directory without links.
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
