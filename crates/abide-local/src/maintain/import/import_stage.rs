//! Holds what an import reads until all of it is checked: lines in segments beside the sessions,
//! objects that the store lacks in a pack beside those.
//!
//! Nothing here is visible as a session, and nothing of a refused import gets into the store's
//! packs. What is left is removed on drop; what a crash leaves is removed by the next import of the
//! same session, and by an erasure.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_journal::{
    Access, JournalEnd, JournalError, JournalLine, PackWriter, Packs, SegmentForm, SegmentHeader,
    SegmentName, Storage, StorageFile, StorageLock, write_full,
};
use abide_model::{ObjectHash, Seq, SessionId, StoreError};

use crate::error::{storage_error, store_error};
use crate::store_layout::{layout_path_text, refused_link};

/// How many bytes are written at a time.
const WRITE: usize = 256 << 10;

/// Lines and objects of an import.
#[derive(Debug)]
pub(crate) struct ImportStage {
    storage: Arc<dyn Storage>,
    session: SessionId,
    dir: PathBuf,
    lock_path: PathBuf,
    packs: Arc<Packs>,
    objects: Option<StagedObjects>,
    /// The objects named by lines that are, or will be, in the store.
    named: HashSet<ObjectHash>,
    /// A new segment is started when one has this many bytes.
    limit: u64,
    /// The version of the journal that the segments belong to.
    version: u64,
    /// The current segment.
    file: Option<(PathBuf, Arc<dyn StorageFile>)>,
    buffer: Vec<u8>,
    end: JournalEnd,
    segments: Vec<u64>,
    /// Declared last so that it is released last.
    _lock: Box<dyn StorageLock>,
}

/// Objects of an import.
#[derive(Debug)]
struct StagedObjects {
    /// Tells what the store has, and prevents collection while it exists.
    store: PackWriter,
    /// What the store lacks.
    staged: PackWriter,
    packs: Arc<Packs>,
    hashes: Vec<ObjectHash>,
}

impl StagedObjects {
    fn open(
        storage: &Arc<dyn Storage>,
        dir: &Path,
        store: &Arc<Packs>,
    ) -> Result<Self, JournalError> {
        let packs = Arc::new(Packs::new(storage.clone(), dir.to_owned()));
        let (store, staged) = (PackWriter::open(store.clone())?, PackWriter::open(packs.clone())?);
        Ok(Self { store, staged, packs, hashes: Vec::new() })
    }

    fn put(&mut self, hash: ObjectHash, bytes: &[u8]) -> Result<(), JournalError> {
        if self.store.has(&[hash])? != [true] {
            self.staged.put(bytes)?;
            self.hashes.push(hash);
        }
        Ok(())
    }
}

impl ImportStage {
    /// Starts a stage for what follows `end`, in new segments of this version. `lock` is held on
    /// `lock_path`.
    pub(crate) fn begin(
        storage: Arc<dyn Storage>,
        session: SessionId,
        dir: PathBuf,
        (lock_path, lock): (PathBuf, Box<dyn StorageLock>),
        packs: Arc<Packs>,
        limit: u64,
        (version, end): (u64, JournalEnd),
    ) -> Result<Self, StoreError> {
        storage.make_dir(&dir).map_err(storage_error("create", &dir))?;
        clear_import_stage(&*storage, &dir)?;
        Ok(Self {
            storage,
            session,
            dir,
            lock_path,
            packs,
            objects: None,
            named: HashSet::new(),
            limit,
            version,
            file: None,
            buffer: Vec::new(),
            end,
            segments: Vec::new(),
            _lock: lock,
        })
    }

    /// The directory of the segments.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The numbers of the segments, in order.
    pub(crate) fn segments(&self) -> &[u64] {
        &self.segments
    }

    /// Adds an object. It gets into the store only if a line names it that is, or will be, there.
    pub(crate) fn object(&mut self, hash: ObjectHash, bytes: &[u8]) -> Result<(), StoreError> {
        let mut put = || -> Result<(), JournalError> {
            let objects = match &mut self.objects {
                Some(objects) => objects,
                none => none.insert(StagedObjects::open(&self.storage, &self.dir, &self.packs)?),
            };
            objects.put(hash, bytes)
        };
        put().map_err(store_error)
    }

