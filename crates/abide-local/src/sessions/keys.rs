//! Maps a client's own keys to sessions. Derived data: if it is missing, the sessions are searched.
//!
//! A key's file is durable before its session is created, and names the id that the session will
//! have. After a crash between the two, the same session is created, not a second one. A key is
//! unique within a project.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_journal::{Access, LockMode, Storage, StorageLock, read_full, write_full};
use abide_model::{SessionId, StoreError};

use crate::error::storage_error;

/// Marks that every session's key has a file.
const COMPLETE: &str = "complete";

/// A client's key, and the project in which it counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionKey<'a> {
    /// The project's id; empty for sessions without a project.
    pub(crate) project: &'a str,
    pub(crate) key: &'a str,
}

/// The keys of a store, locked by this process.
#[derive(Debug)]
pub(crate) struct Keys {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    _lock: Box<dyn StorageLock>,
}

impl Keys {
    /// Locks the keys, waiting for other processes.
    pub(crate) fn lock(storage: &Arc<dyn Storage>, dir: PathBuf) -> Result<Self, StoreError> {
        storage.make_dir(&dir).map_err(storage_error("create", &dir))?;
        let path = dir.join("lock");
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let lock =
                storage.lock(&path, LockMode::Exclusive).map_err(storage_error("lock", &path))?;
            match lock {
                Some(lock) => {
                    return Ok(Self { storage: storage.clone(), dir, _lock: lock });
                }
                None if Instant::now() >= until => {
                    let busy = std::io::Error::from(std::io::ErrorKind::WouldBlock);
                    return Err(storage_error("lock", &path)(busy));
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Removes a key's file, durably.
    pub(crate) fn remove(&self, key: SessionKey<'_>) -> Result<(), StoreError> {
        let path = self.path(key);
        match self.storage.remove(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            removed => removed.map_err(storage_error("remove", &path))?,
        }
        self.storage.sync_dir(&self.dir).map_err(storage_error("sync", &self.dir))
    }

    fn path(&self, key: SessionKey<'_>) -> PathBuf {
        key_path(&self.dir, key)
    }

    /// Whether every session's key has a file.
    pub(crate) fn complete(&self) -> bool {
        keys_are_complete(&*self.storage, &self.dir)
    }

    pub(crate) fn set_complete(&self) -> Result<(), StoreError> {
        let path = self.dir.join(COMPLETE);
        let file =
            self.storage.open(&path, Access::Create).map_err(storage_error("create", &path))?;
        file.sync().map_err(storage_error("sync", &path))?;
        self.storage.sync_dir(&self.dir).map_err(storage_error("sync", &self.dir))
    }

    /// Called before a session gets a key without a file: until [`Keys::set_complete`], the
    /// sessions are searched for keys. Durable.
    pub(crate) fn set_incomplete(&self) -> Result<(), StoreError> {
        let path = self.dir.join(COMPLETE);
        self.storage.remove(&path).map_err(storage_error("remove", &path))?;
        self.storage.sync_dir(&self.dir).map_err(storage_error("sync", &self.dir))
    }

    /// Whether this key has a file, whatever its contents.
    pub(crate) fn has_file(&self, key: SessionKey<'_>) -> Result<bool, StoreError> {
        has_key_file(&*self.storage, &self.dir, key)
    }

    pub(crate) fn get(&self, key: SessionKey<'_>) -> Result<Option<SessionId>, StoreError> {
        session_of_key(&*self.storage, &self.dir, key)
    }

    /// Assigns a key to a session, durably.
    pub(crate) fn put(&self, key: SessionKey<'_>, session: SessionId) -> Result<(), StoreError> {
        let path = self.path(key);
        let temporary = path.with_extension("tmp");
        let file = self
            .storage
            .open(&temporary, Access::Create)
            .map_err(storage_error("create", &temporary))?;
        file.truncate(0).map_err(storage_error("write", &temporary))?;
        let text = format!("{session}\n");
        write_full(&*file, text.as_bytes(), 0).map_err(storage_error("write", &temporary))?;
        file.sync().map_err(storage_error("sync", &temporary))?;
        self.storage.rename(&temporary, &path).map_err(storage_error("rename", &temporary))?;
        self.storage.sync_dir(&self.dir).map_err(storage_error("sync", &self.dir))
    }
}

/// Whether every session's key has a file. Needs no lock.
pub(crate) fn keys_are_complete(storage: &dyn Storage, dir: &Path) -> bool {
    storage.open(&dir.join(COMPLETE), Access::Read).is_ok()
}

/// Whether this key has a file, whatever its contents. Needs no lock.
pub(crate) fn has_key_file(
    storage: &dyn Storage,
    dir: &Path,
    key: SessionKey<'_>,
) -> Result<bool, StoreError> {
    let path = key_path(dir, key);
    match storage.open(&path, Access::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(storage_error("open", &path)(error)),
    }
}

/// The session of a key; `None` if the key has no file, or an invalid one. Needs no lock.
pub(crate) fn session_of_key(
    storage: &dyn Storage,
    dir: &Path,
    key: SessionKey<'_>,
) -> Result<Option<SessionId>, StoreError> {
    let path = key_path(dir, key);
    let file = match storage.open(&path, Access::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(storage_error("open", &path))?,
    };
    let mut bytes = [0; 64];
    let read = read_full(&*file, &mut bytes, 0).map_err(storage_error("read", &path))?;
    let text = bytes.get(..read).and_then(|bytes| std::str::from_utf8(bytes).ok());
    Ok(text.and_then(|text| text.trim_end().parse().ok()))
}

fn key_path(dir: &Path, key: SessionKey<'_>) -> PathBuf {
    let mut hasher = blake3::Hasher::new();
    if !key.project.is_empty() {
        hasher.update(blake3::hash(key.project.as_bytes()).as_bytes());
    }
    let hash = hasher.update(key.key.as_bytes()).finalize();
    dir.join(hash.to_hex().chars().take(32).collect::<String>())
}
