//! Finds a session by its id, a prefix of it, its client's key, or as the latest.
//!
//! A session belongs to the project that its first event names; if it names none, to the one in a
//! file beside its journal. If the store was opened for a project, only that one is searched.

use std::ops::ControlFlow;
use std::path::Path;

use abide_journal::{Access, JournalError, JournalIdentity};
use abide_journal::{JournalItem, JournalWalkStart, Storage, read_full, write_full};
use abide_model::{Fact, Kind, Seq, SessionFields, SessionId, SessionRef, StoreError};

use crate::derived::index::IndexDemand;
use crate::error::{storage_error, store_error};
use crate::sessions::keys::{self, Keys, SessionKey};
use crate::sessions::local_reader::LocalReader;
use crate::sessions::local_store::LocalStore;
use crate::sessions::session_ancestry::MissingParentPolicy;
use crate::store_layout::{SessionLayout, may_start_with, short_of};

/// How many of the newest sessions are checked before the index is asked for the latest.
const LOOKED_AT: usize = 32;
/// The longest project id.
const PROJECT_BYTES: usize = 4096;

/// Finds the sessions of a store, and the project and the key of each.
#[derive(Debug)]
pub struct SessionFinder<'a> {
    pub(crate) store: &'a LocalStore,
}

impl<'a> SessionFinder<'a> {
    /// The session that a reference means.
    pub fn find(&self, reference: &SessionRef) -> Result<SessionId, StoreError> {
        let none = || StoreError::NoSession { reference: reference.to_string() };
        match reference {
            SessionRef::Id(id) => self.store.layout_of(*id).map(|_| *id),
            SessionRef::Latest => self.latest(None)?.ok_or_else(none),
            SessionRef::LatestIn(dir) => self.latest(Some(dir))?.ok_or_else(none),
            SessionRef::Key(key) => {
                let first = self.store.options().projects.first().map_or("", String::as_str);
                self.with_key(first, key)?.ok_or_else(none)
            }
            SessionRef::Prefix(prefix) if prefix.is_empty() => Err(none()),
            SessionRef::Prefix(prefix) => {
                let mut fits = Vec::new();
                for name in self.store.names()?.iter().filter(|name| may_start_with(name, prefix)) {
                    let id = self.store.id_of(&self.store.layout().session(name));
                    fits.extend(id.filter(|id| {
                        id.short(12).starts_with(prefix.as_str())
                            || id.to_string().starts_with(prefix.as_str())
                    }));
                }
                if fits.len() > 1 {
                    fits = self.of_project_first(fits)?;
                }
                match fits.as_slice() {
                    [] => Err(none()),
                    [id] => Ok(*id),
                    many => Err(StoreError::Ambiguous {
                        reference: prefix.clone(),
                        matches: many.iter().take(8).map(|id| id.short(8)).collect(),
                    }),
                }
            }
        }
    }

