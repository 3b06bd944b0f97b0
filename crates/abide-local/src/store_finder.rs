//! Decides which store to use: the one named, the project's own, or the user's.
//! [`StoreFinder::find`] decides for all callers.

use std::fs;
use std::path::{Path, PathBuf};

use crate::config::holds_many_projects;
use crate::store_place::{
    NAME, SessionScope, StoreLocation, StorePlace, StorePlaceError, find_project, find_store,
    real_place, store_of_named,
};
use crate::trust_policy::TrustPolicy;
use crate::user_config::UserConfig;
use crate::user_dirs::UserDirs;

/// Finds the store of a directory, for every command, proxy and library call:
///
/// 1. the one that is named (`--store`, else `ABIDE_STORE`);
/// 2. `.abide` in the directory or above it, or in the main checkout of a linked git worktree;
/// 3. the user's `store =`;
/// 4. the user's own store.
#[derive(Debug, Clone, Default)]
pub struct StoreFinder {
    /// The store that the user named: a server, a store, or a project that has one.
    pub named: Option<StoreLocation>,
    /// The store that the user's settings name: a server or a directory.
    pub usual: Option<StoreLocation>,
    /// The directory of the user's own store, if their settings name no other.
    pub person: Option<PathBuf>,
    /// Whose stores are used when they are found.
    pub trust: TrustPolicy,
}

impl StoreFinder {
    /// From a user's directories and settings; `named` takes precedence.
    ///
    /// # Errors
    ///
    /// The settings cannot be read or are invalid, and no store is named.
    pub fn new(person: &UserDirs, named: Option<StoreLocation>) -> Result<Self, StorePlaceError> {
        let config = match person.config.as_deref().map(UserConfig::read).transpose() {
            // Settings that say nothing about a named store must not keep it from being used.
            Err(_) if named.is_some() => None,
            read => read?,
        };
        let UserConfig { store, trusted, .. } = config.unwrap_or_default();
        let trust = TrustPolicy::of_process().with_listed(trusted);
        Ok(Self { named, usual: store, person: person.store_of_home(), trust })
    }

    /// From the environment of this process: `ABIDE_STORE`, and the user's directories and
    /// settings.
    ///
    /// # Errors
    ///
    /// As [`StoreFinder::new`].
    pub fn of_process() -> Result<Self, StorePlaceError> {
        let named = std::env::var_os("ABIDE_STORE").filter(|named| !named.is_empty());
        Self::new(
            &UserDirs::of_process(),
            named.map(|named| StoreLocation::from(PathBuf::from(named))),
        )
    }

    /// The store of a directory. A named store exists; the user's own may have to be created.
    ///
    /// # Errors
    ///
    /// The named store does not exist; `.abide` is not a store or is not trusted; nothing
    /// determines where the user's own store is.
    pub fn find(&self, from: &Path) -> Result<StorePlace, StorePlaceError> {
        match &self.named {
            Some(StoreLocation::Files(path)) => {
                let found = self.named_store(path, from)?;
                found.ok_or_else(|| StorePlaceError::NotThere { path: path.clone() })
            }
            Some(shared @ StoreLocation::Shared(_)) => Ok(self.place(shared.clone(), from)),
            None => match find_store(from, &self.trust)? {
                Some(place) => Ok(StorePlace { scope: self.scope(&place.store), ..place }),
                None => self.usual(from),
            },
        }
    }

    /// The same for a caller that creates the store: a named one need not exist. An existing
    /// directory is a project, which gets a store; an unused path becomes the store.
    ///
    /// # Errors
    ///
    /// As [`StoreFinder::find`].
    pub fn find_to_make(&self, from: &Path) -> Result<StorePlace, StorePlaceError> {
        match (self.find(from), &self.named) {
            (Err(StorePlaceError::NotThere { path }), Some(_)) => {
                let project = path.is_dir() && !is_store_name(&path) && !self.is_persons(&path);
                let root = if project { path.join(NAME) } else { path };
                Ok(self.place(StoreLocation::Files(root), from))
            }
            (found, _) => found,
        }
    }

    /// Whether this is the directory of the user's own store, by whatever path.
    #[must_use]
    pub fn is_persons(&self, root: &Path) -> bool {
        let own = match &self.usual {
            Some(StoreLocation::Files(usual)) => Some(usual),
            _ => self.person.as_ref(),
        };
        own.is_some_and(|own| real_place(own) == real_place(root))
    }

    /// The store for projects that have none of their own.
    fn usual(&self, from: &Path) -> Result<StorePlace, StorePlaceError> {
        if let Some(usual) = &self.usual {
            return Ok(self.place(usual.clone(), from));
        }
        let person = self.person.as_ref().ok_or(StorePlaceError::NoHome)?;
        // The home directory comes from the environment; the user did not choose this directory.
        if !self.trust.lists(person) {
            if let Ok(link) = fs::symlink_metadata(person) {
                self.trust.check_owner(person, &link)?;
            }
            if let Ok(found) = fs::metadata(person) {
                self.trust.check(person, &found)?;
            }
        }
        Ok(self.place(StoreLocation::Files(person.clone()), from))
    }

