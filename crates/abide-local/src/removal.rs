//! Removes a session: moves its directory aside under its lock, then deletes it.
//!
//! Until the move is durable the session is complete; after it, the session no longer exists. What
//! a crash leaves is deleted by the next cleanup.

use std::io;
use std::path::Path;
use std::time::Duration;

use abide_journal::Storage;
use abide_model::{Seq, SessionId, StoreError};

use crate::error::{storage_error, store_error};
use crate::keys::{Keys, SessionKey};
use crate::store::LocalStore;

impl LocalStore {
    /// Removes a session whose last event is still `last`. Refuses one that a writer has open, or
    /// that was used since. Once the removal is durable, further errors are only noted.
    pub(crate) fn remove_session(
        &self,
        session: SessionId,
        last: Seq,
        notes: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let storage = &**self.storage();
        let layout = self.layout_of(session)?;
        let _lock = self.lock_session(session, &layout, Duration::ZERO)?;
        if self.reader_at(session, &layout).last().map_err(store_error)? != last {
            let used = io::Error::other("the session was used meanwhile");
            return Err(storage_error("remove", &layout.dir)(used));
        }
        let (root, aside) = (self.root(), self.layout().removed());
        storage.make_dir(&aside).map_err(storage_error("create", &aside))?;
        storage.sync_dir(root).map_err(storage_error("sync", root))?;
        let (project, key) = self.project_and_key(session)?;
        // While the key has no file and the session exists, the sessions are searched.
        let keys = key
            .map(|key| self.let_go_of_key(SessionKey { project: &project, key: &key }))
            .transpose()?;
        let to = aside.join(layout.name());
        storage.rename(&layout.dir, &to).map_err(storage_error("move", &layout.dir))?;
        self.forget(session);
        for dir in [&aside, &self.layout().sessions()] {
            storage.sync_dir(dir).map_err(storage_error("sync", dir))?;
        }
        if let Some(Err(error)) = keys.map(|keys| keys.set_complete()) {
            notes.push(format!(
                "the key index is incomplete, so sessions are searched for keys: {error}"
            ));
        }
        if let Err(error) = self.clear_quarantine(&[session], notes) {
            notes.push(format!("could not delete what repairs of session {session} kept: {error}"));
        }
        if let Err(error) = delete(storage, &to) {
            notes.push(format!(
                "session {session} was removed; the next cleanup deletes its files: {error}"
            ));
        }
        Ok(())
    }

    fn let_go_of_key(&self, key: SessionKey<'_>) -> Result<Keys, StoreError> {
        let keys = self.all_keys()?;
        keys.set_incomplete()?;
        keys.remove(key)?;
        Ok(keys)
    }

    /// Deletes what earlier removals left. Returns how many sessions.
    pub(crate) fn delete_leftovers(&self) -> Result<u64, StoreError> {
        let leftovers = self.leftovers()?;
        for name in &leftovers {
            delete(&**self.storage(), &self.layout().removed().join(name))?;
        }
        Ok(leftovers.len() as u64)
    }

    /// What earlier removals left.
    pub(crate) fn leftovers(&self) -> Result<Vec<String>, StoreError> {
        let dir = self.layout().removed();
        match self.storage().list(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names.map_err(storage_error("list", &dir)),
        }
    }
}

/// Deletes a file, or a directory with its contents. Symlinks are deleted, never followed.
pub(crate) fn delete(storage: &dyn Storage, path: &Path) -> Result<(), StoreError> {
    if !path.is_symlink()
        && let Ok(names) = storage.list(path)
    {
        for name in names {
            delete(storage, &path.join(name))?;
        }
    }
    storage.remove(path).map_err(storage_error("remove", path))
}
