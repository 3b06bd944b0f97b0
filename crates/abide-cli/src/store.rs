//! Finds the store and the session of a command, the same way for every command.

use std::path::{Component, Path, PathBuf};

use abide::{
    Consent, LaneId, LocalOptions, LocalStore, NewEvent, NewSession, ProjectIdentity, Session,
    SessionFields, SessionId, SessionRef, SessionScope, Store, StoreError, StoreLocation,
    StorePlace, TaskId, TrustPolicy, UnfinishedRewind, UserDirs, find_checkout, make_parents,
};
use abide_transcript::escape;

use crate::commands::tell_left;
use crate::container;
use crate::error::CommandError;
use crate::output::{status, warning};
use crate::progress;

/// Settings taken from the environment and the global options: directories, variables, terminal.
#[derive(Debug, Clone)]
pub(crate) struct CommandContext {
    /// The current directory.
    pub(crate) current_dir: PathBuf,
    /// `--store`, else `ABIDE_STORE`; a path as given.
    pub(crate) store: Option<StoreLocation>,
    /// `--take-over`.
    pub(crate) take_over: bool,
    /// `--all-projects`.
    pub(crate) all_projects: bool,
    /// The user's directories.
    pub(crate) person: UserDirs,
    /// What this machine started, and what its user accepted.
    pub(crate) consent: Consent,
    /// `ABIDE_SESSION`.
    pub(crate) session: Option<String>,
    /// `ABIDE_TASK`.
    pub(crate) task: Option<String>,
    /// `ABIDE_LANE`.
    pub(crate) lane: Option<String>,
    /// `PAGER`.
    pub(crate) pager: Option<String>,
    /// Whether a terminal may be given colours.
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
    /// Finds the session to write to. If none was named, its name is printed on stderr.
    pub(crate) fn find_to_write(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        self.arg().find_to_write(opened, surroundings)
    }

    /// The same, for commands on the files of this directory.
    pub(crate) fn find_here(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        self.arg().find_here(opened, surroundings)
    }

    /// The same, for commands that read the files of a session.
    pub(crate) fn find_near(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        self.arg().find_near(opened, surroundings)
    }

    fn arg(&self) -> SessionArg {
        SessionArg { positional: None, session: self.session.clone() }
    }
}

/// Warns if a rewind was interrupted.
pub(crate) fn tell_half_way(session: &Session) -> Result<(), CommandError> {
    if session.core()?.0.restoring.is_some() {
        warning(
            "a rewind was cut off, and the files may be half-way: `abide rewind --finish` finishes it, \
             `abide undo` takes it back",
        );
    }
    Ok(())
}

