//! Lists sessions page by page, from the stores' indexes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use abide::{
    HistoryQuery, SessionFields, SessionId,
    history::{HistoryEntry, Overview},
};

use super::cursor::ListCursor;
use super::stores::OpenStore;
use super::{CatalogError, KEY, SessionPage};
use crate::protocol::SessionInfo;

/// Sessions on a page.
pub(super) const PAGE: usize = 50;
/// Entries asked of an index at first; more if few of them are in the directory.
const ASKED: usize = 4 * PAGE;

/// A session in the list.
struct ListedSession {
    place: ListCursor,
    info: SessionInfo,
}

/// A page of the sessions of these stores, of one directory if given, after a cursor if given.
pub(super) fn list_session_page(
    stores: &[OpenStore],
    directory: Option<&Path>,
    after: Option<ListCursor>,
) -> Result<SessionPage, CatalogError> {
    let wanted = directory.map(listing_real_path);
    let mut listed = Vec::new();
    for open in stores {
        gather_listed_sessions(open, wanted.as_deref(), after, &mut listed)?;
    }
    listed.sort_by_key(|one| Reverse(one.place));
    let more = listed.len() > PAGE;
    listed.truncate(PAGE);
    let next = listed.last().filter(|_| more).map(|last| last.place.to_string());
    Ok(SessionPage { sessions: listed.into_iter().map(|one| one.info).collect(), next })
}

/// Collects one session more than fits on a page, if the store has that many.
fn gather_listed_sessions(
    open: &OpenStore,
    wanted: Option<&Path>,
    after: Option<ListCursor>,
    listed: &mut Vec<ListedSession>,
) -> Result<(), CatalogError> {
    let mut limit = ASKED;
    let mut until = after.map(|after| after.updated);
    let mut directories = ListingDirectories::default();
    let mut count = 0;
    loop {
        let query =
            HistoryQuery { limit: Some(limit), unchanged_since: until, ..HistoryQuery::default() };
        let mut history = open.store.history(&query)?;
        let more = history.more.is_none_or(|more| more > 0);
        let last = history.entries.last().map(|entry| entry.overview.updated);
        if more {
            // Entries of the same time may have been cut off; all of them come with the next query.
            history.entries.retain(|entry| Some(entry.overview.updated) != last);
            if history.entries.is_empty() {
                limit = limit.saturating_mul(4);
                continue;
            }
        }
        for entry in history.entries {
            let place = ListCursor { updated: entry.overview.updated, id: entry.id };
            let cwd = listed_directory(&entry.overview, open);
            if after.is_none_or(|after| place < after)
                && wanted.is_none_or(|wanted| directories.real(&cwd) == wanted)
            {
                count += 1;
                listed.push(ListedSession { place, info: session_list_info(&entry, cwd) });
            }
        }
        if !more || count > PAGE {
            return Ok(());
        }
        until = last;
        limit = limit.saturating_mul(2);
    }
}

/// The session as `session/list` shows it.
fn session_list_info(entry: &HistoryEntry, cwd: PathBuf) -> SessionInfo {
    let overview = &entry.overview;
    SessionInfo {
        session_id: client_id(&overview.fields, entry.id),
        cwd,
        title: overview.name(),
        updated_at: Some(overview.updated.to_string()),
    }
}

/// The sessions of a store, of any project, that clients know by this id.
pub(super) fn listing_with_client_id(
    open: &OpenStore,
    id: &str,
) -> Result<Vec<SessionCandidate>, CatalogError> {
    let history = open.store.history(&HistoryQuery::default())?;
    let called = |entry: &&HistoryEntry| client_id(&entry.overview.fields, entry.id) == id;
    let named = |entry: &HistoryEntry| SessionCandidate {
        session: entry.id,
        directory: Some(listed_directory(&entry.overview, open)),
        project: entry.overview.fields.project_id.clone(),
    };
    Ok(history.entries.iter().filter(called).map(named).collect())
}

/// A session that a client's id may mean.
#[derive(Debug, Clone)]
pub(super) struct SessionCandidate {
    pub(super) session: SessionId,
    /// Where its files are, for people.
    pub(super) directory: Option<PathBuf>,
    pub(super) project: Option<String>,
}

/// The id that a client knows a session by.
pub(super) fn client_id(fields: &SessionFields, id: SessionId) -> String {
    let own = fields.key.as_deref().and_then(|key| key.strip_prefix(KEY));
    own.map_or_else(|| id.to_string(), str::to_owned)
}

fn listed_directory(overview: &Overview, open: &OpenStore) -> PathBuf {
    let workspace = overview.fields.workspace.as_deref().map(Path::new);
    workspace.filter(|path| path.is_absolute()).unwrap_or_else(|| open.project()).to_owned()
}

/// Directories with links resolved, each looked up once.
#[derive(Default)]
struct ListingDirectories(HashMap<PathBuf, PathBuf>);

impl ListingDirectories {
    fn real(&mut self, path: &Path) -> &Path {
        self.0.entry(path.to_owned()).or_insert_with(|| listing_real_path(path))
    }
}

/// A path with links resolved; unchanged if it no longer exists.
fn listing_real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.components().collect())
}
