//! Opens the store of a command, the same way for every command.

use std::path::Path;

use abide::{
    LocalOptions, LocalStore, Store, StoreError,
    backend::HeldSessionAccess,
    locate::{ProjectIdentity, Projects, SessionScope, StoreLocation, StorePlace, make_parents},
};
use abide_import::SourceFinder;

use crate::command_context::CommandContext;
use crate::container;
use crate::error::CommandError;
use crate::hook_sweep::sweep_hooks;
use crate::progress;
use crate::scoped_store::ScopedStore;

impl CommandContext {
    /// How stores are opened: if somebody else holds the session this process was started for, its
    /// events are written through the holder.
    fn store_options(&self) -> LocalOptions {
        let (progress, child_of) = (progress::indexing_progress(), self.child_of());
        LocalOptions { progress, child_of, ..LocalOptions::default() }
    }

    /// Opens the existing store.
    pub(crate) fn open_store(&self) -> Result<ScopedStore, CommandError> {
        self.open_store_at(self.existing_place()?)
    }

    /// Opens the existing store for a session named by its full id, of any project.
    pub(crate) fn open_any_store(&self) -> Result<ScopedStore, CommandError> {
        let place = self.existing_place()?;
        self.open_store_with(place, None, LocalStore::open)
    }

    /// Opens the existing store, if there is one. A named store must exist.
    pub(crate) fn find_store(&self) -> Result<Option<ScopedStore>, CommandError> {
        self.place_if_any()?.map(|place| self.open_store_at(place)).transpose()
    }

    /// Opens the existing store, if there is one, named or not.
    pub(crate) fn find_target_store(&self) -> Result<Option<ScopedStore>, CommandError> {
        self.target_place_if_any()?.map(|place| self.open_store_at(place)).transpose()
    }

    /// Opens the existing store, or creates the user's own for this first recording. A named store
    /// must exist.
    pub(crate) fn open_or_init_store(&self) -> Result<ScopedStore, CommandError> {
        self.open_store_for(self.place_in(&self.current_dir)?, &self.current_dir)
    }

    /// Opens the store that sessions of agents are imported into, with those of all projects: the one
    /// that is named, or else the user's own, which is created if it is missing.
    pub(crate) fn open_import_store(&self) -> Result<ScopedStore, CommandError> {
        let place = self.import_place()?;
        if let StoreLocation::Files(root) = &place.store
            && !root.join("config.toml").is_file()
        {
            make_parents(root).map_err(abide::Error::from)?;
            LocalStore::init(root, LocalOptions::default())?;
            container::warn_of_container(root);
        }
        let project = match &place.store {
            StoreLocation::Files(_) => None,
            StoreLocation::Shared(_) => {
                Some(self.projects_of_place(&place).for_recording(&self.current_dir)?)
            }
        };
        self.open_store_with(place, project, LocalStore::init)
    }

    /// The same, if it is there.
    pub(crate) fn find_import_store(&self) -> Result<Option<ScopedStore>, CommandError> {
        let place = self.import_place()?;
        if let StoreLocation::Files(root) = &place.store
            && !root.join("config.toml").is_file()
        {
            return Ok(None);
        }
        self.open_store_with(place, None, LocalStore::open).map(Some)
    }

    fn import_place(&self) -> Result<StorePlace, CommandError> {
        if self.store.is_some() {
            return self.existing_place();
        }
        let own = self.person.store().ok_or_else(|| {
            CommandError::failed("there is no directory for your store: set HOME")
        })?;
        // No workspace is in there: sessions of other directories do not belong to this one.
        Ok(StorePlace {
            project: own.clone(),
            store: StoreLocation::Files(own),
            scope: SessionScope::Project,
            elsewhere: None,
        })
    }

    /// Finds the sessions that agents keep in the user's home.
    pub(crate) fn source_finder(&self) -> SourceFinder {
        let home = self.person.home.clone().unwrap_or_default();
        let variables = std::env::vars_os();
        let variables =
            variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
        SourceFinder { home, variables, ..SourceFinder::default() }
    }

