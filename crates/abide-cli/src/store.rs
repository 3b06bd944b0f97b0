//! Finding the store and the session that a command is about, the same way for every command.

use std::path::{Component, Path, PathBuf};

use abide::{
    Consent, HalfWay, LaneId, LocalStore, NewEvent, NewSession, Options, Person, Place,
    ProjectIdentity, Scope, Session, SessionFields, SessionId, SessionRef, Store, StoreError,
    TaskId, Trust, Where, find_checkout, make_parents,
};
use abide_transcript::escape;

use crate::commands::tell_left;
use crate::container;
use crate::error::CommandError;
use crate::output::{status, warning};
use crate::progress;

/// What a command is told by its surroundings rather than by its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// Where it runs.
    pub(crate) current_dir: PathBuf,
    /// `--store`, else `ABIDE_STORE`; a path as it was given.
    pub(crate) store: Option<Where>,
    /// `--take-over`.
    pub(crate) take_over: bool,
    /// `--all-projects`.
    pub(crate) all_projects: bool,
    /// The user's directories.
    pub(crate) person: Person,
    /// What this machine began and what its user accepted.
    pub(crate) consent: Consent,
    /// `ABIDE_SESSION`.
    pub(crate) session: Option<String>,
    /// `ABIDE_TASK`.
    pub(crate) task: Option<String>,
    /// `ABIDE_LANE`.
    pub(crate) lane: Option<String>,
    /// `PAGER`.
    pub(crate) pager: Option<String>,
    /// May a terminal be given colours?
    pub(crate) colours: bool,
}

/// Which session a command is about.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SessionArg {
    /// The session: its id, its short id, or the start of either
    /// [default: $ABIDE_SESSION, else the latest]
    #[arg(value_name = "SESSION")]
    positional: Option<String>,
    /// The same, as an option
    #[arg(short, long, value_name = "SESSION", conflicts_with = "positional")]
    session: Option<String>,
}

/// Which session a command is about that has other arguments.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SessionOption {
    /// The session: its id, its short id, or the start of either
    /// [default: $ABIDE_SESSION, else the latest]
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
}

impl SessionOption {
    /// Finds the session, for what writes to it; one that was not named is named on stderr.
    pub(crate) fn find_to_write(
        &self,
        opened: &Opened,
        surroundings: &Surroundings,
    ) -> Result<SessionId, CommandError> {
        self.arg().find_to_write(opened, surroundings)
    }

    /// The same, for what is about the files of this directory.
    pub(crate) fn find_here(
        &self,
        opened: &Opened,
        surroundings: &Surroundings,
    ) -> Result<SessionId, CommandError> {
        self.arg().find_here(opened, surroundings)
    }

    /// The same, for what looks at the files of a session.
    pub(crate) fn find_near(
        &self,
        opened: &Opened,
        surroundings: &Surroundings,
    ) -> Result<SessionId, CommandError> {
        self.arg().find_near(opened, surroundings)
    }

    fn arg(&self) -> SessionArg {
        SessionArg { positional: None, session: self.session.clone() }
    }
}

/// Says that a rewind was cut off, where one was.
pub(crate) fn tell_half_way(session: &Session) -> Result<(), CommandError> {
    if session.core()?.0.restoring.is_some() {
        warning(
            "a rewind was cut off, and the files may be half-way: `abide rewind --finish` finishes it, \
             `abide undo` takes it back",
        );
    }
    Ok(())
}

/// Finishes a rewind that was cut off, where this machine has begun it, and says so; any other one is
/// offered.
pub(crate) fn finish_rewind(session: &Session) -> Result<(), CommandError> {
    let watch = abide::RewindWatch::default();
    match session.finish_rewind(&watch)? {
        HalfWay::None => Ok(()),
        HalfWay::Finished(done) => {
            let files = &done.files;
            status(format_args!(
                "A rewind was cut off; its files are put back now: {} created, {} changed, {} deleted",
                files.created, files.changed, files.deleted
            ));
            tell_left(files)
        }
        HalfWay::Left { seq, why } => {
            warning(format_args!(
                "the rewind at event {seq} was cut off, and its files may be half-way: {why}; \
                 `abide rewind --finish` shows what is left and finishes it, `abide undo` takes it back",
                why = escape::text(&why)
            ));
            Ok(())
        }
    }
}

