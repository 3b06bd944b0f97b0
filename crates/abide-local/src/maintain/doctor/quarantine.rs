//! The quarantine: what a repair replaced and did, so that it can be finished and undone.
//!
//! `quarantine/ID/` holds the original files, named by number, and `repair.json`, which is written
//! before the first of them is changed. The file `done` marks a completed repair and holds its last
//! event; the empty file `undone` marks one that was undone.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use abide_journal::{Access, StorageFile, read_full, write_full};
use abide_model::{Seq, SessionId, StoreError, Timestamp, path_text};
use serde::{Deserialize, Serialize};

use crate::error::storage_error;
use crate::sessions::local_store::LocalStore;
use crate::store_layout::layout_path_text;

/// What a repair replaces and does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RepairRecord {
    /// Its id.
    pub(super) id: String,
    /// When it was made.
    pub(super) at: Timestamp,
    /// The session; `None` for the store's own files.
    pub(super) session: Option<SessionId>,
    /// The last event before it.
    pub(super) before: Seq,
    /// It added more to the session than the event about itself.
    pub(super) said: bool,
    /// The files that it replaced or removed: relative to the store, separated by `/`. The n-th is
    /// stored in the quarantine as `n`, unless it did not exist.
    pub(super) files: Vec<QuarantinedFile>,
}

/// A file that a repair replaced or removed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct QuarantinedFile {
    /// Its path, relative to the store.
    #[serde(with = "path_text")]
    pub(super) path: PathBuf,
    /// It existed.
    pub(super) was: bool,
    /// It is kept for reference and not restored: it is derived, or was appended to since.
    #[serde(default)]
    pub(super) stays: bool,
}

/// The quarantine of a store.
#[derive(Debug)]
pub(crate) struct Quarantine<'a> {
    store: &'a LocalStore,
}

/// The largest record that is read.
const MOST: usize = 16 << 20;
/// How many bytes are copied at a time.
const COPY: usize = 1 << 20;
/// Listing something that is not a directory fails with one of these: it is not ours.
const NO_DIRECTORY: [ErrorKind; 2] = [ErrorKind::NotADirectory, ErrorKind::NotFound];

impl<'a> Quarantine<'a> {
    pub(crate) const fn new(store: &'a LocalStore) -> Self {
        Self { store }
    }

    pub(super) fn dir(&self, id: &str) -> PathBuf {
        self.store.layout().quarantine().join(id)
    }

    /// A path relative to the store, for a record.
    pub(super) fn below(&self, path: &Path) -> Result<PathBuf, StoreError> {
        let below = path.strip_prefix(self.store.root()).map(Path::to_owned);
        below.map_err(|_| outside_quarantine(path))
    }

    /// The full path of a recorded file. A path that would lead out of the store is an error; such
    /// a file is neither copied nor restored.
    pub(super) fn path(&self, filed: &QuarantinedFile) -> Result<PathBuf, StoreError> {
        let mut parts = filed.path.components();
        let plain = parts.all(|part| matches!(part, std::path::Component::Normal(_)));
        if !plain || filed.path.as_os_str().is_empty() {
            return Err(outside_quarantine(&filed.path));
        }
        Ok(self.store.root().join(&filed.path))
    }

    /// Checks that a repair may replace this file: its copy exists, or there is nothing to copy.
    pub(super) fn check(&self, record: &RepairRecord, path: &Path) -> Result<(), StoreError> {
        let file = match self.store.storage().open(path, Access::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            file => file.map_err(storage_error("open", path))?,
        };
        for (number, filed) in record.files.iter().enumerate().filter(|(_, filed)| filed.was) {
            if self.path(filed)? == path && self.has_copy(record, number, &*file).unwrap_or(false) {
                return Ok(());
            }
        }
        Err(StoreError::Damaged {
            place: layout_path_text(path),
            reason: "no copy in the quarantine, so it is not replaced".to_owned(),
        })
    }

    /// Whether the copy of a file exists and has its length. A file that is kept for reference may
    /// have grown.
    fn has_copy(
        &self,
        record: &RepairRecord,
        number: usize,
        file: &dyn StorageFile,
    ) -> std::io::Result<bool> {
        let copy = self.dir(&record.id).join(number.to_string());
        let copy = self.store.storage().open(&copy, Access::Read)?;
        let stays = record.files.get(number).is_some_and(|filed| filed.stays);
        Ok(stays || copy.len()? == file.len()?)
    }

