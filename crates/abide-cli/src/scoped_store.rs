//! An open store, and which of its sessions a command means.

use std::collections::HashMap;
use std::path::PathBuf;

use abide::{
    HistoryQuery, NewSession, SessionId, SessionRef, Store, StoreError, Timestamp,
    checkpoint::CheckpointEntry,
    history::HistoryEntry,
    locate::{ProjectIdentity, SessionScope, StoreLocation},
};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::warning;
use crate::error::{CommandError, FailureCode};
use crate::project_name::project_name;

/// Among how many of the latest sessions one is looked for in which anything has happened.
const NEW: usize = 16;
/// How many sessions of a directory are searched for a checkpoint or for what can be undone.
const RECENT: usize = 50;
/// Among how many of the latest sessions they are looked for.
const SEARCHED: usize = 500;
/// How many sessions with the same key or name are listed.
const CANDIDATES: usize = 8;

/// How much of a session's name must be typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameMatch {
    /// All of it: what the command does is not easily undone.
    Whole,
    /// All of it, or the beginning if no other begins like it.
    Beginning,
}

/// A checkpoint with a label, of a session that works here.
#[derive(Debug)]
pub(crate) struct LabelledCheckpoint {
    pub(crate) session: SessionId,
    pub(crate) entry: CheckpointEntry,
}

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
            .coded(FailureCode::NotFound)
            .with_hint("name a session, or include all projects with `--all-projects`"))
    }

    /// The session with the latest activity: the first of `abide ls` in which anything has happened.
    pub(crate) fn latest(&self) -> Result<SessionId, CommandError> {
        let query = HistoryQuery { limit: Some(NEW), ..HistoryQuery::default() };
        let found = self.store.history(&query)?;
        found.notes.iter().for_each(warning);
        if let Some(latest) = found.entries.iter().find(|entry| !entry.overview.empty) {
            return Ok(latest.id);
        }
        match self.store.find(&SessionRef::Latest) {
            // Without any activity, it is the session created last.
            Err(abide::Error::Store(StoreError::NoSession { .. })) => {
                let newest = found.entries.first().map(|newest| newest.id);
                newest.ok_or_else(|| self.no_session())
            }
            found => Ok(found?),
        }
    }

    fn no_session(&self) -> CommandError {
        let (of, more) = match &self.project {
            Some(project) => (
                format!(" of {}", escape::text(&project.name)),
                "; `--all-projects` includes other projects",
            ),
            _ => (String::new(), ""),
        };
        CommandError::failed(format!("there is no session{of} yet in {}", self.place()))
            .coded(FailureCode::NotFound)
            .with_hint(format!(
                "`abide run AGENT` and `abide save` create one, and so do `abide new` and `abide \
                 record`{more}"
            ))
    }

    /// The session with the latest activity whose workspace is the current directory, or the nearest
    /// directory above it in the same checkout that has one.
    pub(crate) fn latest_in(
        &self,
        surroundings: &CommandContext,
    ) -> Result<Option<SessionId>, CommandError> {
        if let Some((latest, _)) = self.recent_in(surroundings)?.first() {
            return Ok(Some(*latest));
        }
        // One that is far behind the latest of other directories.
        for dir in surroundings.workspaces() {
            match self.store.find(&SessionRef::LatestIn(dir)) {
                Err(abide::Error::Store(StoreError::NoSession { .. })) => {}
                found => return Ok(Some(found?)),
            }
        }
        Ok(None)
    }

    /// The sessions that work in this directory or one above it in the same checkout, and when they
    /// were last active: the nearest directory first, in each the latest activity first.
    pub(crate) fn recent_in(
        &self,
        surroundings: &CommandContext,
    ) -> Result<Vec<(SessionId, Timestamp)>, CommandError> {
        let here = surroundings.workspaces();
        let is_here = |entry: &HistoryEntry| {
            let workspace = entry.overview.fields.workspace.as_deref();
            workspace.is_some_and(|workspace| here.iter().any(|dir| *dir == *workspace))
        };
        let query = HistoryQuery { limit: Some(SEARCHED), ..HistoryQuery::default() };
        let found = self.store.history(&query)?;
        found.notes.iter().for_each(warning);
        let entries = found.entries.into_iter().filter(is_here);
        // Those of one directory stay in order. Where nothing has happened yet, nobody means it.
        let mut recent: Vec<HistoryEntry> = entries.collect();
        let depth = |entry: &HistoryEntry| {
            let workspace = entry.overview.fields.workspace.as_deref();
            here.iter().position(|dir| workspace.is_some_and(|workspace| *dir == *workspace))
        };
        recent.sort_by_key(|entry| (entry.overview.empty, depth(entry)));
        recent.truncate(RECENT);
        Ok(recent.into_iter().map(|entry| (entry.id, entry.overview.updated)).collect())
    }

    /// The latest session that works here and has a checkpoint with this label or id, or any with files
    /// if `None`, and its place among the sessions that work here.
    pub(crate) fn latest_with_checkpoint(
        &self,
        surroundings: &CommandContext,
        wanted: Option<&str>,
    ) -> Result<Option<(SessionId, usize)>, CommandError> {
        for (place, (session, _)) in self.recent_in(surroundings)?.into_iter().enumerate() {
            let state = self.store.view(&SessionRef::Id(session)).and_then(|view| view.state());
            // One that cannot be read is none that was meant.
            let Ok(state) = state else { continue };
            let mut known = state.checkpoints.iter();
            if known.any(|(_, known)| match wanted {
                Some(_) => [known.label.as_deref(), known.id.as_deref()].contains(&wanted),
                None => known.snapshot.is_some(),
            }) {
                return Ok(Some((session, place)));
            }
        }
        Ok(None)
    }

    /// The checkpoints with a label of the sessions that work here, but for one session: the latest
    /// first, of each label the newest.
    pub(crate) fn labelled_elsewhere(
        &self,
        except: SessionId,
        surroundings: &CommandContext,
    ) -> Result<Vec<LabelledCheckpoint>, CommandError> {
        let mut found: Vec<LabelledCheckpoint> = Vec::new();
        for (session, _) in self.recent_in(surroundings)? {
            if session == except {
                continue;
            }
            let entries =
                self.store.view(&SessionRef::Id(session)).and_then(|view| view.checkpoints());
            // What cannot be read has its own error when it is opened.
            for entry in entries.unwrap_or_default().into_iter().rev() {
                let Some(label) = &entry.checkpoint.label else { continue };
                if found.iter().all(|known| known.entry.checkpoint.label.as_ref() != Some(label)) {
                    found.push(LabelledCheckpoint { session, entry });
                }
            }
        }
        found.sort_by_key(|found| std::cmp::Reverse(found.entry.at));
        Ok(found)
    }

    /// Warns of what may change the files here while they go back: processes that a crashed run of the
    /// session has left, and other sessions that run here.
    pub(crate) fn warn_of_others_here(&self, session: SessionId, surroundings: &CommandContext) {
        if let Ok(found) = self.store.liveness(session) {
            for orphan in found.orphans.iter().take(CANDIDATES) {
                warning(format_args!(
                    "{} ({}) of this session still runs, and may change files again",
                    escape::text(&orphan.program),
                    orphan.process
                ));
            }
        }
        let others = self.recent_in(surroundings).unwrap_or_default();
        let others = others.into_iter().map(|(other, _)| other);
        for other in others.filter(|other| *other != session && self.store.is_held(*other)) {
            warning(format_args!(
                "session {} runs in this directory, and may change files again",
                self.short(other)
            ));
        }
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
            .coded(FailureCode::NotFound)
            .with_hint(format!(
                "name one: the latest is {short}{}; `abide ls` shows the others",
                its.unwrap_or_default()
            ))
    }

    /// The session with this id or short id, a client's key, a prefix of an id that no other has, or
    /// a name. A prefix is random text: one that is shorter than a short id gives way to a key.
    pub(crate) fn find(&self, named: &str) -> Result<SessionId, CommandError> {
        self.find_by(named, NameMatch::Beginning)
    }

    /// The session with this id, prefix of an id, or key.
    pub(crate) fn find_unnamed(&self, id: &str) -> Result<SessionId, CommandError> {
        self.with_id_or_key(id)?.ok_or_else(|| self.unknown_session(id))
    }

    /// The same, for as much of a name as the command needs.
    pub(crate) fn find_by(&self, named: &str, how: NameMatch) -> Result<SessionId, CommandError> {
        if let Some(found) = self.with_id_or_key(named)? {
            if how == NameMatch::Whole && named.len() < SessionId::SHORT {
                self.check_no_other_name(named, found)?;
            }
            return Ok(found);
        }
        match self.with_name(named, how)? {
            Some(found) => Ok(found),
            None => Err(self.unknown_session(named)),
        }
    }

    /// The session with this id, prefix of an id, or key.
    pub(crate) fn with_id_or_key(&self, named: &str) -> Result<Option<SessionId>, CommandError> {
        if named.len() < SessionId::SHORT
            && let Some(found) = self.with_key_here(named)?
        {
            return Ok(Some(found));
        }
        let ambiguous = match self.store.find(&SessionRef::parse(named)) {
            Ok(found) => return Ok(Some(found)),
            Err(abide::Error::Store(StoreError::NoSession { .. })) => None,
            Err(error @ abide::Error::Store(StoreError::Ambiguous { .. })) => Some(error),
            Err(error) => return Err(error.into()),
        };
        let found = match (self.with_key(named)?, &ambiguous) {
            // The beginning of several ids may be the whole name of one session.
            (None, Some(_)) => self.with_name(named, NameMatch::Whole).unwrap_or_default(),
            (found, _) => found,
        };
        match (found, ambiguous) {
            (None, Some(ambiguous)) => Err(ambiguous.into()),
            (found, _) => Ok(found),
        }
    }

    /// Refuses a few characters that are the start of one session's id and the name of another.
    fn check_no_other_name(&self, named: &str, found: SessionId) -> Result<(), CommandError> {
        let wanted = folded_name(named);
        let entries = self.entries()?;
        let is_named = |entry: &&HistoryEntry| {
            let name = entry.overview.name();
            entry.id != found && name.is_some_and(|name| folded_name(&name) == wanted)
        };
        let Some(other) = entries.iter().find(is_named) else { return Ok(()) };
        let [found, other] = [found, other.id].map(|id| id.short(SessionId::SHORT));
        let name = escape::text(named);
        let error = format!(
            "\"{name}\" is ambiguous: the start of the id {found}, and the name of {other}"
        );
        Err(CommandError::failed(error)
            .coded(FailureCode::Ambiguous)
            .with_hint("name one of them by its id"))
    }

    fn unknown_session(&self, named: &str) -> CommandError {
        let reference = SessionRef::parse(named).to_string();
        let error = abide::Error::from(StoreError::NoSession { reference });
        CommandError::from(error).with_hint(self.newest())
    }

    /// The session in scope that is shown under this name, in any case.
    fn with_name(&self, named: &str, how: NameMatch) -> Result<Option<SessionId>, CommandError> {
        let wanted = folded_name(named);
        if wanted.is_empty() {
            return Ok(None);
        }
        let entries = self.entries()?;
        let begins: Vec<NamedEntry<'_>> = entries
            .iter()
            .filter_map(|entry| Some(NamedEntry { name: entry.overview.name()?, entry }))
            .filter(|one| folded_name(&one.name).starts_with(&wanted))
            .collect();
        let whole: Vec<&NamedEntry<'_>> =
            begins.iter().filter(|one| folded_name(&one.name) == wanted).collect();
        let fit = if whole.is_empty() { begins.iter().collect() } else { whole.clone() };
        match fit.as_slice() {
            [] => Ok(None),
            [one] if how == NameMatch::Beginning || !whole.is_empty() => Ok(Some(one.entry.id)),
            [one] => {
                let name = escape::text(named);
                let unknown = format!("there is no session with the name \"{name}\"");
                Err(CommandError::failed(unknown).coded(FailureCode::NotFound).with_hint(format!(
                    "this command needs the whole name, or the id: {}",
                    one.shown(self.spans_projects())
                )))
            }
            many => {
                let shown = many.iter().take(CANDIDATES);
                let mut matches: Vec<String> =
                    shown.map(|one| one.shown(self.spans_projects())).collect();
                let more = many.len().saturating_sub(CANDIDATES);
                if more > 0 {
                    matches.push(format!("and {more} more"));
                }
                let name = escape::text(named);
                let error = format!("the name \"{name}\" is ambiguous: {}", matches.join(", "));
                let all = if more > 0 { "; `abide ls --limit 0` lists all" } else { "" };
                Err(CommandError::failed(error)
                    .coded(FailureCode::Ambiguous)
                    .with_hint(format!("name one of them by its id{all}")))
            }
        }
    }

    /// Every session in scope, with what the index knows of it.
    fn entries(&self) -> Result<Vec<HistoryEntry>, CommandError> {
        let all_projects = self.project.is_none();
        let all = HistoryQuery { all_projects, limit: None, ..HistoryQuery::default() };
        Ok(self.store.history(&all)?.entries)
    }

    /// The names of the sessions in scope. A list without them is better than none.
    pub(crate) fn names(&self) -> HashMap<SessionId, String> {
        let entries = self.entries().unwrap_or_default();
        let named = |entry: HistoryEntry| Some((entry.id, entry.overview.name()?));
        entries.into_iter().filter_map(named).collect()
    }

    /// The name of a session, if it can be read and has one.
    pub(crate) fn name_of(&self, session: SessionId) -> Option<String> {
        let view = self.store.view(&SessionRef::Id(session)).ok()?;
        view.name().ok().flatten()
    }

    /// The short id of a session; one that is longer than needed if the others cannot be listed.
    pub(crate) fn short(&self, session: SessionId) -> String {
        self.store.short_id(session).unwrap_or_else(|_| session.short(SessionId::SHORT))
    }

    /// The short ids of all sessions.
    pub(crate) fn shorts(&self) -> HashMap<SessionId, String> {
        let sessions = self.store.sessions().unwrap_or_default();
        sessions.into_iter().map(|session| (session.id, session.short)).collect()
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
        // A key with a secret in it is recorded with a mark.
        let recorded = keys.iter().filter_map(|key| self.store.redaction().key(key).ok());
        let entries = self.entries()?;
        for key in keys.iter().cloned().chain(recorded) {
            let has_it = |entry: &&HistoryEntry| entry.overview.fields.key.as_ref() == Some(&key);
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
                    return Err(CommandError::from(abide::Error::from(error)).with_hint(
                        "a key is unique only within a project: name one of them by its \
                        id",
                    ));
                }
            }
        }
        Ok(None)
    }

    fn newest(&self) -> String {
        let sessions = self.store.sessions().unwrap_or_default();
        let newest = sessions.iter().take(5).map(|session| match self.name_of(session.id) {
            Some(name) => shown_session_name(&name, &session.short),
            None => session.short.clone(),
        });
        let newest: Vec<String> = newest.collect();
        if newest.is_empty() {
            return format!("there are no sessions in {}", self.place());
        }
        format!("the newest sessions in {} are: {}", self.place(), newest.join(", "))
    }

    /// Creates a session, or finds the one with its key.
    pub(crate) fn make(&self, session: NewSession) -> Result<SessionId, CommandError> {
        Ok(self.store.make(session)?)
    }
}

/// A session of the index that has a name.
struct NamedEntry<'a> {
    name: String,
    entry: &'a HistoryEntry,
}

impl NamedEntry<'_> {
    /// For display, with its project if there are several.
    fn shown(&self, with_project: bool) -> String {
        let shown = shown_session_name(&self.name, &self.entry.short);
        let project = project_name(&self.entry.overview.fields).filter(|_| with_project);
        match project {
            Some(project) => format!("{shown} in {}", escape::text(&project)),
            None => shown,
        }
    }
}

/// A session's name and its id, for display.
pub(crate) fn shown_session_name(name: &str, short: &str) -> String {
    format!("\"{}\" ({short})", escape::text(name))
}

/// A name as names are compared: on one line, in lower case, without the mark of a cut.
fn folded_name(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    words.join(" ").trim_end_matches('…').trim_end().to_lowercase()
}
