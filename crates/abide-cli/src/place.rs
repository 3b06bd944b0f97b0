//! Where the store is that a command is about, and whether it may be used: what the user names is;
//! what a project or a server names the user is asked about, once.

use std::path::{Path, PathBuf};

use abide::{
    Place, ProjectIdentity, SharedOptions, Store, StoreUrl, Trust, Where, check_accepted,
    find_project, find_store, store_for_recording, store_of_named,
};
use abide_transcript::escape;

use crate::config::UserConfig;
use crate::confirm::{confirm, on_terminal};
use crate::error::CommandError;
use crate::output::warning;
use crate::store::{NAME, Surroundings, is_store_name};

impl Surroundings {
    /// Opens a shared store; asks about a directory of this machine in which it keeps objects.
    pub(crate) fn connected(&self, url: &StoreUrl) -> Result<Store, CommandError> {
        let (place, directory) = match connect(url, self) {
            Err(abide::Error::LocalObjects { place, directory }) => (place, directory),
            opened => return Ok(opened?),
        };
        let named = Where::Files(directory.clone());
        let refused = abide::Error::LocalObjects { place, directory: directory.clone() };
        let project = find_project(&self.current_dir, &Trust::of_process());
        self.ask(&project, &named, &format!("{refused}. Use it?"), refused)?;
        Ok(connect_with(url, self, Some(directory))?)
    }

    /// Where the store is, or would be made for what is recorded in `dir`. One that was named must
    /// be there: a name that was mistyped would hide all that was recorded before.
    pub(crate) fn place_for_recording(&self, dir: &Path) -> Result<Place, CommandError> {
        match &self.store {
            Some(Where::Files(named)) => {
                let store = self.named(named)?.ok_or_else(|| self.not_there(named))?;
                Ok(Place { store, project: dir.to_owned(), elsewhere: None })
            }
            _ => self.place_to_make(dir),
        }
    }

    /// The same for who makes a store: one that was named need not be there.
    pub(crate) fn place_to_make(&self, dir: &Path) -> Result<Place, CommandError> {
        let store = match &self.store {
            None => {
                let (usual, trust) = self.settings()?;
                let place = store_for_recording(dir, usual.as_ref(), &trust);
                let place = place.map_err(abide::Error::from)?;
                self.accepted(&place, &trust)?;
                return Ok(place);
            }
            Some(Where::Shared(url)) => Where::Shared(url.clone()),
            Some(Where::Files(named)) => self.named(named)?.unwrap_or_else(|| {
                // A directory that is there is a project; a path that is free becomes the store.
                let named = self.absolute(named);
                let project = named.is_dir() && !is_store_name(&named);
                Where::Files(if project { named.join(NAME) } else { named })
            }),
        };
        Ok(Place { project: dir.to_owned(), store, elsewhere: None })
    }

    /// The user's usual store and whom they trust, by their configuration.
    pub(crate) fn settings(&self) -> Result<(Option<StoreUrl>, Trust), CommandError> {
        let config = self.config.as_deref().map(UserConfig::read).transpose()?.unwrap_or_default();
        Ok((config.store, Trust::of_process().with_listed(config.trusted)))
    }

    /// Where the store is.
    pub(crate) fn there(&self) -> Result<Where, CommandError> {
        let found = self.located()?;
        found.ok_or_else(|| match &self.store {
            Some(Where::Files(named)) => self.not_there(named),
            _ => abide::Error::NoStore { from: self.current_dir.clone() }.into(),
        })
    }

    /// A store was named that is not there.
    pub(crate) fn not_there(&self, named: &Path) -> CommandError {
        let named = self.absolute(named).display().to_string();
        CommandError::failed(format!("there is no store in {named}"))
            .with_hint(format!("`abide init --store {named}` makes one; no other command does"))
    }

    /// Where the store is, if there is one: by the option or the variable, by what the project points
    /// to, by the user's configuration, or in the project.
    pub(crate) fn located(&self) -> Result<Option<Where>, CommandError> {
        match &self.store {
            Some(Where::Files(named)) => self.named(named),
            Some(shared @ Where::Shared(_)) => Ok(Some(shared.clone())),
            None => {
                let (usual, trust) = self.settings()?;
                let found = find_store(&self.current_dir, usual.as_ref(), &trust);
                let Some(place) = found.map_err(abide::Error::from)? else { return Ok(None) };
                self.accepted(&place, &trust)?;
                Ok(Some(place.store))
            }
        }
    }

