//! The sessions a client can name: stores by directory, sessions by the client's ids.
//!
//! A client's id of a session is the first id the agent gave it. It is stored as the session's key,
//! with the prefix `acp:`. If another session has that key, or the session was not made through the
//! protocol, the client's id is the session's own id.

mod cursor;
mod error;
mod listing;
mod stores;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abide::{
    NewSession, Session, SessionFields, SessionId, SessionRef, Store, StoreError,
    backend::CreatedSession, maintenance::DeleteError,
};
use serde::Serialize;

pub use self::error::CatalogError;
use self::listing::SessionCandidate;
use self::stores::{OpenStore, StoreKey, Stores, real_dir};
use crate::options::StoreOptions;
use crate::protocol::SessionInfo;

/// The prefix of a client's id in a session's key.
const KEY: &str = "acp:";
/// The label of sessions made through the protocol.
const LABEL: &str = "acp";
/// A longer agent id is not used as a key; the session goes by its own id.
const ID_BYTES: usize = 1024;

/// The key of the session that a client knows by this id.
#[must_use]
pub fn session_key(id: &str) -> String {
    format!("{KEY}{id}")
}

/// A page of sessions, newest first; serialises to the result of `session/list`.
#[derive(Debug, Default, Serialize)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
    /// The cursor of the next page; `None` on the last one.
    #[serde(rename = "nextCursor", skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Stores by directory, and their sessions by the ids that clients know.
#[derive(Debug)]
pub struct Catalog {
    stores: Stores,
    /// Ids that were given out or asked for, and the session each means to this client.
    known: Mutex<HashMap<String, CatalogEntry>>,
}

/// The session that an id means to this client.
#[derive(Debug, Clone)]
struct CatalogEntry {
    store: StoreKey,
    session: SessionId,
    project: Option<String>,
}

impl CatalogEntry {
    /// The store among these that still has the session; `None` if it is gone.
    fn still_in<'a>(&self, stores: &'a [OpenStore]) -> Result<Option<&'a OpenStore>, CatalogError> {
        let Some(open) = stores.iter().find(|open| open.key.at == self.store.at) else {
            return Ok(None);
        };
        Ok(find_catalog_session(open, &SessionRef::Id(self.session))?.map(|_| open))
    }
}

/// Does the daily cleanup of a store on a thread of its own, so that no client waits for it. The
/// session that was just opened stays. What cannot be done is left to the next cleanup.
pub(crate) fn clean_up_catalog_store(store: &Store, about: SessionId) {
    let store = store.clone();
    let work = move || {
        if let Some(files) = store.as_files() {
            let _ = files.cleaner().clean_up_daily(about);
        }
    };
    let _ = std::thread::Builder::new().name("abide-cleanup".to_owned()).spawn(work);
}

impl Catalog {
    /// A catalog over these stores.
    #[must_use]
    pub fn new(stores: StoreOptions) -> Self {
        Self::started_in(stores, std::env::current_dir().ok())
    }

    /// As [`Catalog::new`], for a process started in this directory.
    fn started_in(stores: StoreOptions, here: Option<PathBuf>) -> Self {
        Self { stores: Stores::new(stores, here), known: Mutex::default() }
    }

    /// The store that records sessions of this directory; created if there is none.
    pub fn store(&self, directory: &Path) -> Result<Arc<Store>, CatalogError> {
        Ok(self.stores.for_recording(directory)?.store)
    }

    /// Makes a session that the client knows by `id`, or by the session's own id if `id` is taken.
    /// Returns the id it goes by.
    pub fn create(
        &self,
        directory: &Path,
        id: &str,
        agent: &str,
    ) -> Result<(String, Session), CatalogError> {
        let open = self.stores.for_recording(directory)?;
        let fields = SessionFields {
            workspace: Some(recorded_directory(directory)),
            agent: Some(agent.to_owned()).filter(|agent| !agent.is_empty()),
            labels: [(LABEL.to_owned(), "1".to_owned())].into(),
            ..SessionFields::default()
        };
        let made = self
            .named(&open, id, NewSession::from(fields), |session| open.store.make_new(session))?;
        self.begin(&open, made)
    }

    /// The session that the client calls `id`.
    pub fn find(
        &self,
        directory: Option<&Path>,
        id: &str,
    ) -> Result<(Arc<Store>, SessionId), CatalogError> {
        let (open, session) = self.look(directory, id)?;
        Ok((open.store, session))
    }

    /// Opens the session that the client calls `id` for writing.
    pub fn open(&self, directory: Option<&Path>, id: &str) -> Result<Session, CatalogError> {
        let (open, session) = self.look(directory, id)?;
        let opened = open.store.open_session(&SessionRef::Id(session));
        opened.map_err(|error| CatalogError::about(id, error))
    }

