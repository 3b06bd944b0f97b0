//! Objects in a directory that several machines may share: one file `ab/cdef…` for each.
//!
//! A file is written under a temporary name and synced before it is renamed; the directory is
//! synced after that. So an object is never seen half written, and one that was put survives a
//! power cut.

use std::collections::HashSet;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use abide_model::{ObjectHash, StoredObject};
use tempfile::NamedTempFile;

use crate::bucket::{ExistingPolicy, RequestError};
use crate::{ObjectsError, envelope};

/// The directory with a file for each store that keeps its objects here.
const STORES: &str = "stores";

/// How the names of files begin that are being written.
const TEMPORARY: &str = ".tmp";

/// A file that is being written for longer was left behind.
const REMAINS: Duration = Duration::from_secs(3600);

/// Objects in a directory.
#[derive(Debug)]
pub(crate) struct ObjectDirectory {
    root: PathBuf,
    /// Directories whose entries are known to be durable.
    durable: Mutex<HashSet<PathBuf>>,
}

impl ObjectDirectory {
    /// Opens a directory of objects; creates it if it does not exist.
    pub(crate) fn open(root: &Path) -> Result<Self, ObjectsError> {
        // Synced in any case: another process may have made it and not synced it yet.
        let made = make_object_directory(root)
            .and_then(|()| root.parent().map_or(Ok(()), sync_object_directory));
        made.map_err(|source| ObjectsError::Local {
            action: "create",
            place: root.display().to_string(),
            source,
        })?;
        Ok(Self { root: root.to_owned(), durable: Mutex::default() })
    }

    /// Whether there is an object of this name, judging by its length.
    pub(crate) fn has(&self, hash: ObjectHash) -> Result<bool, RequestError> {
        let path = self.place(hash).1;
        match fs::metadata(&path) {
            Ok(found) => Ok(found.len() >= envelope::HEADER as u64),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(directory_failure("look at", path)(error)),
        }
    }

    /// An object in its envelope, not verified.
    pub(crate) fn get(&self, hash: ObjectHash) -> Result<Option<Vec<u8>>, RequestError> {
        let path = self.place(hash).1;
        match fs::read(&path) {
            Ok(sealed) => Ok(Some(sealed)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(directory_failure("read", path)(error)),
        }
    }

    /// Stores an object in its envelope. When this returns, it is there, whole and durable.
    pub(crate) fn put(
        &self,
        hash: ObjectHash,
        sealed: &[u8],
        existing: ExistingPolicy,
    ) -> Result<(), RequestError> {
        let directory = self.place(hash).0;
        if existing == ExistingPolicy::Replace || !self.is_whole(hash)? {
            let staged = staged_directory_file(&directory, sealed)
                .map_err(directory_failure("write to", &directory))?;
            self.publish(staged, hash, existing)?;
        }
        // Also covers a process that renamed its file but has not synced yet.
        sync_object_directory(&directory).map_err(directory_failure("sync", &directory))?;
        self.keep(directory)
    }

    /// Every object, damaged ones too.
    pub(crate) fn list(&self) -> Result<Vec<StoredObject>, RequestError> {
        let mut objects = Vec::new();
        self.each_file(|first, name, metadata, _| {
            if let Ok(hash) = format!("{first}{name}").parse() {
                let age = metadata.modified().ok().and_then(|at| at.elapsed().ok());
                let age = age.unwrap_or_default();
                objects.push(StoredObject { hash, bytes: metadata.len(), age });
            }
            Ok(())
        })?;
        Ok(objects)
    }

    /// Removes an object durably, if it is there.
    pub(crate) fn remove(&self, hash: ObjectHash) -> Result<(), RequestError> {
        let (directory, path) = self.place(hash);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.map_err(directory_failure("remove", path))?,
        }
        match sync_object_directory(&directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            synced => synced.map_err(directory_failure("sync", directory)),
        }
    }

    /// Notes that a store keeps its objects here, durably.
    pub(crate) fn claim(&self, store: &str) -> Result<(), RequestError> {
        let directory = self.root.join(STORES);
        let path = directory.join(store);
        let noted = || -> io::Result<()> {
            make_object_directory(&directory)?;
            File::options().append(true).create(true).open(&path)?.sync_all()?;
            sync_object_directory(&directory)
        };
        if path.exists() {
            return Ok(());
        }
        noted().map_err(directory_failure("write", path))
    }

