//! The disk usage of a store. Read-only.

use std::collections::BTreeMap;
use std::path::Path;

use abide_journal::{Access, JournalIdentity, Storage};
use abide_model::{SessionId, StoreError};
use serde::Serialize;

use crate::error::store_error;
use crate::sessions::local_store::LocalStore;
use crate::shield;

/// The disk usage of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionUse {
    /// Its id, if it can be read.
    pub session: Option<SessionId>,
    /// The name of its directory.
    pub name: String,
    /// The id of its project, if it has one. For the project that the store was opened for, the
    /// first of its ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its bytes, without its objects.
    pub bytes: u64,
}

/// The disk usage of a project's sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProjectUse {
    /// Its id; `None` for sessions without a project.
    pub project: Option<String>,
    /// How many sessions.
    pub sessions: u64,
    /// Their bytes, without objects, which all projects share.
    pub bytes: u64,
}

/// The disk usage of a store, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DiskUse {
    /// Every session, largest first.
    pub sessions: Vec<SessionUse>,
    /// Every project, largest first; empty if no session has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub projects: Vec<ProjectUse>,
    /// The journals of all sessions.
    pub journals: u64,
    /// Their state caches.
    pub state: u64,
    /// Their transcripts.
    pub transcripts: u64,
    /// Other files in their directories.
    pub session_files: u64,
    /// The objects.
    pub objects: u64,
    /// The number of packs.
    pub packs: u64,
    /// The index.
    pub index: u64,
    /// Workspace caches, which speed up scanning.
    pub caches: u64,
    /// Sessions that were removed and are not deleted yet.
    pub removed: u64,
    /// Imports that are running or were interrupted.
    pub imports: u64,
    /// Everything else.
    pub other: u64,
    /// The total.
    pub total: u64,
}

/// The disk usage of the store.
pub(crate) fn disk_use(store: &LocalStore) -> Result<DiskUse, StoreError> {
    let storage = &**store.storage();
    let mut used = DiskUse::default();
    for name in storage.list(store.root()).unwrap_or_default() {
        let path = store.root().join(&name);
        match name.as_str() {
            "sessions" => {
                disk_use_of_sessions(store, &mut used)?;
                used.other += disk_use_below(storage, &path.join(shield::NAME))?;
            }
            "objects" => {
                used.objects = disk_use_below(storage, &path)?;
                used.packs = store.packs().numbers().map_err(store_error)?.len() as u64;
            }
            "removed" => used.removed = disk_use_below(storage, &path)?,
            "imports" => used.imports = disk_use_below(storage, &path)?,
            name if name.starts_with("index.") => used.index += disk_use_below(storage, &path)?,
            name if name.starts_with("workspace") || name.starts_with("cache") => {
                used.caches += disk_use_below(storage, &path)?;
            }
            _ => used.other += disk_use_below(storage, &path)?,
        }
    }
    used.sessions.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    used.projects = disk_use_by_project(&used.sessions);
    used.total = used.journals
        + used.state
        + used.transcripts
        + used.session_files
        + used.objects
        + used.index
        + used.caches
        + used.removed
        + used.imports
        + used.other;
    Ok(used)
}

fn disk_use_of_sessions(store: &LocalStore, used: &mut DiskUse) -> Result<(), StoreError> {
    let storage = &**store.storage();
    for name in store.unsorted_names()? {
        let layout = store.layout().session(&name);
        let mut bytes = 0;
        for part in storage.list(&layout.dir).unwrap_or_default() {
            let size = disk_use_below(storage, &layout.dir.join(&part))?;
            bytes += size;
            match part.as_str() {
                "journal" => used.journals += size,
                "state" => used.state += size,
                "transcript.task" => used.transcripts += size,
                _ => used.session_files += size,
            }
        }
        let session = match store.identify(&layout) {
            Ok(JournalIdentity::Known(id)) => Some(id),
            _ => None,
        };
        let project = session.and_then(|id| store.finder().project_of(id).ok().flatten());
        let ours = &store.options().projects;
        let project = match project {
            Some(id) if ours.contains(&id) => ours.first().cloned(),
            project => project,
        };
        used.sessions.push(SessionUse { session, name, project, bytes });
    }
    Ok(())
}

fn disk_use_by_project(sessions: &[SessionUse]) -> Vec<ProjectUse> {
    if sessions.iter().all(|session| session.project.is_none()) {
        return Vec::new();
    }
    let mut sums: BTreeMap<Option<&str>, (u64, u64)> = BTreeMap::new();
    for session in sessions {
        let (count, bytes) = sums.entry(session.project.as_deref()).or_default();
        *count += 1;
        *bytes += session.bytes;
    }
    let mut projects: Vec<ProjectUse> = sums
        .into_iter()
        .map(|(project, (sessions, bytes))| ProjectUse {
            project: project.map(str::to_owned),
            sessions,
            bytes,
        })
        .collect();
    projects.sort_by_key(|project| std::cmp::Reverse(project.bytes));
    projects
}

/// The bytes of a file, or of all files below a directory. Symlinks are not followed; files that
/// disappear meanwhile do not count.
pub(crate) fn disk_use_below(storage: &dyn Storage, path: &Path) -> Result<u64, StoreError> {
    if path.is_symlink() {
        return Ok(0);
    }
    if let Ok(names) = storage.list(path) {
        let mut bytes = 0;
        for name in names {
            bytes += disk_use_below(storage, &path.join(name))?;
        }
        return Ok(bytes);
    }
    // A directory can also be opened for reading, but has no bytes of its own that count.
    Ok(storage.open(path, Access::Read).and_then(|file| file.len()).unwrap_or(0))
}