    /// Every session of the project, newest first.
    pub(crate) fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        let projects = &self.store.options().projects;
        let ask =
            |wanted| self.store.index().ask(wanted, |index| index.query_project_sessions(projects));
        if !projects.is_empty()
            && let Some(sessions) = ask(IndexDemand::AtHand)
        {
            return Ok(sessions);
        }
        let names = self.store.names()?;
        if !projects.is_empty()
            && names.len() > LOOKED_AT
            && let Some(sessions) = ask(IndexDemand::Anyway)
        {
            return Ok(sessions);
        }
        let mut sessions = Vec::new();
        for name in &names {
            if let Some(id) = self.store.id_of(&self.store.layout().session(name))
                && self.is_of_project(id)?
            {
                sessions.push(id);
            }
        }
        sessions.sort_unstable_by(|a, b| b.cmp(a));
        Ok(sessions)
    }

    /// The shortest prefix of a session's short id that no other session of the store shares.
    pub fn short_id(&self, session: SessionId) -> Result<String, StoreError> {
        let start = session.short(SessionId::SHORT);
        let names = self.store.unsorted_names()?;
        let near = names
            .iter()
            .filter(|name| short_of(name).is_some_and(|short| short.starts_with(&start)));
        let near: Vec<SessionId> =
            near.filter_map(|name| self.store.id_of(&self.store.layout().session(name))).collect();
        let shared = |length: usize| {
            near.iter().any(|one| *one != session && one.short(length) == session.short(length))
        };
        let length = (SessionId::SHORT..12).find(|length| !shared(*length)).unwrap_or(12);
        Ok(session.short(length))
    }

    /// Those of the project if there are any, else all.
    fn of_project_first(&self, sessions: Vec<SessionId>) -> Result<Vec<SessionId>, StoreError> {
        let mut ours = Vec::new();
        for id in &sessions {
            if self.is_of_project(*id)? {
                ours.push(*id);
            }
        }
        Ok(if ours.is_empty() { sessions } else { ours })
    }

    /// The session that has this key in a project.
    pub(crate) fn with_key(
        &self,
        project: &str,
        key: &str,
    ) -> Result<Option<SessionId>, StoreError> {
        let known_by = self.known_by(project);
        let (storage, dir) = (&**self.store.storage(), self.store.layout().keys());
        // Checked before the key files: a session that is added later did not exist when it was
        // asked for.
        let mut told = keys::keys_are_complete(storage, &dir);
        for project in &known_by {
            let of = SessionKey { project, key };
            match keys::session_of_key(storage, &dir, of)? {
                Some(id) if self.store.is_made(id)? => return Ok(Some(id)),
                // It names a session that does not exist, or none at all: search the sessions.
                Some(_) => told = false,
                None => told &= !keys::has_key_file(storage, &dir, of)?,
            }
        }
        if told { Ok(None) } else { self.search_key(&known_by, key) }
    }

    /// The ids that a project is known by, including this one.
    pub(crate) fn known_by(&self, project: &'a str) -> Vec<&'a str> {
        let ours = &self.store.options().projects;
        if ours.iter().any(|one| one == project) {
            ours.iter().map(String::as_str).collect()
        } else {
            vec![project]
        }
    }

    /// Searches all sessions for a key.
    pub(crate) fn search_key(
        &self,
        projects: &[&str],
        key: &str,
    ) -> Result<Option<SessionId>, StoreError> {
        for name in self.store.names()? {
            if let Some(id) = self.store.id_of(&self.store.layout().session(&name))
                && let (project, Some(found)) = self.project_and_key(id)?
                && found == key
                && projects.contains(&project.as_str())
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// A session's project (empty if it has none) and its client's key.
    pub(crate) fn project_and_key(
        &self,
        id: SessionId,
    ) -> Result<(String, Option<String>), StoreError> {
        let layout = self.store.layout_of(id)?;
        let reader = self.store.reader_at(id, &layout);
        let beginning = SessionStart::of(&reader, ReadExtent::FirstEvent).map_err(store_error)?;
        let project = reader.find_project(beginning.project)?;
        Ok((project.unwrap_or_default(), beginning.key))
    }

    /// The id of the project that a session belongs to.
    pub fn project_of(&self, session: SessionId) -> Result<Option<String>, StoreError> {
        let (project, _) = self.project_and_key(session)?;
        Ok(Some(project).filter(|project| !project.is_empty()))
    }

    /// Whether a session belongs to the project that the store was opened for.
    pub(crate) fn is_of_project(&self, session: SessionId) -> Result<bool, StoreError> {
        let projects = &self.store.options().projects;
        Ok(projects.is_empty() || projects.contains(&self.project_and_key(session)?.0))
    }

    /// The newest non-empty session of the project with this workspace. Directory names have a
    /// resolution of a second; within one, the id decides.
    fn latest(&self, workspace: Option<&Path>) -> Result<Option<SessionId>, StoreError> {
        let workspace = workspace.map(SessionFields::workspace_text);
        let workspace = workspace.as_deref();
        let projects = &self.store.options().projects;
        let ask = |wanted| {
            self.store.index().ask(wanted, |index| index.query_latest_session(projects, workspace))
        };
        if let Some(found) = ask(IndexDemand::AtHand) {
            return Ok(found);
        }
        let mut newest: Option<(SessionId, String)> = None;
        for (at, name) in self.store.names()?.into_iter().enumerate() {
            let second: String = name.chars().take(19).collect();
            if newest.as_ref().is_some_and(|(_, newest)| *newest != second) {
                break;
            }
            // Older sessions are found through the index, or without one by reading on.
            if at == LOOKED_AT
                && newest.is_none()
                && let Some(found) = ask(IndexDemand::Anyway)
            {
                return Ok(found);
            }
            let layout = self.store.layout().session(&name);
            if let Some(id) = self.store.id_of(&layout)
                && newest.as_ref().is_none_or(|(newest, _)| id > *newest)
                && self.is_meant(id, &layout, workspace)?
            {
                newest = Some((id, second));
            }
        }
        Ok(newest.map(|(id, _)| id))
    }

    /// Whether this is the latest session, given that no newer one is.
    fn is_meant(
        &self,
        id: SessionId,
        layout: &SessionLayout,
        workspace: Option<&str>,
    ) -> Result<bool, StoreError> {
        let reader = self.store.reader_at(id, layout);
        let beginning = SessionStart::of(&reader, ReadExtent::Use).map_err(store_error)?;
        if beginning.empty {
            return Ok(false);
        }
        let projects = &self.store.options().projects;
        if !projects.is_empty() {
            let project = reader.find_project(beginning.project)?;
            if project.is_none_or(|project| !projects.contains(&project)) {
                return Ok(false);
            }
        }
        let Some(workspace) = workspace else { return Ok(true) };
        let core = reader.look(MissingParentPolicy::PassOver).map_err(store_error)?.state.core;
        Ok(core.fields.workspace.as_deref() == Some(workspace))
    }

    /// The keys, after making sure that every session's key has a file.
    pub(crate) fn all_keys(&self) -> Result<Keys, StoreError> {
        let keys = Keys::lock(self.store.storage(), self.store.layout().keys())?;
        if !keys.complete() {
            for name in self.store.names()? {
                let layout = self.store.layout().session(&name);
                if let JournalIdentity::Known(id) =
                    self.store.identify(&layout).map_err(store_error)?
                {
                    let (project, key) = self.project_and_key(id)?;
                    if let Some(key) = &key {
                        keys.put(SessionKey { project: &project, key }, id)?;
                    }
                }
            }
            keys.set_complete()?;
        }
        Ok(keys)
    }

    /// The session that has a key in a project (under any of its ids), whether or not it was
    /// created.
    pub(crate) fn key_holder(
        &self,
        keys: &Keys,
        project: &str,
        key: &str,
    ) -> Result<Option<SessionId>, StoreError> {
        let known_by = self.known_by(project);
        for project in &known_by {
            let of = SessionKey { project, key };
            let holder = match keys.get(of)? {
                // The file does not tell: search the sessions.
                None if keys.has_file(of)? => self.search_key(&[project], key)?,
                known => known,
            };
            if holder.is_some() {
                return Ok(holder);
            }
        }
        Ok(None)
    }
}

/// How much of a session is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadExtent {
    FirstEvent,
    /// Up to the first event that is not bookkeeping.
    Use,
}

/// What the first events of a session tell.
#[derive(Debug, Default)]
struct SessionStart {
    project: Option<String>,
    key: Option<String>,
    /// It has only the store's own bookkeeping events and is not a fork.
    empty: bool,
}

impl SessionStart {
    fn of(reader: &LocalReader, until: ReadExtent) -> Result<Self, JournalError> {
        let mut beginning = Self { empty: true, ..Self::default() };
        let mut first = true;
        reader.journal().walk(JournalWalkStart::beginning(), None, &mut |found| {
            let JournalItem::Event { line, .. } = found else { return ControlFlow::Continue(()) };
            let kind = line.head().map(|head| head.kind);
            if std::mem::take(&mut first) {
                beginning.empty = line.seq == Seq::FIRST;
                if kind == Some(Kind::SESSION_CREATED)
                    && let Some(Ok(Fact::SessionCreated(created))) =
                        line.event().map(|event| event.fact())
                {
                    beginning.project = created.fields.project_id;
                    beginning.key = created.fields.key;
                }
            }
            beginning.empty &= kind.is_some_and(|kind| kind.is_reserved());
            if beginning.empty && until == ReadExtent::Use {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(beginning)
    }
}

impl LocalReader {
    /// The project of a session whose first event names `named`.
    pub(crate) fn find_project(&self, named: Option<String>) -> Result<Option<String>, StoreError> {
        match named {
            Some(project) => Ok(Some(project)),
            None => self.find_given_project().map_err(store_error),
        }
    }

    /// The project that the session was assigned when it was imported.
    pub(crate) fn find_given_project(&self) -> Result<Option<String>, JournalError> {
        let Some(dir) = self.journal().dir().parent() else { return Ok(None) };
        let path = SessionLayout { dir: dir.to_owned() }.project();
        let file = match self.storage().open(&path, Access::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(JournalError::io("open", &path))?,
        };
        let mut bytes = [0; PROJECT_BYTES];
        let read = read_full(&*file, &mut bytes, 0).map_err(JournalError::io("read", &path))?;
        let text = bytes.get(..read).and_then(|bytes| std::str::from_utf8(bytes).ok());
        Ok(text.and_then(|text| text.strip_suffix('\n')).map(str::to_owned))
    }
}

/// Assigns a session to a project, or to none. Durable with the next sync of the session's
/// directory.
pub(crate) fn find_project_for_session(
    storage: &dyn Storage,
    layout: &SessionLayout,
    project: Option<&str>,
) -> Result<(), StoreError> {
    let path = layout.project();
    let Some(project) = project else {
        return match storage.remove(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(storage_error("remove", &path)),
        };
    };
    let file = storage.open(&path, Access::Create).map_err(storage_error("create", &path))?;
    let text = format!("{project}\n");
    let written = file
        .truncate(0)
        .and_then(|()| write_full(&*file, text.as_bytes(), 0))
        .and_then(|()| file.sync());
    written.map_err(storage_error("write", &path))
}
