//! An open store, and which of its sessions a command means.

use std::path::PathBuf;

use abide::{
    HistoryQuery, NewSession, SessionId, SessionRef, Store, StoreError,
    history::HistoryEntry,
    locate::{ProjectIdentity, SessionScope, StoreLocation},
};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::error::CommandError;
use crate::project_name::project_name;

/// How many of the newest sessions are searched for one that was just created.
const NEW: usize = 16;
/// How many sessions with the same key are named.
const CANDIDATES: usize = 8;

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

    /// The session with this id or short id, a client's key, or a prefix of an id that no other has.
    /// A prefix is random text: one that is shorter than a short id gives way to a key.
    pub(crate) fn find(&self, named: &str) -> Result<SessionId, CommandError> {
        if named.len() < SessionId::SHORT
            && let Some(found) = self.with_key_here(named)?
        {
            return Ok(found);
        }
        let error = match self.store.find(&SessionRef::parse(named)) {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        let unknown = match &error {
            abide::Error::Store(StoreError::NoSession { .. }) => true,
            abide::Error::Store(StoreError::Ambiguous { .. }) => false,
            _ => return Err(error.into()),
        };
        if let Some(found) = self.with_key(named)? {
            return Ok(found);
        }
        let error = CommandError::from(error);
        Err(if unknown { error.with_hint(self.newest()) } else { error })
    }

    /// The session of this project with this key, or with this id of an ACP client's. `None` if
    /// sessions of all projects are meant.
    fn with_key_here(&self, named: &str) -> Result<Option<SessionId>, CommandError> {
        if self.project.is_none() {
            return Ok(None);
        }
        for key in [named.to_owned(), abide_acp::session_key(named)] {
            match self.store.find(&SessionRef::Key(key)) {
                Err(abide::Error::Store(StoreError::NoSession { .. })) => {}
                found => return Ok(Some(found?)),
            }
        }
        Ok(None)
    }

    /// The session with this key: of this project, or of all if those are meant, where there must be
    /// one.
    fn with_key(&self, named: &str) -> Result<Option<SessionId>, CommandError> {
        if self.project.is_some() {
            return self.with_key_here(named);
        }
        let keys = [named.to_owned(), abide_acp::session_key(named)];
        let all = HistoryQuery { all_projects: true, limit: None, ..HistoryQuery::default() };
        let entries = self.store.history(&all)?.entries;
        for key in &keys {
            let has_it = |entry: &&HistoryEntry| entry.overview.fields.key.as_ref() == Some(key);
            let found: Vec<&HistoryEntry> = entries.iter().filter(has_it).collect();
            match found.as_slice() {
                [] => {}
                [one] => return Ok(Some(one.id)),
                many => {
                    let told = many.iter().take(CANDIDATES).map(|entry| {
                        let project = project_name(&entry.overview.fields);
                        let project = project.map(|name| format!(" ({})", escape::text(&name)));
                        format!("{}{}", entry.short, project.unwrap_or_default())
                    });
                    let matches = told.collect();
                    let reference = format!("key {key:?}");
                    let error = StoreError::Ambiguous { reference, matches };
                    return Err(CommandError::from(abide::Error::from(error))
                        .with_hint("a key counts per project: name one of them by its id"));
                }
            }
        }
        Ok(None)
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
