//! Removes a session, on request or in a cleanup: moves its directory aside under its lock, then
//! deletes it. Not while a writer has it open, and not while another session is, or may be, a fork
//! of it.
//!
//! Until the move is durable the session is complete; after it, the session no longer exists. What
//! a crash leaves is deleted by the next cleanup.

use std::io;
use std::path::Path;
use std::time::Duration;

use abide_journal::{JournalIdentity, Storage};
use abide_model::{DeleteError, Seq, SessionId, StoreError};

use crate::error::{storage_error, store_error};
use crate::maintain::cleanup::INDEX_PART;
use crate::maintain::doctor::Quarantine;
use crate::sessions::keys::{Keys, SessionKey};
use crate::sessions::local_store::LocalStore;
use crate::store_layout::layout_path_text;

/// Removes sessions from a store.
#[derive(Debug)]
pub struct SessionRemover<'a> {
    pub(crate) store: &'a LocalStore,
}

impl SessionRemover<'_> {
    /// Deletes a session permanently: its journal and derived files, its key, and its entry in the
    /// index. Objects that only it names are removed by the next collection. Errors after the
    /// session is gone are returned as notes.
    pub fn delete(&self, session: SessionId) -> Result<Vec<String>, DeleteError> {
        // Keeps forks from being created and cleanups from running.
        let _lock = self.store.cleaner().hold_cleanup()?;
        let layout = self.store.layout_of(session)?;
        if let Some(fork) = self.fork_of(session)? {
            return Err(DeleteError::Forked { session, fork });
        }
        let count = self.store.unsorted_names()?.len();
        let last = self.store.reader_at(session, &layout).last().map_err(store_error)?;
        let mut notes = Vec::new();
        self.remove(session, last, &mut notes)?;
        // Only a rebuild removes words from the index that no session has any more.
        let settled = if INDEX_PART >= count {
            self.store.index().remove().map(drop)
        } else {
            self.store.index().update()
        };
        if let Err(error) = settled {
            notes.push(format!("the index still contains session {session}: {error}"));
        }
        Ok(notes)
    }

    /// A fork of a session; an error if one that may be a fork cannot be read.
    pub(crate) fn fork_of(&self, session: SessionId) -> Result<Option<SessionId>, StoreError> {
        for name in self.store.names()? {
            let layout = self.store.layout().session(&name);
            let doubt = |reason: &str| StoreError::Damaged {
                place: layout_path_text(&layout.dir),
                reason: format!("{reason}; it may be a fork of session {session}"),
            };
            let id = match self.store.identify(&layout).map_err(store_error)? {
                JournalIdentity::Known(id) => id,
                JournalIdentity::Empty => continue,
                JournalIdentity::Unknown => return Err(doubt("no segment names the session")),
            };
            let reader = self.store.reader_at(id, &layout);
            if id == session || !reader.journal().origin().map_err(store_error)?.is_fork() {
                continue;
            }
            let link = reader.past().map_err(store_error)?.link();
            let parent = link.ok_or_else(|| doubt("its parent cannot be read"))?;
            if parent.session == session {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Removes a session whose last event is still `last`. Refuses one that a writer has open, or
    /// that was used since. Once the removal is durable, further errors are only noted.
    pub(crate) fn remove(
        &self,
        session: SessionId,
        last: Seq,
        notes: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let storage = &**self.store.storage();
        let layout = self.store.layout_of(session)?;
        let _lock = self.store.lock_session(session, &layout, Duration::ZERO)?;
        if self.store.reader_at(session, &layout).last().map_err(store_error)? != last {
            let used = io::Error::other("the session was used meanwhile");
            return Err(storage_error("remove", &layout.dir)(used));
        }
        let (root, aside) = (self.store.root(), self.store.layout().removed());
        storage.make_dir(&aside).map_err(storage_error("create", &aside))?;
        storage.sync_dir(root).map_err(storage_error("sync", root))?;
        let (project, key) = self.store.finder().project_and_key(session)?;
        // While the key has no file and the session exists, the sessions are searched.
        let keys = key
            .map(|key| self.let_go_of_key(SessionKey { project: &project, key: &key }))
            .transpose()?;
        let to = aside.join(layout.name());
        storage.rename(&layout.dir, &to).map_err(storage_error("move", &layout.dir))?;
        self.store.forget(session);
        for dir in [&aside, &self.store.layout().sessions()] {
            storage.sync_dir(dir).map_err(storage_error("sync", dir))?;
        }
        if let Some(Err(error)) = keys.map(|keys| keys.set_complete()) {
            notes.push(format!(
                "the key index is incomplete, so sessions are searched for keys: {error}"
            ));
        }
        if let Err(error) = Quarantine::new(self.store).clear(&[session], notes) {
            notes.push(format!("could not delete what repairs of session {session} kept: {error}"));
        }
        if let Err(error) = delete_for_removal(storage, &to) {
            notes.push(format!(
                "session {session} was removed; the next cleanup deletes its files: {error}"
            ));
        }
        Ok(())
    }

    fn let_go_of_key(&self, key: SessionKey<'_>) -> Result<Keys, StoreError> {
        let keys = self.store.finder().all_keys()?;
        keys.set_incomplete()?;
        keys.remove(key)?;
        Ok(keys)
    }

    /// Deletes what earlier removals left. Returns how many sessions.
    pub(crate) fn delete_leftovers(&self) -> Result<u64, StoreError> {
        let leftovers = self.leftovers()?;
        for name in &leftovers {
            delete_for_removal(&**self.store.storage(), &self.store.layout().removed().join(name))?;
        }
        Ok(leftovers.len() as u64)
    }

    /// What earlier removals left.
    pub(crate) fn leftovers(&self) -> Result<Vec<String>, StoreError> {
        let dir = self.store.layout().removed();
        match self.store.storage().list(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names.map_err(storage_error("list", &dir)),
        }
    }
}

/// Deletes a file, or a directory with its contents. Symlinks are deleted, never followed.
pub(crate) fn delete_for_removal(storage: &dyn Storage, path: &Path) -> Result<(), StoreError> {
    if !path.is_symlink()
        && let Ok(names) = storage.list(path)
    {
        for name in names {
            delete_for_removal(storage, &path.join(name))?;
        }
    }
    storage.remove(path).map_err(storage_error("remove", path))
}