    /// The stores that are noted to keep their objects here.
    pub(crate) fn claims(&self) -> Result<Vec<String>, RequestError> {
        let directory = self.root.join(STORES);
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(directory_failure("list", &directory))?,
        };
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<io::Result<_>>().map_err(directory_failure("list", &directory))
    }

    /// Removes what processes that were killed have left half written.
    pub(crate) fn remove_remains(&self) -> Result<(), RequestError> {
        self.each_file(|first, name, metadata, path| {
            let is_object = format!("{first}{name}").parse::<ObjectHash>().is_ok();
            let age = metadata.modified().ok().and_then(|at| at.elapsed().ok());
            if is_object || !name.starts_with(TEMPORARY) || age.unwrap_or_default() < REMAINS {
                return Ok(());
            }
            match fs::remove_file(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                removed => removed.map_err(directory_failure("remove", path)),
            }
        })
    }

    /// Calls `each` with every file: the name of its directory, its own, what is known of it, and
    /// its path.
    fn each_file(
        &self,
        mut each: impl FnMut(&str, &str, &fs::Metadata, &Path) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        let listed = |path: &Path| -> Result<Vec<PathBuf>, RequestError> {
            let entries = fs::read_dir(path).map_err(directory_failure("list", path))?;
            let paths = entries.map(|entry| entry.map(|entry| entry.path()));
            paths.collect::<io::Result<_>>().map_err(directory_failure("list", path))
        };
        for directory in listed(&self.root)?.into_iter().filter(|path| path.is_dir()) {
            for path in listed(&directory)? {
                let names = directory.file_name().zip(path.file_name());
                let names = names.and_then(|(a, b)| Some((a.to_str()?, b.to_str()?)));
                let Some((first, name)) = names else { continue };
                match fs::metadata(&path) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(directory_failure("look at", path)(error)),
                    Ok(found) if found.is_file() => each(first, name, &found, &path)?,
                    Ok(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Makes the entry of a directory durable, whoever made it.
    fn keep(&self, directory: PathBuf) -> Result<(), RequestError> {
        let durable = || self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if !durable().contains(&directory) {
            sync_object_directory(&self.root).map_err(directory_failure("sync", &self.root))?;
            durable().insert(directory);
        }
        Ok(())
    }

    fn publish(
        &self,
        staged: NamedTempFile,
        hash: ObjectHash,
        existing: ExistingPolicy,
    ) -> Result<(), RequestError> {
        let path = self.place(hash).1;
        let staged = match existing {
            ExistingPolicy::Replace => staged,
            // Others may be reading a file stored meanwhile: a whole one is kept.
            ExistingPolicy::Check => match staged.persist_noclobber(&path) {
                Ok(_) => return Ok(()),
                Err(error)
                    if error.error.kind() == ErrorKind::AlreadyExists && self.is_whole(hash)? =>
                {
                    return Ok(());
                }
                // It is damaged, or this file system cannot rename without replacing.
                Err(error) => error.file,
            },
        };
        let renamed = staged.persist(&path).map_err(|error| error.error);
        renamed.map(drop).map_err(directory_failure("write", path))
    }

    fn is_whole(&self, hash: ObjectHash) -> Result<bool, RequestError> {
        let found = self.get(hash)?;
        Ok(found.is_some_and(|sealed| envelope::open_envelope(hash, &sealed).is_some()))
    }

    /// The directory and the file of an object.
    fn place(&self, hash: ObjectHash) -> (PathBuf, PathBuf) {
        let name = hash.to_string();
        let (first, rest) = name.split_at(2);
        let directory = self.root.join(first);
        let file = directory.join(rest);
        (directory, file)
    }
}

fn directory_failure(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> RequestError {
    move |source| RequestError::File { action, path: path.into(), source }
}

/// A synced temporary file with these bytes; deleted unless it is renamed.
fn staged_directory_file(directory: &Path, sealed: &[u8]) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    // Others who share the directory may read it, as far as the umask allows.
    builder.prefix(TEMPORARY);
    builder.permissions(Permissions::from_mode(0o666));
    let mut file = match builder.tempfile_in(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_object_directory(directory)?;
            builder.tempfile_in(directory)?
        }
        made => made?,
    };
    file.write_all(sealed)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Creates a directory and its parents, durably.
fn make_object_directory(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let Some(parent) = directory.parent() else { return Ok(()) };
    make_object_directory(parent)?;
    match fs::create_dir(directory) {
        // Another process may have made it and not synced it yet.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => made?,
    }
    sync_object_directory(parent)
}

fn sync_object_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn object() -> (ObjectHash, Vec<u8>) {
        (ObjectHash::of(b"one"), envelope::seal_envelope(b"one"))
    }

    /// The names of all files below a directory.
    fn files(directory: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn an_object_is_a_file_that_others_may_read() {
        let room = tempfile::tempdir().unwrap();
        let root = room.path().join("a/b");
        let directory = ObjectDirectory::open(&root).unwrap();
        let (hash, sealed) = object();
        directory.put(hash, &sealed, ExistingPolicy::Check).unwrap();
        let name = hash.to_string();
        let path = root.join(&name[..2]).join(&name[2..]);
        assert_eq!(files(room.path()), [path.as_path()]);
        assert_eq!(fs::read(&path).unwrap(), sealed);
        let usual = room.path().join("usual");
        fs::write(&usual, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&usual));
    }

    #[test]
    fn a_whole_object_stays_and_a_damaged_one_is_replaced() {
        let room = tempfile::tempdir().unwrap();
        let directory = ObjectDirectory::open(room.path()).unwrap();
        let (hash, sealed) = object();
        let path = directory.place(hash).1;
        directory.put(hash, &sealed, ExistingPolicy::Check).unwrap();
        let file = |path: &Path| fs::metadata(path).unwrap().ino();
        let before = file(&path);
        directory.put(hash, &sealed, ExistingPolicy::Check).unwrap();
        let again = staged_directory_file(path.parent().unwrap(), &sealed).unwrap();
        directory.publish(again, hash, ExistingPolicy::Check).unwrap();
        assert_eq!(file(&path), before);
        for existing in [ExistingPolicy::Check, ExistingPolicy::Replace] {
            fs::write(&path, &sealed[..5]).unwrap();
            assert!(!directory.has(hash).unwrap());
            directory.put(hash, &sealed, existing).unwrap();
            assert_eq!(directory.get(hash).unwrap().unwrap(), sealed);
        }
        assert_eq!(files(room.path()), [path]);
    }

    #[test]
    fn what_is_stored_meanwhile_is_looked_at() {
        let room = tempfile::tempdir().unwrap();
        let directory = ObjectDirectory::open(room.path()).unwrap();
        let (hash, sealed) = object();
        let (parent, path) = directory.place(hash);
        make_object_directory(&parent).unwrap();
        let late = staged_directory_file(&parent, &sealed).unwrap();
        fs::write(&path, b"half").unwrap();
        directory.publish(late, hash, ExistingPolicy::Check).unwrap();
        assert_eq!(directory.get(hash).unwrap().unwrap(), sealed);
        assert_eq!(files(room.path()), [path]);
    }
}