    /// Copies the files of a repair to the quarantine, verifies the copies, and writes the record:
    /// from now on it can be finished and undone. Durable.
    pub(super) fn begin(&self, record: &RepairRecord) -> Result<(), StoreError> {
        let storage = self.store.storage();
        let (above, dir) = (self.store.layout().quarantine(), self.dir(&record.id));
        for dir in [&above, &dir] {
            storage.make_dir(dir).map_err(storage_error("create", dir))?;
        }
        for (number, filed) in record.files.iter().enumerate().filter(|(_, filed)| filed.was) {
            let from = self.path(filed)?;
            self.copy(&from, &dir.join(number.to_string()))?;
        }
        let json = serde_json::to_vec_pretty(record).unwrap_or_default();
        self.put(&dir.join("repair.json"), &json)?;
        for dir in [dir, above, self.store.root().to_owned()] {
            storage.sync_dir(&dir).map_err(storage_error("sync", &dir))?;
        }
        Ok(())
    }

    /// Marks a repair as completed, up to this event.
    pub(super) fn done(&self, id: &str, last: Seq) -> Result<(), StoreError> {
        let dir = self.dir(id);
        self.put(&dir.join("done"), last.to_string().as_bytes())?;
        self.store.storage().sync_dir(&dir).map_err(storage_error("sync", &dir))
    }

    /// Marks it as undone.
    pub(super) fn undone(&self, id: &str) -> Result<(), StoreError> {
        let dir = self.dir(id);
        self.put(&dir.join("undone"), b"")?;
        self.store.storage().sync_dir(&dir).map_err(storage_error("sync", &dir))
    }

    pub(super) fn is_done(&self, id: &str) -> bool {
        self.has(id, "done")
    }

    pub(super) fn is_undone(&self, id: &str) -> bool {
        self.has(id, "undone")
    }

    /// The last event of a completed repair.
    pub(super) fn end(&self, id: &str) -> Option<Seq> {
        let file = self.store.storage().open(&self.dir(id).join("done"), Access::Read).ok()?;
        let mut bytes = [0; 32];
        let read = read_full(&*file, &mut bytes, 0).ok()?;
        std::str::from_utf8(bytes.get(..read)?).ok()?.parse().ok().map(Seq)
    }

    fn has(&self, id: &str, name: &str) -> bool {
        self.store.storage().open(&self.dir(id).join(name), Access::Read).is_ok()
    }

    /// The repairs that were started, oldest first.
    pub(super) fn records(&self) -> Result<Vec<RepairRecord>, StoreError> {
        let mut records: Vec<_> = self.ids()?.iter().filter_map(|id| self.read(id)).collect();
        records.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
        Ok(records)
    }

    /// The names in the quarantine.
    fn ids(&self) -> Result<Vec<String>, StoreError> {
        let dir = self.store.layout().quarantine();
        let mut ids = match self.store.storage().list(&dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            ids => ids.map_err(storage_error("list", &dir))?,
        };
        ids.retain(|id| !dir.join(id).is_symlink());
        Ok(ids)
    }

    /// Deletes copies without a record: their repair was interrupted before it began, and nothing
    /// tells whose they are. If there is a record that cannot be read, the copies stay and a note
    /// is added.
    fn clear_unrecorded(&self, notes: &mut Vec<String>) -> Result<(), StoreError> {
        let storage = self.store.storage();
        for id in self.ids()?.iter().filter(|id| self.read(id).is_none()) {
            let dir = self.dir(id);
            let listed = storage.list(&dir);
            if matches!(&listed, Err(error) if NO_DIRECTORY.contains(&error.kind())) {
                continue;
            }
            let record = storage.open(&dir.join("repair.json"), Access::Read);
            let unrecorded = matches!(&record, Err(error) if error.kind() == ErrorKind::NotFound);
            let (Ok(names), true) = (listed, unrecorded) else {
                notes.push(format!(
                    "{} cannot be read, so its copies are not erased; delete it if it is not needed",
                    layout_path_text(&dir)
                ));
                continue;
            };
            for copy in names.iter().filter(|name| is_quarantine_copy(name)) {
                self.remove(&dir.join(copy))?;
            }
            storage.sync_dir(&dir).map_err(storage_error("sync", &dir))?;
        }
        Ok(())
    }