    /// The store that a path names: itself, or that of a project, whoever owns it.
    fn named(&self, named: &Path) -> Result<Option<Where>, CommandError> {
        let named = self.absolute(named);
        if named.join("config.toml").is_file() && named.join("sessions").is_dir()
            || is_store_name(&named) && named.is_dir()
        {
            return Ok(Some(Where::Files(named)));
        }
        // A file `.abide` is named like a store, and is that of its project.
        let project = named.parent().filter(|_| is_store_name(&named)).unwrap_or(&named);
        let place = store_of_named(project).map_err(abide::Error::from)?;
        // The user named the project, and not what a file of it leads to.
        if let Some(place) = place.as_ref().filter(|place| place.elsewhere.is_some()) {
            self.accepted(place, &self.settings()?.1)?;
        }
        Ok(place.map(|place| place.store))
    }

    /// Goes on where what a project leads to is accepted; asks where it is not yet.
    fn accepted(&self, place: &Place, trust: &Trust) -> Result<(), CommandError> {
        let refused = match check_accepted(place, trust, Some(&self.consent)) {
            Err(refused @ abide::Error::NotAccepted { .. }) => refused,
            checked => return Ok(checked?),
        };
        let Some(elsewhere) = &place.elsewhere else { return Err(refused.into()) };
        self.ask(&place.project, elsewhere, &format!("{refused}. Use it?"), refused)
    }

    /// Asks, where there is somebody to ask, and notes the answer.
    fn ask(
        &self,
        project: &Path,
        place: &Where,
        question: &str,
        refused: abide::Error,
    ) -> Result<(), CommandError> {
        if !on_terminal() {
            return Err(refused.into());
        }
        confirm(&escape::text(question), false, None)?;
        self.accept(project, place)
    }

    /// Notes that the user accepts that a project leads to a place.
    pub(crate) fn accept(&self, project: &Path, place: &Where) -> Result<(), CommandError> {
        if !self.consent.accept(project, place)? {
            warning(
                "there is no place to note that: set HOME or XDG_STATE_HOME; it is asked again",
            );
        }
        Ok(())
    }

    /// Accepts what the file of a project leads to, where that is this store: whoever names it
    /// accepts it.
    pub(crate) fn accept_pointer(&self, project: &Path, store: &Where) -> Result<(), CommandError> {
        let place = store_of_named(project).map_err(abide::Error::from)?;
        let Some(place) = place else { return Ok(()) };
        let real = |at: &Where| match at {
            Where::Files(root) => {
                Where::Files(root.canonicalize().unwrap_or_else(|_| root.clone()))
            }
            shared @ Where::Shared(_) => shared.clone(),
        };
        match &place.elsewhere {
            Some(elsewhere) if real(&place.store) == real(store) => {
                self.accept(&place.project, elsewhere)
            }
            _ => Ok(()),
        }
    }
}

/// Opens a shared store: that of the project of the current directory, where nothing else is named.
/// Nobody is asked.
pub(crate) fn connect(url: &StoreUrl, around: &Surroundings) -> Result<Store, abide::Error> {
    match connect_with(url, around, None) {
        Err(abide::Error::LocalObjects { place, directory }) => {
            let trust = around.settings().map_or_else(|_| Trust::of_process(), |(_, trust)| trust);
            let project = find_project(&around.current_dir, &Trust::of_process());
            let named = Where::Files(directory.clone());
            if trust.lists(&directory) || around.consent.is_accepted(&project, &named) {
                return connect_with(url, around, Some(directory));
            }
            Err(abide::Error::LocalObjects { place, directory })
        }
        opened => opened,
    }
}

/// The same, with the directory of this machine in which it may keep objects.
fn connect_with(
    url: &StoreUrl,
    around: &Surroundings,
    local_objects: Option<PathBuf>,
) -> Result<Store, abide::Error> {
    let project = ProjectIdentity::of(&around.current_dir)?;
    let here = project.as_ref().map(|_| find_project(&around.current_dir, &Trust::of_process()));
    let options = SharedOptions {
        project,
        here,
        take_over: around.take_over,
        cache: around.cache.clone(),
        child_of: around.child_of(),
        local_objects,
    };
    Store::connect(url, options)
}
