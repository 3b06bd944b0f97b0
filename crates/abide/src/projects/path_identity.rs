//! Project data kept by the path of the directory: a random id, and other ids of the project.
//!
//! One small JSON file per directory, named by a hash of its path.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use abide_local::{
    Access, Disk, Environment, Storage, TrustPolicy, check_directory, make_parents, read_full,
    write_full,
};
use abide_model::ObjectHash;
use serde::{Deserialize, Serialize};

use super::{CHARACTERS, stored_id};

/// Maximum size of such a file.
const MOST: usize = 64 << 10;
/// Maximum number of git-derived ids kept per repository.
const MOST_USED: usize = 128;

/// A directory of such files.
#[derive(Debug, Clone)]
pub(super) struct IdentityDirectory {
    pub(super) dir: PathBuf,
    /// True if it is in the store in use: it is trusted like the store, whoever owns it.
    pub(super) of_store: bool,
}

impl IdentityDirectory {
    /// Checks that it is a real directory that nobody else can write to. `None` if it does not
    /// exist.
    fn check(&self) -> io::Result<Option<()>> {
        let found = match fs::symlink_metadata(&self.dir) {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            found => found?,
        };
        let refused = match check_directory(&self.dir, &TrustPolicy::of_process()) {
            Ok(()) => return Ok(Some(())),
            Err(refused) => io::Error::new(ErrorKind::PermissionDenied, refused.to_string()),
        };
        let above = self.dir.parent().filter(|_| self.of_store).and_then(|dir| dir.metadata().ok());
        let as_store = above.is_some_and(|above| above.uid() == found.uid());
        if found.is_dir() && as_store && found.mode() & 0o022 == 0 {
            return Ok(Some(()));
        }
        Err(refused)
    }

    /// Returns true if its parent directory exists.
    pub(super) fn has_place(&self) -> bool {
        self.dir.parent().is_some_and(Path::is_dir)
    }
}

/// The content of such a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PathIdentity {
    /// The directory, for display.
    path: String,
    /// The random part of its id, if nothing else identifies it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stored: Option<String>,
    /// Earlier ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) also: Vec<String>,
    /// The repository that was there when something was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repository: Option<String>,
    /// The ids of that repository, newest first. They do not apply to another repository in its
    /// place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    used: Vec<String>,
}

/// The path where it failed, and the cause.
pub(super) type PathFailure = (PathBuf, io::Error);

impl PathIdentity {
    /// An empty entry for this directory.
    pub(super) fn of(project: &Path) -> Self {
        Self { path: project.to_string_lossy().into_owned(), ..Self::default() }
    }

    /// All ids of a directory that is gone.
    pub(super) fn ids(&self) -> Vec<String> {
        let stored = self.stored.as_deref().map(stored_id);
        stored.into_iter().chain(self.used.clone()).chain(self.also.clone()).collect()
    }

    /// The ids of this repository.
    pub(super) fn used(&self, repository: Option<&str>) -> &[String] {
        let same = repository.is_some() && repository == self.repository.as_deref();
        if same { &self.used } else { &[] }
    }

    /// Adds the ids of this repository, newest first.
    pub(super) fn mark_used(&mut self, repository: &str, ids: &[String]) {
        let before = self.used(Some(repository));
        let older = before.iter().filter(|id| !ids.contains(id));
        let used = ids.iter().chain(older).take(MOST_USED).cloned().collect();
        self.used = used;
        self.repository = Some(repository.to_owned());
    }
}

/// The absolute form of a path that may no longer exist; the existing part is canonical.
pub(super) fn absolute_project_path(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = |known: &Path| {
        let rest = path.strip_prefix(known).ok()?;
        Some(known.canonicalize().ok()?.join(rest).components().collect())
    };
    path.ancestors().find_map(there).unwrap_or(path)
}

fn identity_file(kept: &IdentityDirectory, project: &Path) -> PathBuf {
    let name =
        ObjectHash::of(absolute_project_path(project).as_os_str().as_encoded_bytes()).to_string();
    kept.dir.join(name.chars().take(CHARACTERS).collect::<String>())
}

/// Reads the entry of a directory. Nothing that others could have written is trusted.
pub(super) fn read_path_identity(
    kept: &IdentityDirectory,
    project: &Path,
) -> Result<Option<PathIdentity>, PathFailure> {
    match kept.check() {
        Ok(Some(())) => read_path_identity_at(&identity_file(kept, project)),
        Ok(None) | Err(_) => Ok(None),
    }
}