    fn read(&self, id: &str) -> Option<RepairRecord> {
        let file = self.store.storage().open(&self.dir(id).join("repair.json"), Access::Read);
        let file = file.ok()?;
        let length = usize::try_from(file.len().ok()?).ok()?.min(MOST);
        let mut bytes = vec![0; length];
        let read = read_full(&*file, &mut bytes, 0).ok()?;
        let record: RepairRecord = serde_json::from_slice(bytes.get(..read)?).ok()?;
        (record.id == id).then_some(record)
    }

    /// Restores the files of a repair below `dir`, each atomically: first those that existed, then
    /// removes those that did not. Nothing is changed unless all can be restored.
    pub(super) fn put_back(&self, record: &RepairRecord, dir: &Path) -> Result<(), StoreError> {
        let mut ours = Vec::new();
        for (number, filed) in record.files.iter().enumerate().filter(|(_, filed)| !filed.stays) {
            if self.path(filed)?.starts_with(dir) {
                ours.push((number, filed));
            }
        }
        let files = || ours.iter().copied();
        for (number, _) in files().filter(|(_, filed)| filed.was) {
            let copy = self.dir(&record.id).join(number.to_string());
            self.store.storage().open(&copy, Access::Read).map_err(storage_error("open", &copy))?;
        }
        for was in [true, false] {
            for (number, filed) in files().filter(|(_, filed)| filed.was == was) {
                self.put_one_back(record, number, filed)?;
            }
        }
        Ok(())
    }

    fn put_one_back(
        &self,
        record: &RepairRecord,
        number: usize,
        filed: &QuarantinedFile,
    ) -> Result<(), StoreError> {
        let to = self.path(filed)?;
        let storage = self.store.storage();
        if filed.was {
            self.copy_over(&self.dir(&record.id).join(number.to_string()), &to)?;
        } else {
            self.remove(&to)?;
        }
        let dir = to.parent().unwrap_or(self.store.root()).to_owned();
        storage.sync_dir(&dir).map_err(storage_error("sync", &dir))
    }

    /// Removes a file; a missing one counts as removed.
    pub(super) fn remove(&self, path: &Path) -> Result<(), StoreError> {
        match self.store.storage().remove(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(storage_error("remove", path)),
        }
    }

    /// Writes a file atomically, durable with its directory.
    pub(super) fn put(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let storage = self.store.storage();
        let temporary = quarantine_name_with_end(path, ".tmp");
        let file = storage
            .open(&temporary, Access::Create)
            .map_err(storage_error("create", &temporary))?;
        let written =
            file.truncate(0).and_then(|()| write_full(&*file, bytes, 0)).and_then(|()| file.sync());
        written.map_err(storage_error("write", &temporary))?;
        storage.rename(&temporary, path).map_err(storage_error("rename", &temporary))
    }

    /// Replaces a file by a copy of another, atomically.
    pub(super) fn copy_over(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let temporary = quarantine_name_with_end(to, ".tmp");
        self.copy(from, &temporary)?;
        let renamed = self.store.storage().rename(&temporary, to);
        renamed.map_err(storage_error("rename", &temporary))
    }

    /// Copies a file durably and verifies the copy.
    fn copy(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let storage = self.store.storage();
        let source = storage.open(from, Access::Read).map_err(storage_error("open", from))?;
        let target = storage.open(to, Access::Create).map_err(storage_error("create", to))?;
        target.truncate(0).map_err(storage_error("write", to))?;
        let mut at = 0;
        let mut was = blake3::Hasher::new();
        each_quarantined_part(&*source, &mut |part| {
            was.update(part);
            write_full(&*target, part, at)?;
            at += part.len() as u64;
            Ok(())
        })
        .map_err(storage_error("copy", from))?;
        target.sync().map_err(storage_error("sync", to))?;
        drop(target);
        let mut copied = blake3::Hasher::new();
        let target = storage.open(to, Access::Read).map_err(storage_error("open", to))?;
        each_quarantined_part(&*target, &mut |part| {
            copied.update(part);
            Ok(())
        })
        .map_err(storage_error("read", to))?;
        if was.finalize() != copied.finalize() {
            return Err(StoreError::Damaged {
                place: layout_path_text(to),
                reason: format!("the copy differs from {}", layout_path_text(from)),
            });
        }
        Ok(())
    }