    /// The store that a path names: the path itself, or that of a project, whoever owns it.
    fn named_store(
        &self,
        named: &Path,
        from: &Path,
    ) -> Result<Option<StorePlace>, StorePlaceError> {
        let made = named.join("config.toml").is_file() && named.join("sessions").is_dir();
        if made || is_store_name(named) && named.is_dir() {
            return Ok(Some(self.place(StoreLocation::Files(named.to_owned()), from)));
        }
        // A file `.abide` is named like a store, and belongs to its project.
        let project = named.parent().filter(|_| is_store_name(named)).unwrap_or(named);
        let place = store_of_named(project)?;
        Ok(place.map(|place| StorePlace { scope: self.scope(&place.store), ..place }))
    }

    fn place(&self, store: StoreLocation, from: &Path) -> StorePlace {
        let (project, scope) = (find_project(from, &self.trust), self.scope(&store));
        StorePlace { store, project, scope, elsewhere: None }
    }

    fn scope(&self, store: &StoreLocation) -> SessionScope {
        match store {
            StoreLocation::Files(root) if !self.is_persons(root) && !holds_many_projects(root) => {
                SessionScope::Store
            }
            _ => SessionScope::Project,
        }
    }
}

fn is_store_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == NAME)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use abide_model::StoreUrl;

    fn files(path: impl Into<PathBuf>) -> StoreLocation {
        StoreLocation::Files(path.into())
    }

    fn shared(text: &str) -> StoreLocation {
        StoreLocation::Shared(StoreUrl::of(text).unwrap())
    }

    struct Lab {
        _temporary: tempfile::TempDir,
        dir: PathBuf,
        project: PathBuf,
        finder: StoreFinder,
    }

    impl Lab {
        fn new() -> Self {
            let temporary = tempfile::tempdir().unwrap();
            let dir = temporary.path().canonicalize().unwrap();
            let project = dir.join("project");
            fs::create_dir(&project).unwrap();
            let person = Some(dir.join("home/.local/share/abide/store"));
            let finder = StoreFinder { person, ..StoreFinder::default() };
            Self { _temporary: temporary, dir, project, finder }
        }

        fn persons(&self) -> PathBuf {
            self.finder.person.clone().unwrap()
        }

        fn found(&self) -> (StoreLocation, SessionScope) {
            let place = self.finder.find(&self.project).unwrap();
            (place.store, place.scope)
        }
    }

    #[test]
    fn the_first_that_says_where_the_store_is_decides() {
        let mut lab = Lab::new();
        assert_eq!(lab.found(), (files(lab.persons()), SessionScope::Project));
        lab.finder.usual = Some(shared("postgres://u:secret@usual/db"));
        assert_eq!(lab.found(), (shared("postgres://u:secret@usual/db"), SessionScope::Project));
        assert!(!format!("{:?}", lab.finder).contains("secret"));
        lab.finder.usual = Some(files(lab.dir.join("chosen")));
        assert_eq!(lab.found(), (files(lab.dir.join("chosen")), SessionScope::Project));
        let own = lab.project.join(NAME);
        for (line, scope) in
            [("postgres://own/db\n", SessionScope::Project), ("../else\n", SessionScope::Store)]
        {
            fs::write(&own, line).unwrap();
            assert_eq!(lab.found().1, scope, "{line}");
        }
        fs::remove_file(&own).unwrap();
        fs::create_dir(&own).unwrap();
        assert_eq!(lab.found(), (files(&own), SessionScope::Store));
        lab.finder.named = Some(shared("postgres://named/db"));
        assert_eq!(lab.found(), (shared("postgres://named/db"), SessionScope::Project));
        let named = lab.dir.join("named");
        fs::create_dir_all(named.join("sessions")).unwrap();
        fs::write(named.join("config.toml"), "").unwrap();
        lab.finder.named = Some(files(&named));
        assert_eq!(lab.found(), (files(&named), SessionScope::Store));
        // The person's store, for a process that has another home.
        fs::write(named.join("config.toml"), "projects = \"many\"\n").unwrap();
        assert_eq!(lab.found(), (files(&named), SessionScope::Project));
        lab.finder.named = Some(files(&lab.project));
        assert_eq!(lab.found(), (files(&own), SessionScope::Store));
    }

    #[test]
    fn the_persons_store_is_known_by_every_path_that_leads_to_it() {
        let mut lab = Lab::new();
        let persons = lab.persons();
        fs::create_dir_all(persons.join("sessions")).unwrap();
        fs::write(persons.join("config.toml"), "").unwrap();
        symlink(lab.dir.join("home"), lab.dir.join("link")).unwrap();
        let by_link = lab.dir.join("link/.local/share/abide/store");
        for named in [&persons, &by_link] {
            lab.finder.named = Some(files(named));
            assert_eq!(lab.found(), (files(named), SessionScope::Project));
        }
        lab.finder.named = None;
        fs::write(lab.project.join(NAME), format!("{}\n", by_link.display())).unwrap();
        assert_eq!(lab.found(), (files(&by_link), SessionScope::Project), "a pointer");
        fs::remove_file(lab.project.join(NAME)).unwrap();
        // The home is a link itself.
        lab.finder.person = Some(by_link.clone());
        assert_eq!(lab.found(), (files(&by_link), SessionScope::Project));
        assert!(lab.finder.is_persons(&persons));
        // Another one is the person's when the settings say so.
        lab.finder.usual = Some(files(lab.dir.join("chosen")));
        assert!(!lab.finder.is_persons(&persons));
    }

    #[test]
    fn what_is_named_is_there_and_only_who_makes_stores_goes_on_without() {
        let mut lab = Lab::new();
        let free = lab.dir.join("free");
        lab.finder.named = Some(files(&free));
        let said = lab.finder.find(&lab.project).unwrap_err().to_string();
        assert_eq!(said, format!("there is no store in {}", free.display()));
        let to_make = |lab: &Lab| lab.finder.find_to_make(&lab.project).unwrap().store;
        assert_eq!(to_make(&lab), files(&free));
        lab.finder.named = Some(files(&lab.project));
        assert_eq!(to_make(&lab), files(lab.project.join(NAME)));
    }

    #[test]
    fn without_a_home_and_without_a_name_there_is_no_store() {
        let mut lab = Lab::new();
        lab.finder.person = None;
        let refused = lab.finder.find(&lab.project).unwrap_err();
        assert!(matches!(refused, StorePlaceError::NoHome), "{refused}");
        fs::create_dir(lab.project.join(NAME)).unwrap();
        assert_eq!(lab.found().1, SessionScope::Store, "a project's own needs no home");
    }

    #[test]
    fn a_persons_store_that_others_may_write_is_refused_unless_it_is_chosen() {
        let mut lab = Lab::new();
        let persons = lab.persons();
        fs::create_dir_all(&persons).unwrap();
        fs::set_permissions(&persons, fs::Permissions::from_mode(0o777)).unwrap();
        let refused = lab.finder.find(&lab.project).unwrap_err();
        assert!(matches!(refused, StorePlaceError::Writable { .. }), "{refused}");
        lab.finder.usual = Some(files(&persons));
        assert_eq!(lab.found(), (files(&persons), SessionScope::Project));
    }

    #[test]
    fn a_home_that_is_not_there_is_none() {
        let lab = Lab::new();
        let person =
            |home: &Path| UserDirs::by(|name| (name == "HOME").then(|| home.into()), || None);
        let finder = StoreFinder::new(&person(&lab.dir), None).unwrap();
        assert_eq!(finder.person, Some(lab.dir.join(".local/share/abide/store")));
        let finder = StoreFinder::new(&person(&lab.dir.join("none")), None).unwrap();
        assert_eq!(finder.person, None);
        // Data elsewhere need no home.
        let data = lab.dir.join("data");
        let home = lab.dir.join("none");
        let person = UserDirs::by(
            |name| match name {
                "HOME" => Some(home.clone().into()),
                "XDG_DATA_HOME" => Some(data.clone().into()),
                _ => None,
            },
            || None,
        );
        let finder = StoreFinder::new(&person, None).unwrap();
        assert_eq!(finder.person, Some(data.join("abide/store")));
    }

    #[test]
    fn settings_name_a_server_or_a_directory() {
        let lab = Lab::new();
        let config = lab.dir.join("config.toml");
        let read = |text: &str| {
            fs::write(&config, text).unwrap();
            UserConfig::read(&config)
        };
        assert_eq!(UserConfig::read(&lab.dir.join("none")).unwrap(), UserConfig::default());
        assert_eq!(read("store = \"/s\"").unwrap().store, Some(files("/s")));
        assert_eq!(
            read("store = \"postgres://h/d\"").unwrap().store,
            Some(shared("postgres://h/d"))
        );
        for (bad, why) in [
            ("store = \"here\"", "neither a URL nor an absolute path"),
            ("store = \"/home/me/.abide\"", "the name of a project's own"),
            ("trusted = [\"here\"]", "is not an absolute path"),
            ("\nstore = \"postgres://u:secret@h", "is invalid in line 2"),
        ] {
            let said = read(bad).unwrap_err().to_string();
            assert!(said.ends_with(why) && !said.contains("secret"), "{said}");
        }
    }
}