fn read_path_identity_at(path: &Path) -> Result<Option<PathIdentity>, PathFailure> {
    let read = || -> io::Result<PathIdentity> {
        // Does not follow links.
        let file = Disk.open(path, Access::Read)?;
        let mut bytes = vec![0; MOST];
        let read = read_full(&*file, &mut bytes, 0)?;
        Ok(serde_json::from_slice(bytes.get(..read).unwrap_or_default())?)
    };
    match read() {
        Ok(entry) => Ok(Some(entry)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err((path.to_owned(), error)),
    }
}

/// Creates a random id if there is none; if another process was faster, uses that one.
pub(super) fn make_path_identity(
    kept: &IdentityDirectory,
    project: &Path,
    known: Option<&PathIdentity>,
) -> Result<PathIdentity, PathFailure> {
    let mut random = [0; CHARACTERS / 2];
    (Environment::default().random)(&mut random);
    let stored: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    update_path_identity(kept, project, known, |entry| {
        entry.stored.get_or_insert_with(|| stored.clone());
    })
}

/// Updates the entry of a directory, or creates it from what is known elsewhere. Updates are
/// serialised.
pub(super) fn update_path_identity(
    kept: &IdentityDirectory,
    project: &Path,
    known: Option<&PathIdentity>,
    change: impl Fn(&mut PathIdentity),
) -> Result<PathIdentity, PathFailure> {
    let path = identity_file(kept, project);
    let failed = |error| (path.clone(), error);
    make_parents(&path).map_err(|error| failed(io::Error::other(error)))?;
    kept.check().map_err(failed)?;
    let _lock = lock_identity_directory(&kept.dir).map_err(failed)?;
    loop {
        let before = read_path_identity_at(&path)?;
        let start = before.as_ref().or(known).cloned();
        let mut entry = start.unwrap_or_else(|| PathIdentity::of(project));
        change(&mut entry);
        if before.as_ref() == Some(&entry) {
            return Ok(entry);
        }
        let new = write_identity_file(&kept.dir, &entry).map_err(failed)?;
        let placed = place_identity_file(&new, &path, before.is_some());
        let _ = fs::remove_file(&new);
        match placed {
            // For file systems without locks too.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && before.is_none() => {}
            placed => {
                placed.and_then(|()| sync_identity_directory(&kept.dir)).map_err(failed)?;
                return Ok(entry);
            }
        }
    }
}

fn place_identity_file(new: &Path, path: &Path, replace: bool) -> io::Result<()> {
    if replace {
        return fs::rename(new, path);
    }
    match fs::hard_link(new, path) {
        // Not every file system has hard links. There the lock decides who is first.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => fs::rename(new, path),
        linked => linked,
    }
}

/// Serialises changes in a directory. Some network file systems cannot lock directories; those have
/// hard links.
fn lock_identity_directory(dir: &Path) -> io::Result<File> {
    let file = File::open(dir)?;
    let exclusive = rustix::fs::FlockOperation::LockExclusive;
    while rustix::fs::flock(&file, exclusive) == Err(rustix::io::Errno::INTR) {}
    Ok(file)
}

/// Removes the entry of a directory, durably.
pub(super) fn remove_path_identity(
    kept: &IdentityDirectory,
    project: &Path,
) -> Result<(), PathFailure> {
    let path = identity_file(kept, project);
    if !matches!(kept.check(), Ok(Some(()))) {
        // Its contents are not trusted anyway.
        return Ok(());
    }
    match Disk.remove(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| Disk.sync_dir(&kept.dir)).map_err(|error| (path, error)),
    }
}

/// Writes a new file durably. It gets the owner of the directory.
fn write_identity_file(dir: &Path, entry: &PathIdentity) -> io::Result<PathBuf> {
    let mut bytes = serde_json::to_vec(entry)?;
    bytes.push(b'\n');
    if bytes.len() > MOST {
        return Err(io::Error::new(ErrorKind::InvalidData, "the file would be too large"));
    }
    let mut random = [0; 8];
    (Environment::default().random)(&mut random);
    let new = dir.join(format!("{:016x}.new", u64::from_le_bytes(random)));
    let file = Disk.open(&new, Access::CreateNew)?;
    let written = write_full(&*file, &bytes, 0).and_then(|()| file.sync());
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.map(|()| new)
}

fn sync_identity_directory(dir: &Path) -> io::Result<()> {
    Disk.sync_dir(dir)?;
    // The directory itself may have just been created by another process.
    dir.parent().map_or(Ok(()), |above| Disk.sync_dir(above))
}