impl SessionArg {
    /// The session that is named, by an argument or the environment.
    pub(crate) fn named(
        &self,
        opened: &Opened,
        surroundings: &Surroundings,
    ) -> Result<Option<SessionId>, CommandError> {
        let named = self.positional.as_ref().or(self.session.as_ref());
        named.or(surroundings.session.as_ref()).map(|named| opened.find(named)).transpose()
    }

    /// Finds the session; one that was not named is named on stderr.
    pub(crate) fn find(
        &self,
        opened: &Opened,
        surroundings: &Surroundings,
    ) -> Result<SessionId, CommandError> {
        if let Some(named) = self.named(opened, surroundings)? {
            return Ok(named);
        }
        let latest = opened.latest()?;
        tell_latest(latest);
        Ok(latest)
    }
}

impl SessionArg {
    /// Finds the session, for what writes to it: where none is named, only one of this project is meant.
    pub(crate) fn find_to_write(
        &self,
        opened: &Opened,
        surroundings: &Surroundings,
    ) -> Result<SessionId, CommandError> {
        if let Some(named) = self.named(opened, surroundings)? {
            return Ok(named);
        }
        opened.check_one_project(surroundings)?;
        self.find(opened, surroundings)
    }

    /// Finds the session, for what is about the files of this directory: where none is named, only one
    /// is meant whose workspace is this directory, in this clone and this worktree.
    pub(crate) fn find_here(
        &self,
        opened: &Opened,
        surroundings: &Surroundings,
    ) -> Result<SessionId, CommandError> {
        if let Some(named) = self.named(opened, surroundings)? {
            return Ok(named);
        }
        let latest = opened.latest_in(surroundings)?;
        let latest = latest.ok_or_else(|| opened.none_here(surroundings))?;
        tell_latest(latest);
        Ok(latest)
    }

    /// Finds the session, for what looks at the files of a session: where none is named, the one whose
    /// workspace is this directory, else the latest.
    pub(crate) fn find_near(
        &self,
        opened: &Opened,
        surroundings: &Surroundings,
    ) -> Result<SessionId, CommandError> {
        if let Some(named) = self.named(opened, surroundings)? {
            return Ok(named);
        }
        match opened.latest_in(surroundings)? {
            Some(latest) => {
                tell_latest(latest);
                Ok(latest)
            }
            None => self.find(opened, surroundings),
        }
    }
}

/// Names a session that was not named.
pub(crate) fn tell_latest(latest: SessionId) {
    status(format_args!("Session {} (the latest)", latest.short(SessionId::SHORT)));
}

/// So many of the newest sessions are looked at for one that was made just now.
const NEW: usize = 16;

/// An open store.
#[derive(Debug)]
pub(crate) struct Opened {
    /// As the library sees it.
    pub(crate) store: Store,
    /// Where it is, as it is named to children.
    pub(crate) at: Where,
    /// Which of its sessions are meant where none is named.
    pub(crate) scope: Scope,
    /// The project, where its sessions alone are meant.
    pub(crate) project: Option<ProjectIdentity>,
}

impl Opened {
    /// Where it is, for people.
    pub(crate) fn place(&self) -> String {
        self.store.place()
    }

    /// Are sessions of several projects meant?
    pub(crate) const fn spans_projects(&self) -> bool {
        matches!(self.scope, Scope::Project) && self.project.is_none()
    }

    /// Refuses to write to sessions of other projects unless that was asked for: in a directory in which
    /// nothing was recorded, all would be meant.
    pub(crate) fn check_one_project(
        &self,
        surroundings: &Surroundings,
    ) -> Result<(), CommandError> {
        if !self.spans_projects() || surroundings.all_projects {
            return Ok(());
        }
        let dir = surroundings.current_dir.to_string_lossy();
        Err(CommandError::failed(format!("nothing was recorded in {}", escape::text(&dir)))
            .with_hint("name a session, or mean all projects with `--all-projects`"))
    }