    /// Where the projects of imported sessions are known by their directories.
    pub(crate) fn projects_of_import(&self, opened: &ScopedStore) -> Projects {
        self.projects_of_place(&StorePlace {
            store: opened.at.clone(),
            project: self.current_dir.clone(),
            scope: opened.scope,
            elsewhere: None,
        })
    }

    /// Opens the existing store of files for `what`, which works on no other kind.
    pub(crate) fn open_file_store(&self, what: &'static str) -> Result<ScopedStore, CommandError> {
        self.open_store_at(self.file_store_place(what)?)
    }

    /// Opens the existing store for checking and repair: one of files even if its settings are
    /// broken.
    pub(crate) fn open_store_to_repair(&self) -> Result<ScopedStore, CommandError> {
        let place = self.existing_place()?;
        if matches!(place.store, StoreLocation::Shared(_)) {
            return self.open_store();
        }
        self.open_store_with(place, None, |root, _| {
            LocalStore::open_to_repair(root, LocalOptions::default())
        })
    }

    fn file_store_place(&self, what: &'static str) -> Result<StorePlace, CommandError> {
        let place = self.existing_place()?;
        match &place.store {
            StoreLocation::Shared(url) => {
                Err(abide::Error::OnlyFiles { what, place: url.to_string() }.into())
            }
            StoreLocation::Files(_) => Ok(place),
        }
    }

    /// Opens the store at a place, creating it if missing, to record in `dir`. If it holds sessions
    /// of many projects, new ones belong to the project of `dir`.
    pub(crate) fn open_store_for(
        &self,
        place: StorePlace,
        dir: &Path,
    ) -> Result<ScopedStore, CommandError> {
        let there = Self { current_dir: dir.to_owned(), ..self.clone() };
        if let StoreLocation::Files(root) = &place.store
            && !root.join("config.toml").is_file()
        {
            make_parents(root).map_err(abide::Error::from)?;
            LocalStore::init(root, LocalOptions::default())?;
            if place.scope == SessionScope::Project {
                container::warn_of_container(root);
            }
        }
        let project = match (&place.store, place.scope) {
            (StoreLocation::Files(_), SessionScope::Store) => None,
            // What is recorded in a store of many projects, such as a shared one, is found again
            // by its project.
            _ => Some(there.projects_of_place(&place).for_recording(dir)?),
        };
        there.open_store_with(place, project, LocalStore::init)
    }

    /// Opens the store at a place for reading. If it holds sessions of many projects, those of this
    /// one are in scope, or all if there is no project here.
    fn open_store_at(&self, place: StorePlace) -> Result<ScopedStore, CommandError> {
        let project = match place.scope {
            SessionScope::Project if !self.all_projects => {
                self.projects_of_place(&place).of(&self.current_dir)?
            }
            _ => None,
        };
        let opened = self.open_store_with(place, project, LocalStore::open)?;
        // Not while a shell waits for completions.
        if self.asks {
            sweep_hooks(self, &opened);
        }
        Ok(opened)
    }

    fn open_store_with(
        &self,
        place: StorePlace,
        project: Option<ProjectIdentity>,
        open: impl FnOnce(&Path, LocalOptions) -> Result<LocalStore, StoreError>,
    ) -> Result<ScopedStore, CommandError> {
        let store = match &place.store {
            StoreLocation::Files(root) => {
                let projects = project.as_ref().map(ProjectIdentity::ids).unwrap_or_default();
                Store::local(open(root, LocalOptions { projects, ..self.store_options() })?)
            }
            StoreLocation::Shared(url) => self.connect_to_place(url, project.as_ref())?,
        };
        let store = store
            .in_project(&place)
            .with_consent(self.consent.clone())
            .waiting(self.wait)
            .with_held_sessions(HeldSessionAccess::ThroughHolder);
        Ok(ScopedStore { store, scope: place.scope, at: place.store, project })
    }
}
