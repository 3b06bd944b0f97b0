//! What a command knows besides its own arguments: directories, variables, global options.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use abide::{
    Consent, LaneId, NewEvent, SessionId,
    backend::DEFAULT_WAIT,
    locate::{StoreLocation, TrustPolicy, UserDirs, find_checkout},
    tasks::TaskId,
};

use crate::error::CommandError;

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
    /// `--wait`: how long to wait for a session that another process holds.
    pub(crate) wait: Duration,
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
    /// `ABIDE_PAGER`, else `PAGER`.
    pub(crate) pager: Option<String>,
    /// Whether a terminal may be given colours.
    pub(crate) colours: bool,
    /// Whether a question may be asked where there is a terminal.
    pub(crate) asks: bool,
}

impl CommandContext {
    /// What a command knows without any option.
    pub(crate) fn of_process() -> Result<Self, CommandError> {
        let person = UserDirs::of_process();
        Ok(Self {
            current_dir: std::env::current_dir().map_err(abide::Error::CurrentDir)?,
            store: variable_if_set("ABIDE_STORE").map(PathBuf::from).map(StoreLocation::from),
            take_over: false,
            all_projects: false,
            wait: DEFAULT_WAIT,
            consent: Consent::at(person.state.clone()),
            person,
            session: variable_text("ABIDE_SESSION"),
            task: variable_text("ABIDE_TASK"),
            lane: variable_text("ABIDE_LANE"),
            pager: variable_text("ABIDE_PAGER").or_else(|| variable_text("PAGER")),
            colours: variable_if_set("NO_COLOR").is_none()
                && variable_if_set("TERM").is_none_or(|term| term != "dumb"),
            asks: true,
        })
    }

    /// The same, for a shell that asks for completions: no question is asked.
    pub(crate) fn of_completion() -> Option<Self> {
        Some(Self { asks: false, ..Self::of_process().ok()? })
    }

    pub(crate) fn child_of(&self) -> Option<SessionId> {
        self.session.as_ref().and_then(|session| session.parse().ok())
    }

    /// The same context, with the session that `ABIDE_SESSION` names by its id.
    pub(crate) fn in_session(&self, session: SessionId) -> Self {
        Self { session: Some(session.to_string()), ..self.clone() }
    }

    /// Gives an event without a task and lane those this process was started for.
    pub(crate) fn place(&self, event: &mut NewEvent, session: SessionId) {
        event.task = event.task.take().or_else(|| self.task_in(session));
        event.lane = event.lane.take().or_else(|| self.lane_in(session));
    }

    /// The task that this process was started for, if that is one of this session.
    pub(crate) fn task_in(&self, session: SessionId) -> Option<TaskId> {
        self.task.clone().filter(|_| self.is_for(session)).map(TaskId)
    }

    /// The lane that this process was started for, if that is one of this session.
    pub(crate) fn lane_in(&self, session: SessionId) -> Option<LaneId> {
        self.lane.clone().filter(|_| self.is_for(session)).map(LaneId)
    }

    /// Whether this process was started for this session, or for none.
    fn is_for(&self, session: SessionId) -> bool {
        self.session.as_ref().is_none_or(|named| {
            let named = named.to_ascii_lowercase();
            session.to_string().starts_with(&named) || session.short(12).starts_with(&named)
        })
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

    /// The same context with another store, named by a URL or a path.
    pub(crate) fn with_store(&self, named: &Path) -> Self {
        let store = match StoreLocation::from(named.to_owned()) {
            StoreLocation::Files(path) => StoreLocation::Files(self.absolute(&path)),
            shared @ StoreLocation::Shared(_) => shared,
        };
        Self { store: Some(store), session: None, ..self.clone() }
    }

    /// A path given by the user, relative to the root of a workspace; empty for the root.
    pub(crate) fn within(&self, path: &str, root: Option<&Path>) -> Result<String, CommandError> {
        let typed = self.current_dir.join(path);
        let absolute = match (typed.parent(), typed.file_name()) {
            // The file itself may be gone, or be a link.
            (Some(above), Some(name))
                if typed.components().any(|part| part == Component::ParentDir) =>
            {
                self.absolute(above).join(name)
            }
            _ => self.absolute(&typed),
        };
        let real = root.and_then(|root| root.canonicalize().ok());
        let roots = [root, real.as_deref()];
        let inside = roots.into_iter().flatten().find_map(|root| absolute.strip_prefix(root).ok());
        let inside =
            inside.filter(|inside| !inside.components().any(|part| part == Component::ParentDir));
        let inside = inside.map(|inside| inside.to_string_lossy().into_owned());
        inside.ok_or_else(|| {
            let root = root.map(|root| root.display().to_string()).unwrap_or_default();
            CommandError::failed(format!("{path} is not within the workspace {root}"))
                .with_hint("`--files` without a path rewinds all files")
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

/// An environment variable as text.
fn variable_text(name: &str) -> Option<String> {
    variable_if_set(name).map(|value| value.to_string_lossy().into_owned())
}

/// An environment variable; an empty one counts as unset.
fn variable_if_set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