    /// The newest session in which something happened.
    pub(crate) fn latest(&self) -> Result<SessionId, CommandError> {
        match self.store.find(&SessionRef::Latest) {
            // Where nothing happened in any of them, it is the one that was made last.
            Err(abide::Error::Store(StoreError::NoSession { .. })) => {
                let sessions = self.store.sessions()?;
                sessions.first().map(|newest| newest.id).ok_or_else(|| self.no_session())
            }
            found => Ok(found?),
        }
    }

    fn no_session(&self) -> CommandError {
        let (of, more) = match &self.project {
            Some(project) => (
                format!(" of {}", escape::text(&project.name)),
                "; `--all-projects` looks at those of other projects",
            ),
            _ => (String::new(), ""),
        };
        CommandError::failed(format!("there is no session{of} yet in {}", self.place()))
            .with_hint(format!("`abide new` makes one, and so does `abide record`{more}"))
    }

    /// The newest session in which something happened and whose workspace is the current directory, or
    /// one above it within the same checkout: the nearest that has one.
    pub(crate) fn latest_in(
        &self,
        surroundings: &Surroundings,
    ) -> Result<Option<SessionId>, CommandError> {
        for dir in surroundings.workspaces() {
            match self.store.find(&SessionRef::LatestIn(dir)) {
                Err(abide::Error::Store(StoreError::NoSession { .. })) => {}
                found => return Ok(Some(found?)),
            }
        }
        // One that was made here just now, and in which nothing happened yet.
        let here = surroundings.workspaces();
        let mut newest = self.store.sessions()?.into_iter().take(NEW).map(|session| session.id);
        Ok(newest.find(|id| self.is_in(*id, &here)))
    }

    /// Is the workspace of a session one of these directories?
    pub(crate) fn is_in(&self, session: SessionId, dirs: &[PathBuf]) -> bool {
        let state = self.store.view(&SessionRef::Id(session)).and_then(|view| view.state());
        let workspace = state.ok().and_then(|state| state.core.fields.workspace);
        workspace.is_some_and(|workspace| dirs.iter().any(|dir| *dir == *workspace))
    }

    /// No session has its workspace here.
    pub(crate) fn none_here(&self, surroundings: &Surroundings) -> CommandError {
        let latest = match self.latest() {
            Ok(latest) => latest,
            Err(none) => return none,
        };
        let dir = surroundings.current_dir.to_string_lossy();
        let short = latest.short(SessionId::SHORT);
        let view = self.store.view(&SessionRef::Id(latest));
        let fields = view.and_then(|view| view.state()).map(|state| state.core.fields);
        let its = fields.ok().and_then(|fields| fields.workspace);
        let its = its.map(|its| format!(", which works in {}", escape::text(&its)));
        CommandError::failed(format!("no session has its workspace in {}", escape::text(&dir)))
            .with_hint(format!(
                "name one: the latest is {short}{}; `abide history` shows the others",
                its.unwrap_or_default()
            ))
    }

    /// The session that goes by this id, short id or prefix.
    pub(crate) fn find(&self, named: &str) -> Result<SessionId, CommandError> {
        let found = self.store.find(&SessionRef::parse(named));
        found.map_err(|error| {
            let unknown = matches!(&error, abide::Error::Store(StoreError::NoSession { .. }));
            let error = CommandError::from(error);
            if unknown { error.with_hint(self.newest()) } else { error }
        })
    }

    fn newest(&self) -> String {
        let sessions = self.store.sessions().unwrap_or_default();
        let shorts: Vec<_> =
            sessions.iter().take(5).map(|session| session.short.as_str()).collect();
        if shorts.is_empty() {
            return format!("there are no sessions in {}", self.place());
        }
        format!("the newest sessions in {} are: {}", self.place(), shorts.join(", "))
    }

