//! Where the store of a command is, and whether it may be used: a place the user names always may;
//! about a place that a project or a server names, the user is asked once.

use std::path::{Path, PathBuf};

use abide::{
    SharedOptions, Store,
    locate::{
        ProjectIdentity, Projects, SessionScope, StoreFinder, StoreLocation, StorePlace,
        StorePlaceError, StoreUrl, TrustPolicy, check_accepted, find_project, store_of_named,
    },
};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::warning;
use crate::confirm::{confirm, on_terminal};
use crate::error::CommandError;

/// The name of a project's own store.
pub(crate) const NAME: &str = ".abide";

/// Is this the path of a store of a project?
pub(crate) fn is_store_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == NAME)
}

/// The whole URL, if it is well-formed.
pub(crate) fn checked_url(url: &StoreUrl) -> Result<&str, CommandError> {
    url.check().map_err(|source| abide::Error::Url { url: url.clone(), source })?;
    Ok(url.reveal())
}

impl CommandContext {
    /// Opens a shared store. Asks about a directory of this machine in which it keeps objects.
    pub(crate) fn connect_to_place(
        &self,
        url: &StoreUrl,
        project: Option<&ProjectIdentity>,
    ) -> Result<Store, CommandError> {
        let (place, directory) = match connect_place(url, self, project) {
            Err(abide::Error::LocalObjects { place, directory }) => (place, directory),
            opened => return Ok(opened?),
        };
        let named = StoreLocation::Files(directory.clone());
        let refused = abide::Error::LocalObjects { place, directory: directory.clone() };
        let here = find_project(&self.current_dir, &TrustPolicy::of_process());
        self.ask_about_place(&here, &named, &format!("{refused}. Use it?"), refused)?;
        Ok(connect_place_with(url, self, project, Some(directory))?)
    }

    /// Locates stores by the command line, the environment and the user's settings.
    pub(crate) fn place_finder(&self) -> Result<StoreFinder, CommandError> {
        let named = self.store.as_ref().map(|named| match named {
            StoreLocation::Files(path) => StoreLocation::Files(self.absolute(path)),
            shared @ StoreLocation::Shared(_) => shared.clone(),
        });
        Ok(StoreFinder::new(&self.person, named).map_err(abide::Error::from)?)
    }

    /// The store for work in `dir`. A named store must exist: a typo would hide everything recorded
    /// before.
    pub(crate) fn place_in(&self, dir: &Path) -> Result<StorePlace, CommandError> {
        let finder = self.place_finder()?;
        let place = finder.find(dir).map_err(abide::Error::from)?;
        self.require_accepted_place(&place, &finder.trust)?;
        Ok(place)
    }

    /// The same, for creating a store: a named one need not exist.
    pub(crate) fn place_to_make(&self, dir: &Path) -> Result<StorePlace, CommandError> {
        let finder = self.place_finder()?;
        let place = finder.find_to_make(dir).map_err(abide::Error::from)?;
        self.require_accepted_place(&place, &finder.trust)?;
        Ok(place)
    }

    /// Where the existing store is.
    pub(crate) fn existing_place(&self) -> Result<StorePlace, CommandError> {
        let place = self.place_in(&self.current_dir)?;
        match &place.store {
            StoreLocation::Files(root) if !has_store_place(root) => {
                Err(abide::Error::NothingRecorded { root: root.clone() }.into())
            }
            _ => Ok(place),
        }
    }

    /// The same, if there is one. A named store must exist.
    pub(crate) fn place_if_any(&self) -> Result<Option<StorePlace>, CommandError> {
        let place = self.place_in(&self.current_dir)?;
        let missing = matches!(&place.store, StoreLocation::Files(root) if !has_store_place(root));
        Ok((!missing).then_some(place))
    }

    /// The same, for a store that may still have to be created.
    pub(crate) fn target_place_if_any(&self) -> Result<Option<StorePlace>, CommandError> {
        match self.place_finder()?.find(&self.current_dir) {
            Err(StorePlaceError::NotThere { .. }) => Ok(None),
            _ => self.place_if_any(),
        }
    }