/// Finishes an interrupted rewind if this machine started it, and says so. Any other one is only
/// reported.
pub(crate) fn finish_rewind(session: &Session) -> Result<(), CommandError> {
    let watch = abide::RewindWatch::default();
    match session.finish_rewind(&watch)? {
        UnfinishedRewind::None => Ok(()),
        UnfinishedRewind::Finished(done) => {
            let files = &done.files;
            status(format_args!(
                "A rewind was cut off; its files are put back now: {} created, {} changed, {} deleted",
                files.created, files.changed, files.deleted
            ));
            tell_left(files)
        }
        UnfinishedRewind::Left { seq, why } => {
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
    /// The session named by an argument or the environment.
    pub(crate) fn named(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<Option<SessionId>, CommandError> {
        let named = self.positional.as_ref().or(self.session.as_ref());
        named.or(surroundings.session.as_ref()).map(|named| opened.find(named)).transpose()
    }

    /// Finds the session. If none was named, its name is printed on stderr.
    pub(crate) fn find(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
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
    /// Finds the session to write to. If none is named, only one of this project qualifies.
    pub(crate) fn find_to_write(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        if let Some(named) = self.named(opened, surroundings)? {
            return Ok(named);
        }
        opened.check_one_project(surroundings)?;
        self.find(opened, surroundings)
    }

    /// Finds the session for commands on the files of this directory. If none is named, only one
    /// whose workspace is this directory, in this clone and worktree, qualifies.
    pub(crate) fn find_here(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        if let Some(named) = self.named(opened, surroundings)? {
            return Ok(named);
        }
        let latest = opened.latest_in(surroundings)?;
        let latest = latest.ok_or_else(|| opened.none_here(surroundings))?;
        tell_latest(latest);
        Ok(latest)
    }

    /// Finds the session for commands that read the files of a session. If none is named, the one
    /// whose workspace is this directory, else the latest.
    pub(crate) fn find_near(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
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

/// Prints which session was chosen.
pub(crate) fn tell_latest(latest: SessionId) {
    status(format_args!("Session {} (the latest)", latest.short(SessionId::SHORT)));
}

/// How many of the newest sessions are searched for one that was just created.
const NEW: usize = 16;

/// An open store.
#[derive(Debug)]
pub(crate) struct ScopedStore {
    /// The library's store.
    pub(crate) store: Store,
    /// Where it is, in the form passed to child processes.
    pub(crate) at: StoreLocation,
    /// Which sessions qualify if none is named.
    pub(crate) scope: SessionScope,
    /// The project, if only its sessions qualify.
    pub(crate) project: Option<ProjectIdentity>,
}

impl ScopedStore {
    /// Where it is, for display.
    pub(crate) fn place(&self) -> String {
        self.store.place()
    }

    /// Are sessions of several projects in scope?
    pub(crate) const fn spans_projects(&self) -> bool {
        matches!(self.scope, SessionScope::Project) && self.project.is_none()
    }

    /// Refuses to write to sessions of other projects unless asked to: in a directory where nothing
    /// was recorded, all projects would be in scope.
    pub(crate) fn check_one_project(
        &self,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        if !self.spans_projects() || surroundings.all_projects {
            return Ok(());
        }
        let dir = surroundings.current_dir.to_string_lossy();
        Err(CommandError::failed(format!("nothing was recorded in {}", escape::text(&dir)))
            .with_hint("name a session, or mean all projects with `--all-projects`"))
    }

    /// The session with the latest activity.
    pub(crate) fn latest(&self) -> Result<SessionId, CommandError> {
        match self.store.find(&SessionRef::Latest) {
            // Without any activity, it is the session created last.
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

    /// The session with the latest activity whose workspace is the current directory, or the
    /// nearest directory above it in the same checkout that has one.
    pub(crate) fn latest_in(
        &self,
        surroundings: &CommandContext,
    ) -> Result<Option<SessionId>, CommandError> {
        for dir in surroundings.workspaces() {
            match self.store.find(&SessionRef::LatestIn(dir)) {
                Err(abide::Error::Store(StoreError::NoSession { .. })) => {}
                found => return Ok(Some(found?)),
            }
        }
        // One that was just created here and has no activity yet.
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

    /// The error that no session has its workspace here.
    pub(crate) fn none_here(&self, surroundings: &CommandContext) -> CommandError {
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

    /// The session with this id, short id or prefix.
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

    /// Creates a session, or finds the one with its key.
    pub(crate) fn make(&self, session: NewSession) -> Result<SessionId, CommandError> {
        Ok(self.store.make(session)?)
    }
}

impl CommandContext {
    /// How stores are opened: if somebody else holds the session this process was started for, its
    /// events are written through the holder.
    fn options(&self) -> LocalOptions {
        let (progress, child_of) = (progress::indexing(), self.child_of());
        LocalOptions { progress, child_of, ..LocalOptions::default() }
    }

    pub(crate) fn child_of(&self) -> Option<SessionId> {
        self.session.as_ref().and_then(|session| session.parse().ok())
    }

    /// Gives an event without a task and lane those this process was started for. They belong to
    /// the session it was started for, and to no other.
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

    /// The directories that count as this workspace: the current one and those above it, up to the
    /// root of this clone or worktree.
    pub(crate) fn workspaces(&self) -> Vec<PathBuf> {
        let root = find_checkout(&self.current_dir, &TrustPolicy::of_process());
        let inside = |dir: &&Path| dir.starts_with(&root);
        let dirs = self.current_dir.ancestors().take_while(inside).map(Path::to_owned);
        let dirs: Vec<PathBuf> = dirs.collect();
        if dirs.is_empty() { vec![self.current_dir.clone()] } else { dirs }
    }

    /// Opens the existing store.
    pub(crate) fn open(&self) -> Result<ScopedStore, CommandError> {
        self.opened(self.there()?)
    }

    /// Opens the existing store for a session named by its full id, of any project.
    pub(crate) fn open_any(&self) -> Result<ScopedStore, CommandError> {
        let place = self.there()?;
        self.opened_for(place, None, LocalStore::open)
    }

    /// Opens the existing store, if there is one. A named store must exist.
    pub(crate) fn find(&self) -> Result<Option<ScopedStore>, CommandError> {
        self.located()?.map(|place| self.opened(place)).transpose()
    }

    /// Opens the existing store, if there is one, named or not.
    pub(crate) fn find_target(&self) -> Result<Option<ScopedStore>, CommandError> {
        self.located_target()?.map(|place| self.opened(place)).transpose()
    }

    /// Opens the existing store, or creates the user's own for this first recording. A named store
    /// must exist.
    pub(crate) fn open_or_init(&self) -> Result<ScopedStore, CommandError> {
        self.open_for(self.place_in(&self.current_dir)?, &self.current_dir)
    }

    /// Opens the existing store of files for `what`, which works on no other kind.
    pub(crate) fn open_files(&self, what: &'static str) -> Result<ScopedStore, CommandError> {
        self.opened(self.files_there(what)?)
    }

    /// The same, for checking and repair: even if its settings are broken.
    pub(crate) fn open_to_repair(&self, what: &'static str) -> Result<ScopedStore, CommandError> {
        let place = self.files_there(what)?;
        self.opened_for(place, None, |root, _| {
            LocalStore::open_to_repair(root, LocalOptions::default())
        })
    }

    /// Is it a shared store?
    pub(crate) fn is_shared(&self) -> Result<bool, CommandError> {
        Ok(matches!(self.there()?.store, StoreLocation::Shared(_)))
    }

    fn files_there(&self, what: &'static str) -> Result<StorePlace, CommandError> {
        let place = self.there()?;
        match &place.store {
            StoreLocation::Shared(url) => {
                Err(abide::Error::OnlyFiles { what, place: url.to_string() }.into())
            }
            StoreLocation::Files(_) => Ok(place),
        }
    }

    /// Opens the store at a place, creating it if missing, to record in `dir`. If it holds sessions
    /// of many projects, new ones belong to the project of `dir`.
    pub(crate) fn open_for(
        &self,
        place: StorePlace,
        dir: &Path,
    ) -> Result<ScopedStore, CommandError> {
        let there = Self { current_dir: dir.to_owned(), ..self.clone() };
        let StorePlace { store: at, scope, .. } = &place;
        match at {
            StoreLocation::Shared(_) => {
                // What is recorded in a shared store is found again by its project.
                let project = there.projects(&place).for_recording(dir)?;
                there.opened_for(place, Some(project), LocalStore::init)
            }
            StoreLocation::Files(root) => {
                if !root.join("config.toml").is_file() {
                    make_parents(root).map_err(abide::Error::from)?;
                    LocalStore::init(root, LocalOptions::default())?;
                    if *scope == SessionScope::Project {
                        container::warn_where_it_goes(root);
                    }
                }
                let project = match scope {
                    SessionScope::Project => Some(there.projects(&place).for_recording(dir)?),
                    SessionScope::Store => None,
                };
                there.opened_for(place, project, LocalStore::init)
            }
        }
    }

    /// The same context with another store, named by a URL or a path.
    pub(crate) fn with_store(&self, named: &Path) -> Self {
        let store = match StoreLocation::from(named.to_owned()) {
            StoreLocation::Files(path) => StoreLocation::Files(self.absolute(&path)),
            shared @ StoreLocation::Shared(_) => shared,
        };
        Self { store: Some(store), session: None, ..self.clone() }
    }

    /// Opens the store at a place for reading. If it holds sessions of many projects, those of this
    /// one are in scope, or all if there is no project here.
    fn opened(&self, place: StorePlace) -> Result<ScopedStore, CommandError> {
        let project = match place.scope {
            SessionScope::Project if !self.all_projects => {
                self.projects(&place).of(&self.current_dir)?
            }
            _ => None,
        };
        self.opened_for(place, project, LocalStore::open)
    }

    fn opened_for(
        &self,
        place: StorePlace,
        project: Option<ProjectIdentity>,
        open: impl FnOnce(&Path, LocalOptions) -> Result<LocalStore, StoreError>,
    ) -> Result<ScopedStore, CommandError> {
        let store = match &place.store {
            StoreLocation::Files(root) => {
                let projects = project.as_ref().map(ProjectIdentity::ids).unwrap_or_default();
                Store::local(open(root, LocalOptions { projects, ..self.options() })?)
            }
            StoreLocation::Shared(url) => self.connected(url, project.as_ref())?,
        };
        let store = store.in_project(&place).with_consent(self.consent.clone());
        Ok(ScopedStore { store, scope: place.scope, at: place.store, project })
    }

    /// A path given by the user, relative to the root of a workspace; empty for the root.
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

    /// A path given by the user, resolved against the current directory.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        let joined = self.current_dir.join(path);
        // A search upward from `a/../b` must not pass through `a`.
        if joined.components().any(|part| part == Component::ParentDir)
            && let Ok(real) = joined.canonicalize()
        {
            return real;
        }
        // Without `.` and doubled slashes.
        joined.components().collect()
    }
}

/// The display name of a session's project: the name of its directory, else of the workspace.
pub(crate) fn project_name(fields: &SessionFields) -> Option<String> {
    let dir = fields.project.as_deref().or(fields.workspace.as_deref()).map(Path::new)?;
    Some(dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned())
}

/// The name of a project's own store.
pub(crate) const NAME: &str = ".abide";

pub(crate) fn is_store_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == NAME)
}