    /// Adds the names of a line that is already in the store. An erased line names nothing.
    pub(crate) fn names_of(&mut self, line: &JournalLine<'_>) {
        self.named.extend(line.objects().into_iter().map(|object| object.hash));
    }

    /// Writes the next line.
    pub(crate) fn line(&mut self, line: &JournalLine<'_>) -> Result<(), StoreError> {
        self.names_of(line);
        if self.file.is_none() || self.end.offset >= self.limit {
            self.next_segment(line.seq)?;
        }
        let raw = line.bytes();
        self.buffer.extend_from_slice(raw);
        self.buffer.push(b'\n');
        self.end = JournalEnd {
            offset: self.end.offset + raw.len() as u64 + 1,
            seq: line.seq,
            sum: line.sum,
            ..self.end
        };
        if self.buffer.len() >= WRITE { self.write() } else { Ok(()) }
    }

    /// Moves the objects into the store and makes everything durable. Returns where the journal
    /// will end.
    pub(crate) fn finish(&mut self) -> Result<JournalEnd, StoreError> {
        if let Some(StagedObjects { store: packs, .. }) = &self.objects {
            self.put_objects()?;
            packs.sync().map_err(store_error)?;
        }
        self.leave_segment()?;
        self.storage.sync_dir(&self.dir).map_err(storage_error("sync", &self.dir))?;
        Ok(self.end)
    }

    /// Moves the objects that lines name into the store.
    fn put_objects(&self) -> Result<(), StoreError> {
        let Some(objects) = &self.objects else { return Ok(()) };
        for hash in objects.hashes.iter().filter(|hash| self.named.contains(*hash)) {
            let bytes = objects.packs.read(*hash).map_err(store_error)?;
            let bytes = bytes.ok_or_else(|| StoreError::Damaged {
                place: layout_path_text(&self.dir),
                reason: format!("object {hash} cannot be read back"),
            })?;
            objects.store.put(&bytes).map_err(store_error)?;
        }
        let names = self.storage.list(&self.dir).map_err(storage_error("list", &self.dir))?;
        for name in names.iter().filter(|name| SegmentName::parse(name).is_none()) {
            let path = self.dir.join(name);
            self.storage.remove(&path).map_err(storage_error("remove", &path))?;
        }
        Ok(())
    }

    fn next_segment(&mut self, first: Seq) -> Result<(), StoreError> {
        self.leave_segment()?;
        let number = self.end.segment + 1;
        let path = self.dir.join(SegmentName { number, form: SegmentForm::Plain }.file_name());
        let file =
            self.storage.open(&path, Access::CreateNew).map_err(storage_error("create", &path))?;
        let header = SegmentHeader {
            version: self.version,
            session: self.session,
            segment: number,
            first,
            prev: self.end.sum,
        };
        self.buffer.extend_from_slice(&header.write());
        self.end = JournalEnd { segment: number, offset: self.buffer.len() as u64, ..self.end };
        self.segments.push(number);
        self.file = Some((path, file));
        Ok(())
    }

    fn leave_segment(&mut self) -> Result<(), StoreError> {
        self.write()?;
        match self.file.take() {
            Some((path, file)) => file.sync().map_err(storage_error("sync", &path)),
            None => Ok(()),
        }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let Some((path, file)) = &self.file else { return Ok(()) };
        let at = self.end.offset - self.buffer.len() as u64;
        write_full(&**file, &self.buffer, at).map_err(storage_error("write", path))?;
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for ImportStage {
    fn drop(&mut self) {
        // What was imported has been moved away. If the rest cannot be removed, the next import of
        // the session does it.
        self.file = None;
        if clear_import_stage(&*self.storage, &self.dir).is_ok() {
            let _ = self.storage.remove(&self.dir);
        }
        let _ = self.storage.remove(&self.lock_path);
    }
}

/// Removes the files of a directory, durably; the directory may be missing. A symlink to one is
/// refused.
pub(crate) fn clear_import_stage(storage: &dyn Storage, dir: &Path) -> Result<(), StoreError> {
    if dir.is_symlink() {
        return Err(refused_link(dir));
    }
    let names = match storage.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(storage_error("list", dir))?,
    };
    for name in names {
        let path = dir.join(name);
        storage.remove(&path).map_err(storage_error("remove", &path))?;
    }
    // A power cut must not bring anything back.
    storage.sync_dir(dir).map_err(storage_error("sync", dir))
}
