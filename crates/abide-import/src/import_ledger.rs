//! The ledger: what was imported from where, kept in the store, so that files in which nothing is new
//! are not even opened.
//!
//! It holds nothing that the sessions do not, but for one thing: that a session was imported and
//! removed since. Without the ledger the sessions are read again, and what was removed comes back.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use abide::{Seq, SessionId};
use abide_model::SourceProgress;
use serde::{Deserialize, Serialize};

use crate::ImportFilesError;
use crate::provisional_message::ProvisionalMessage;
use crate::source_finder::FoundSession;

/// The file of the ledger, in the store's directory.
const LEDGER: &str = "imported.json";
/// Whoever writes it holds this file's lock.
const LEDGER_LOCK: &str = "imported.lock";
/// The version of its form. One of another version is begun anew.
const LEDGER_VERSION: u32 = 1;

/// What was imported into a store.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ImportLedger {
    version: u32,
    /// By `agent/id`.
    sessions: BTreeMap<String, ImportedSession>,
}

/// A session of an agent, as it was imported.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ImportedSession {
    /// The session that holds it.
    pub(crate) session: SessionId,
    /// The last event that was looked at.
    pub(crate) through: Seq,
    /// Its files, by their names within the session.
    pub(crate) files: BTreeMap<String, ImportedFile>,
    /// Messages that hooks told and that no record of a file has replaced yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) provisional: Vec<ProvisionalMessage>,
}

impl ImportedSession {
    /// All files are as they were.
    pub(crate) fn is_of(&self, found: &FoundSession) -> bool {
        found.files.iter().all(|file| {
            self.files.get(&file.kept.name).is_some_and(|known| known.stamp == file.stamp)
        })
    }
}

/// A file of such a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ImportedFile {
    /// What the file looked like when all of it was read.
    pub(crate) stamp: SourceStamp,
    /// How far it was read.
    pub(crate) progress: SourceProgress,
    /// What its reader remembers is left out: it is in the session's last note of the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_brief: bool,
}

/// What tells that a file has not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SourceStamp {
    /// Its size in bytes.
    pub(crate) size: u64,
    /// When it was written, in nanoseconds.
    pub(crate) written: i128,
    /// Its inode.
    pub(crate) inode: u64,
}

impl SourceStamp {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        let written =
            i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        Self { size: metadata.size(), written, inode: metadata.ino() }
    }
}

impl ImportLedger {
    /// The ledger of a store; an empty one if it has none that can be read.
    pub(crate) fn read(store: &Path) -> Self {
        let text = fs::read_to_string(store.join(LEDGER)).unwrap_or_default();
        let read: Option<Self> = serde_json::from_str(&text).ok();
        read.filter(|ledger| ledger.version == LEDGER_VERSION).unwrap_or_default()
    }

    /// Writes the ledger of a store, with what other imports have written meanwhile.
    pub(crate) fn write(&mut self, store: &Path) -> Result<(), ImportFilesError> {
        self.version = LEDGER_VERSION;
        let path = store.join(LEDGER);
        let lock_path = store.join(LEDGER_LOCK);
        let lock = File::create(&lock_path).and_then(|lock| lock.lock().map(|()| lock));
        let _lock = lock.map_err(ImportFilesError::write(&lock_path))?;
        for (name, theirs) in Self::read(store).sessions {
            let ours = self.sessions.get(&name);
            if ours.is_none_or(|ours| ours.through < theirs.through) {
                self.sessions.insert(name, theirs);
            }
        }
        let text = serde_json::to_vec(self).map_err(|error| ImportFilesError::Write {
            path: path.clone(),
            source: error.into(),
        })?;
        let temporary = PathBuf::from(format!("{}.{}.tmp", path.display(), std::process::id()));
        let written = write_whole(&temporary, &text)
            .and_then(|()| fs::rename(&temporary, &path))
            .and_then(|()| File::open(store)?.sync_all());
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written.map_err(ImportFilesError::write(&path))
    }

    pub(crate) fn get(&self, agent: &str, id: &str) -> Option<&ImportedSession> {
        self.sessions.get(&format!("{agent}/{id}"))
    }

    /// Notes a session. What readers remember of its files would make the ledger many times as large.
    pub(crate) fn put(&mut self, agent: &str, id: &str, mut imported: ImportedSession) {
        for file in imported.files.values_mut() {
            file.is_brief |= file.progress.memory.take().is_some();
        }
        self.sessions.insert(format!("{agent}/{id}"), imported);
    }
}

fn write_whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}