    /// A page of the sessions in this directory, or in all known ones, most recently changed first.
    /// A session that changes while a client asks for pages is not listed twice; it is at the top
    /// of the next list.
    pub fn list(
        &self,
        directory: Option<&Path>,
        cursor: Option<&str>,
    ) -> Result<SessionPage, CatalogError> {
        let after = cursor.map(str::parse).transpose()?;
        let stores = match directory {
            Some(directory) => self.stores.of(directory)?.into_iter().collect(),
            None => self.stores.all()?,
        };
        listing::list_session_page(&stores, directory, after)
    }

    /// Forks a session; the fork goes by `id`, or by its own id if `id` is taken. It is in the
    /// store of its parent, and its files are in `directory`.
    pub fn fork(
        &self,
        directory: &Path,
        of: &str,
        id: &str,
    ) -> Result<(String, Session), CatalogError> {
        let (found, parent) = self.parent(directory, of)?;
        // The fork belongs to the project of `directory`, or to its parent's project if that
        // directory has another store.
        let here = self.stores.is_of(&found, directory)?;
        let open = if here { self.stores.for_recording(directory)? } else { found };
        let own = open.store.projects().first().cloned();
        let project_id = match own.filter(|_| here) {
            None => open.store.project_of(parent)?,
            own => own,
        };
        let workspace = Some(recorded_directory(directory));
        let fields = SessionFields { workspace, project_id, ..SessionFields::default() };
        let made = self.named(&open, id, NewSession::from(fields), |session| {
            open.store.fork_new(parent, None, session)
        })?;
        self.begin(&open, made)
    }

    /// The session that a fork in this directory starts from: the one that the client calls `id` in
    /// this directory, else in any.
    pub fn find_parent(&self, directory: &Path, id: &str) -> Result<SessionId, CatalogError> {
        self.parent(directory, id).map(|(_, session)| session)
    }

    fn parent(&self, directory: &Path, id: &str) -> Result<(OpenStore, SessionId), CatalogError> {
        match self.look(Some(directory), id) {
            Err(CatalogError::NoSession { .. }) => self.look(None, id),
            found => found,
        }
    }

    /// Deletes a session for good. Refuses if a process holds it, this one included, or if it has a
    /// fork.
    pub fn delete(&self, directory: Option<&Path>, id: &str) -> Result<(), CatalogError> {
        let (open, session) = self.look(directory, id)?;
        // The id keeps meaning this session, and no other once it is gone.
        self.know(&open, id, session);
        open.store.delete_session(session).map_err(|error| match error {
            abide::Error::Delete(DeleteError::Forked { fork, .. }) => {
                CatalogError::Forked { id: id.to_owned(), fork }
            }
            error => CatalogError::about(id, error),
        })?;
        Ok(())
    }

    /// Makes a session under the client's id if that is free, else under its own.
    fn named(
        &self,
        open: &OpenStore,
        id: &str,
        session: NewSession,
        make: impl Fn(NewSession) -> Result<CreatedSession, abide::Error>,
    ) -> Result<(String, SessionId), CatalogError> {
        if self.may_be_key(open, id)? {
            let keyed = session.clone().with_key(session_key(id));
            // Of two processes that try the same key at once, one is told that it is not new.
            let made = make(keyed)?;
            if made.is_new {
                return Ok((id.to_owned(), made.id));
            }
        }
        let made = make(session)?.id;
        Ok((made.to_string(), made))
    }

    /// Whether a session of this store can go by this id, as far as can be told without its keys.
    fn may_be_key(&self, open: &OpenStore, id: &str) -> Result<bool, CatalogError> {
        let known = self.known().get(id).cloned();
        let elsewhere = match known.filter(|known| known.store != open.key) {
            Some(known) => known.still_in(&self.stores.all()?)?.is_some(),
            None => false,
        };
        if id.is_empty() || id.len() > ID_BYTES || elsewhere {
            return Ok(false);
        }
        // The id of an existing session belongs to that session only.
        Ok(match id.parse() {
            Ok(own) => find_catalog_session(open, &SessionRef::Id(own))?.is_none(),
            Err(_) => true,
        })
    }

    fn begin(
        &self,
        open: &OpenStore,
        (id, session): (String, SessionId),
    ) -> Result<(String, Session), CatalogError> {
        let session = open.store.open_session(&SessionRef::Id(session));
        let session = session.map_err(|error| CatalogError::about(&id, error))?;
        self.know(open, &id, session.id());
        Ok((id, session))
    }