    /// Where the identities of the projects with sessions in this store are kept.
    pub(crate) fn projects_of_place(&self, place: &StorePlace) -> Projects {
        match (&place.store, place.scope) {
            (StoreLocation::Files(root), SessionScope::Project) => {
                Projects::in_store(root, &self.person)
            }
            _ => Projects::in_state(&self.person),
        }
    }

    /// Continues if the place a project names is accepted; asks if it is not yet.
    pub(crate) fn require_accepted_place(
        &self,
        place: &StorePlace,
        trust: &TrustPolicy,
    ) -> Result<(), CommandError> {
        let refused = match check_accepted(place, trust, Some(&self.consent)) {
            Err(refused @ abide::Error::NotAccepted { .. }) => refused,
            checked => return Ok(checked?),
        };
        let Some(elsewhere) = &place.elsewhere else { return Err(refused.into()) };
        self.ask_about_place(&place.project, elsewhere, &format!("{refused}. Use it?"), refused)
    }

    /// Asks, if there is a terminal, and records the answer.
    fn ask_about_place(
        &self,
        project: &Path,
        place: &StoreLocation,
        question: &str,
        refused: abide::Error,
    ) -> Result<(), CommandError> {
        if !self.asks || !on_terminal() {
            return Err(refused.into());
        }
        confirm(&escape::text(question), false, None)?;
        self.accept_place(project, place)
    }

    /// Records that the user accepts the place a project names.
    pub(crate) fn accept_place(
        &self,
        project: &Path,
        place: &StoreLocation,
    ) -> Result<(), CommandError> {
        if !self.consent.accept(project, place)? {
            warning(
                "your answer cannot be stored, so abide will ask again: set HOME or XDG_STATE_HOME",
            );
        }
        Ok(())
    }

    /// Accepts the place that a project's file names if it is this store: naming a store accepts
    /// it.
    pub(crate) fn accept_pointed_place(
        &self,
        project: &Path,
        store: &StoreLocation,
    ) -> Result<(), CommandError> {
        let place = store_of_named(project).map_err(abide::Error::from)?;
        let Some(place) = place else { return Ok(()) };
        let real = |at: &StoreLocation| match at {
            StoreLocation::Files(root) => {
                StoreLocation::Files(root.canonicalize().unwrap_or_else(|_| root.clone()))
            }
            shared @ StoreLocation::Shared(_) => shared.clone(),
        };
        match &place.elsewhere {
            Some(elsewhere) if real(&place.store) == real(store) => {
                self.accept_place(&place.project, elsewhere)
            }
            _ => Ok(()),
        }
    }
}

/// Is there a store in this directory? A directory with the name of a project's own store always
/// counts.
fn has_store_place(root: &Path) -> bool {
    root.join("sessions").is_dir() || is_store_name(root) && root.is_dir()
}

/// Opens a shared store, for a project if one is given. Never asks.
pub(crate) fn connect_place(
    url: &StoreUrl,
    around: &CommandContext,
    project: Option<&ProjectIdentity>,
) -> Result<Store, abide::Error> {
    match connect_place_with(url, around, project, None) {
        Err(abide::Error::LocalObjects { place, directory }) => {
            let trust = around
                .place_finder()
                .map_or_else(|_| TrustPolicy::of_process(), |found| found.trust);
            let here = find_project(&around.current_dir, &TrustPolicy::of_process());
            let named = StoreLocation::Files(directory.clone());
            if trust.lists(&directory) || around.consent.is_accepted(&here, &named) {
                return connect_place_with(url, around, project, Some(directory));
            }
            Err(abide::Error::LocalObjects { place, directory })
        }
        opened => opened,
    }
}

/// The same, with the directory of this machine in which it may keep objects.
fn connect_place_with(
    url: &StoreUrl,
    around: &CommandContext,
    project: Option<&ProjectIdentity>,
    local_objects: Option<PathBuf>,
) -> Result<Store, abide::Error> {
    let here = project.map(|_| find_project(&around.current_dir, &TrustPolicy::of_process()));
    let options = SharedOptions {
        project: project.cloned(),
        here,
        take_over: around.take_over,
        cache: around.person.cache.clone(),
        child_of: around.child_of(),
        local_objects,
    };
    Store::connect(url, options)
}