    /// Makes a session, or finds the one that has the key.
    pub(crate) fn make(&self, session: NewSession) -> Result<SessionId, CommandError> {
        Ok(self.store.make(session)?)
    }
}

impl Surroundings {
    /// How stores are opened: the session that this process was started for is written through
    /// whoever holds it.
    fn options(&self) -> Options {
        let (progress, child_of) = (progress::indexing(), self.child_of());
        Options { progress, child_of, ..Options::default() }
    }

    pub(crate) fn child_of(&self) -> Option<SessionId> {
        self.session.as_ref().and_then(|session| session.parse().ok())
    }

    /// Puts an event that does not say whose it is into the task and the lane that this process was
    /// started for. They are those of the session that it was started for, and of no other.
    pub(crate) fn place(&self, event: &mut NewEvent, session: SessionId) {
        let fits = |named: &String| {
            let id = session.to_string();
            let named = named.to_ascii_lowercase();
            id.starts_with(&named) || session.short(12).starts_with(&named)
        };
        if !self.session.as_ref().is_none_or(fits) {
            return;
        }
        if event.task.is_none() {
            event.task = self.task.clone().map(TaskId);
        }
        if event.lane.is_none() {
            event.lane = self.lane.clone().map(LaneId);
        }
    }

    /// The directories that are this workspace: the current one, and those above it up to the root of
    /// this clone or worktree.
    pub(crate) fn workspaces(&self) -> Vec<PathBuf> {
        let root = find_checkout(&self.current_dir, &Trust::of_process());
        let inside = |dir: &&Path| dir.starts_with(&root);
        let dirs = self.current_dir.ancestors().take_while(inside).map(Path::to_owned);
        let dirs: Vec<PathBuf> = dirs.collect();
        if dirs.is_empty() { vec![self.current_dir.clone()] } else { dirs }
    }

    /// The store that is there.
    pub(crate) fn open(&self) -> Result<Opened, CommandError> {
        self.opened(self.there()?)
    }

    /// The store that is there, for a session that is named by its full id: of whatever project.
    pub(crate) fn open_any(&self) -> Result<Opened, CommandError> {
        let place = self.there()?;
        self.opened_for(place, None, LocalStore::open)
    }

    /// The store that is there, if one is. One that was named must be.
    pub(crate) fn find(&self) -> Result<Option<Opened>, CommandError> {
        self.located()?.map(|place| self.opened(place)).transpose()
    }

    /// The store that is there, if one is, named or not.
    pub(crate) fn find_target(&self) -> Result<Option<Opened>, CommandError> {
        self.located_target()?.map(|place| self.opened(place)).transpose()
    }

    /// The store that is there, or the person's, made by this first recording. One that was named must
    /// be there.
    pub(crate) fn open_or_init(&self) -> Result<Opened, CommandError> {
        self.open_for(self.place_in(&self.current_dir)?, &self.current_dir)
    }

    /// The store of files that is there, for `what`, which looks after no other.
    pub(crate) fn open_files(&self, what: &'static str) -> Result<Opened, CommandError> {
        self.opened(self.files_there(what)?)
    }

    /// The same, to be examined and repaired: one with broken settings too.
    pub(crate) fn open_to_repair(&self, what: &'static str) -> Result<Opened, CommandError> {
        let place = self.files_there(what)?;
        self.opened_for(place, None, |root, _| LocalStore::open_to_repair(root, Options::default()))
    }

    /// Is it a shared store?
    pub(crate) fn is_shared(&self) -> Result<bool, CommandError> {
        Ok(matches!(self.there()?.store, Where::Shared(_)))
    }

    fn files_there(&self, what: &'static str) -> Result<Place, CommandError> {
        let place = self.there()?;
        match &place.store {
            Where::Shared(url) => {
                Err(abide::Error::OnlyFiles { what, place: url.to_string() }.into())
            }
            Where::Files(_) => Ok(place),
        }
    }