    /// Whether this id means a session other than `session` in that directory.
    pub(crate) fn is_another(&self, directory: &Path, id: &str, session: SessionId) -> bool {
        self.looked(Some(directory), id).is_ok_and(|(_, found)| found != session)
    }

    /// Whether this client knows the id of a session that is or was recorded.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.known().contains_key(id)
    }

    /// Looks for a session. An id given with its directory means that session from then on.
    fn look(
        &self,
        directory: Option<&Path>,
        id: &str,
    ) -> Result<(OpenStore, SessionId), CatalogError> {
        let (open, session) = self.looked(directory, id)?;
        if directory.is_some() {
            self.know(&open, id, session);
        }
        Ok((open, session))
    }

    fn looked(
        &self,
        directory: Option<&Path>,
        id: &str,
    ) -> Result<(OpenStore, SessionId), CatalogError> {
        let stores = match directory {
            Some(directory) => self.stores.of(directory)?.into_iter().collect(),
            None => self.stores.all()?,
        };
        let known = self.known().get(id).cloned().filter(|_| directory.is_none());
        // What the id already means to this client comes first.
        if let Some(known) = &known
            && let Some(open) = known.still_in(&stores)?
        {
            return Ok((open.clone(), known.session));
        }
        let mut matches = Vec::new();
        for open in &stores {
            let named = match directory {
                Some(_) => catalog_session(open, id)?.map(candidate_by_id).into_iter().collect(),
                None => catalog_sessions(open, id)?,
            };
            matches.extend(named.into_iter().map(|named| (open, named)));
        }
        let mut meant: Vec<_> = matches.iter().collect();
        if let Some(known) = &known {
            // That session is gone. Only one of the same project that got its id since may be
            // meant.
            meant.retain(|(open, it)| open.key.at == known.store.at && it.project == known.project);
        }
        match (meant.as_slice(), matches.as_slice()) {
            ([(open, named)], _) => Ok(((*open).clone(), named.session)),
            (_, []) => {
                let mut places: Vec<String> = stores.iter().map(OpenStore::place).collect();
                if places.is_empty() {
                    let none = |dir: &Path| format!("{}, which has no store", dir.display());
                    places.push(directory.map_or_else(|| "any store".to_owned(), none));
                }
                Err(CatalogError::NoSession { id: id.to_owned(), place: places.join(" or ") })
            }
            (_, many) => {
                let place = |(open, it): &(&OpenStore, SessionCandidate)| {
                    let directory = it.directory.as_ref().map(|dir| dir.display().to_string());
                    directory.unwrap_or_else(|| open.place())
                };
                let places = many.iter().map(place).collect();
                Err(CatalogError::Ambiguous { id: id.to_owned(), places })
            }
        }
    }

    fn know(&self, open: &OpenStore, id: &str, session: SessionId) {
        let project = open.store.project_of(session).ok().flatten();
        let known = CatalogEntry { store: open.key.clone(), session, project };
        self.known().insert(id.to_owned(), known);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, CatalogEntry>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A match of which only the id is known.
const fn candidate_by_id(session: SessionId) -> SessionCandidate {
    SessionCandidate { session, directory: None, project: None }
}

/// The sessions of a store that a client calls `id`. Keys are unique within a project only, and
/// these may be of any.
fn catalog_sessions(open: &OpenStore, id: &str) -> Result<Vec<SessionCandidate>, CatalogError> {
    if let Ok(own) = id.parse()
        && let Some(session) = find_catalog_session(open, &SessionRef::Id(own))?
    {
        return Ok(vec![candidate_by_id(session)]);
    }
    listing::listing_with_client_id(open, id)
}

/// The session of a store that a client calls `id`: by its full id or by its key, never by a
/// prefix.
fn catalog_session(open: &OpenStore, id: &str) -> Result<Option<SessionId>, CatalogError> {
    if let Ok(own) = id.parse()
        && let Some(session) = find_catalog_session(open, &SessionRef::Id(own))?
    {
        return Ok(Some(session));
    }
    if id.is_empty() || id.len() > ID_BYTES {
        return Ok(None);
    }
    find_catalog_session(open, &SessionRef::Key(session_key(id)))
}

fn find_catalog_session(
    open: &OpenStore,
    session: &SessionRef,
) -> Result<Option<SessionId>, CatalogError> {
    match open.store.find(session) {
        Ok(found) => Ok(Some(found)),
        Err(abide::Error::Store(StoreError::NoSession { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A directory as it is recorded, with links resolved.
fn recorded_directory(directory: &Path) -> String {
    SessionFields::workspace_text(&real_dir(directory))
}