    /// The path of a repair's quarantine, for messages.
    pub(super) fn shown(&self, id: &str) -> String {
        layout_path_text(&self.dir(id))
    }

    /// How many repairs keep copies, not counting those of these sessions.
    pub(crate) fn count_kept(&self, but: &[SessionId]) -> Result<usize, StoreError> {
        let ids = self.ids()?;
        let keeps = |id: &&String| {
            let session = self.read(id).and_then(|record| record.session);
            let names = self.store.storage().list(&self.dir(id)).unwrap_or_default();
            session.is_none_or(|session| !but.contains(&session))
                && names.iter().any(is_quarantine_copy)
        };
        Ok(ids.iter().filter(keeps).count())
    }

    /// Deletes what repairs of these sessions and of the store's own files have kept, since it may
    /// hold what is erased or removed. Those repairs can no longer be undone. The caller must hold
    /// the cleanup lock, so that no repair is starting.
    pub(crate) fn clear(
        &self,
        sessions: &[SessionId],
        notes: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        self.clear_unrecorded(notes)?;
        for record in self.records()? {
            if record.session.is_some_and(|of| !sessions.contains(&of)) {
                continue;
            }
            self.undone(&record.id)?;
            for number in 0..record.files.len() {
                self.remove(&self.dir(&record.id).join(number.to_string()))?;
            }
            let dir = self.dir(&record.id);
            self.store.storage().sync_dir(&dir).map_err(storage_error("sync", &dir))?;
        }
        Ok(())
    }
}

/// Whether this is the name of a copy.
fn is_quarantine_copy(name: impl AsRef<str>) -> bool {
    name.as_ref().bytes().all(|byte| byte.is_ascii_digit())
}

/// The error for a path outside the store.
fn outside_quarantine(path: &Path) -> StoreError {
    StoreError::Damaged {
        place: layout_path_text(path),
        reason: "not a file of this store".to_owned(),
    }
}

/// Reads a file in parts, from start to end.
fn each_quarantined_part(
    file: &dyn StorageFile,
    each: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut bytes = vec![0; COPY];
    let mut at = 0;
    loop {
        let read = read_full(file, &mut bytes, at)?;
        if read == 0 {
            return Ok(());
        }
        each(bytes.get(..read).unwrap_or_default())?;
        at += read as u64;
    }
}

fn quarantine_name_with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalOptions;

    #[test]
    fn only_what_was_copied_may_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join(".abide");
        let store = LocalStore::init(&root, LocalOptions::default()).unwrap();
        let quarantine = Quarantine::new(&store);
        let paths = ["copied", "not copied", "missed"].map(|name| root.join(name));
        for path in &paths {
            std::fs::write(path, "x").unwrap();
        }
        let filed = |path: &str, was| QuarantinedFile { path: path.into(), was, stays: false };
        let files = vec![filed("copied", true), filed("missed", false)];
        let record = RepairRecord { id: "r".to_owned(), files, ..RepairRecord::default() };
        quarantine.begin(&record).unwrap();
        let may = paths.map(|path| quarantine.check(&record, &path).is_ok());
        assert_eq!(may, [true, false, false]);
        quarantine.check(&record, &root.join("nothing is there")).unwrap();
        // Whoever deletes the copy, or what it holds, takes that away again.
        let copied = root.join("copied");
        std::fs::write(quarantine.dir("r").join("0"), "").unwrap();
        assert!(quarantine.check(&record, &copied).is_err());
        std::fs::write(quarantine.dir("r").join("0"), "x").unwrap();
        quarantine.check(&record, &copied).unwrap();
        std::fs::remove_file(quarantine.dir("r").join("0")).unwrap();
        assert!(quarantine.check(&record, &copied).is_err());
        // A record leads nowhere else.
        for path in ["/etc/passwd", "../outside", ""] {
            let files = vec![filed(path, true)];
            let record = RepairRecord { id: "s".to_owned(), files, ..RepairRecord::default() };
            assert!(quarantine.begin(&record).is_err(), "{path}");
            assert!(quarantine.put_back(&record, &root).is_err(), "{path}");
        }
        assert!(quarantine.below(Path::new("/elsewhere")).is_err());
    }
}