    /// The store at a place, made where there is none, for what is recorded in `dir`: where it holds
    /// sessions of many projects, those that come in are of the project of `dir`.
    pub(crate) fn open_for(&self, place: Place, dir: &Path) -> Result<Opened, CommandError> {
        let there = Self { current_dir: dir.to_owned(), ..self.clone() };
        let Place { store: at, scope, .. } = &place;
        match at {
            Where::Shared(_) => {
                // What is recorded in a shared store is found again by the project.
                let project = there.projects(&place).for_recording(dir)?;
                there.opened_for(place, Some(project), LocalStore::init)
            }
            Where::Files(root) => {
                if !root.join("config.toml").is_file() {
                    make_parents(root).map_err(abide::Error::from)?;
                    LocalStore::init(root, Options::default())?;
                    if *scope == Scope::Project {
                        container::warn_where_it_goes(root);
                    }
                }
                let project = match scope {
                    Scope::Project => Some(there.projects(&place).for_recording(dir)?),
                    Scope::Store => None,
                };
                there.opened_for(place, project, LocalStore::init)
            }
        }
    }

    /// The same surroundings with a store that an argument names, by a URL or a path.
    pub(crate) fn with_store(&self, named: &Path) -> Self {
        let store = match Where::from(named.to_owned()) {
            Where::Files(path) => Where::Files(self.absolute(&path)),
            shared @ Where::Shared(_) => shared,
        };
        Self { store: Some(store), session: None, ..self.clone() }
    }

    /// The store at a place, to read: of one that holds sessions of many projects, those of this one are
    /// meant, or all where this is none.
    fn opened(&self, place: Place) -> Result<Opened, CommandError> {
        let project = match place.scope {
            Scope::Project if !self.all_projects => self.projects(&place).of(&self.current_dir)?,
            _ => None,
        };
        self.opened_for(place, project, LocalStore::open)
    }

    fn opened_for(
        &self,
        place: Place,
        project: Option<ProjectIdentity>,
        open: impl FnOnce(&Path, Options) -> Result<LocalStore, StoreError>,
    ) -> Result<Opened, CommandError> {
        let store = match &place.store {
            Where::Files(root) => {
                let projects = project.as_ref().map(ProjectIdentity::ids).unwrap_or_default();
                Store::local(open(root, Options { projects, ..self.options() })?)
            }
            Where::Shared(url) => self.connected(url, project.as_ref())?,
        };
        let store = store.in_project(&place).with_consent(self.consent.clone());
        Ok(Opened { store, scope: place.scope, at: place.store, project })
    }

    /// A path of the user's, seen from the root of a workspace; empty for the root itself.
    pub(crate) fn within(&self, path: &str, root: Option<&Path>) -> Result<String, CommandError> {
        let absolute = self.absolute(Path::new(path));
        let real = root.and_then(|root| root.canonicalize().ok());
        let roots = [root, real.as_deref()];
        let inside = roots.into_iter().flatten().find_map(|root| absolute.strip_prefix(root).ok());
        let inside =
            inside.filter(|inside| !inside.components().any(|part| part == Component::ParentDir));
        let inside = inside.map(|inside| inside.to_string_lossy().into_owned());
        inside.ok_or_else(|| {
            let root = root.map(|root| root.display().to_string()).unwrap_or_default();
            CommandError::failed(format!("{path} is not within the workspace {root}"))
                .with_hint("`--files` without a path takes all of them")
        })
    }

    /// A path of the user's, from the current directory.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        let joined = self.current_dir.join(path);
        // A search upward from `a/../b` must not pass through `a`.
        if joined.components().any(|part| part == Component::ParentDir)
            && let Ok(real) = joined.canonicalize()
        {
            return real;
        }
        // Without the `.` and the doubled slashes that people type.
        joined.components().collect()
    }
}

/// What people call the project of a session: its directory's name, else that of the workspace.
pub(crate) fn project_name(fields: &SessionFields) -> Option<String> {
    let dir = fields.project.as_deref().or(fields.workspace.as_deref()).map(Path::new)?;
    Some(dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned())
}

/// The name of a store in its project.
pub(crate) const NAME: &str = ".abide";

pub(crate) fn is_store_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == NAME)
}
