//! What is kept of a project by the path of its directory: a random id, and what else it was known by.
//!
//! One small JSON file for each directory, named by a hash over its path.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use abide_local::{
    Access, Disk, Environment, Storage, Trust, check_directory, make_parents, read_full, write_full,
};
use abide_model::ObjectHash;
use serde::{Deserialize, Serialize};

use super::{CHARACTERS, stored_id};

/// The most bytes of such a file.
const MOST: usize = 64 << 10;
/// The most ids that git's words made which are kept of one repository.
const MOST_USED: usize = 128;

/// A directory of such files.
#[derive(Debug, Clone)]
pub(super) struct Shelf {
    pub(super) dir: PathBuf,
    /// It stands in a store that is in use: it is believed as that is, whoever owns it.
    pub(super) of_store: bool,
}

impl Shelf {
    /// Is it what its place says, and may nobody else write to it? None where it is not there.
    fn check(&self) -> io::Result<Option<()>> {
        let found = match fs::symlink_metadata(&self.dir) {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            found => found?,
        };
        let refused = match check_directory(&self.dir, &Trust::of_process()) {
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

    /// Is the directory that it stands in there?
    pub(super) fn has_place(&self) -> bool {
        self.dir.parent().is_some_and(Path::is_dir)
    }
}

/// What is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ByPath {
    /// The directory, for people.
    path: String,
    /// What its id is made of, where nothing else tells it from others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stored: Option<String>,
    /// Ids that it had before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) also: Vec<String>,
    /// Which repository was there when something was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repository: Option<String>,
    /// What that one was known by, the newest first. Another one in its place is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    used: Vec<String>,
}

/// Where it went wrong, and why.
pub(super) type Failure = (PathBuf, io::Error);

impl ByPath {
    /// Nothing is kept yet of this directory.
    pub(super) fn of(project: &Path) -> Self {
        Self { path: project.to_string_lossy().into_owned(), ..Self::default() }
    }

    /// All that is known of a directory that is gone.
    pub(super) fn ids(&self) -> Vec<String> {
        let stored = self.stored.as_deref().map(stored_id);
        stored.into_iter().chain(self.used.clone()).chain(self.also.clone()).collect()
    }

    /// What this repository was known by.
    pub(super) fn used(&self, repository: Option<&str>) -> &[String] {
        let same = repository.is_some() && repository == self.repository.as_deref();
        if same { &self.used } else { &[] }
    }

    /// Keeps what this repository is known by, the newest first.
    pub(super) fn mark_used(&mut self, repository: &str, ids: &[String]) {
        let before = self.used(Some(repository));
        let older = before.iter().filter(|id| !ids.contains(id));
        let used = ids.iter().chain(older).take(MOST_USED).cloned().collect();
        self.used = used;
        self.repository = Some(repository.to_owned());
    }
}

/// A path that need not be there any more, as the file system has the part that is.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = |known: &Path| {
        let rest = path.strip_prefix(known).ok()?;
        Some(known.canonicalize().ok()?.join(rest).components().collect())
    };
    path.ancestors().find_map(there).unwrap_or(path)
}

fn file(kept: &Shelf, project: &Path) -> PathBuf {
    let name = ObjectHash::of(absolute(project).as_os_str().as_encoded_bytes()).to_string();
    kept.dir.join(name.chars().take(CHARACTERS).collect::<String>())
}

/// What is kept of a directory. Nothing that others may have written is believed.
pub(super) fn read(kept: &Shelf, project: &Path) -> Result<Option<ByPath>, Failure> {
    match kept.check() {
        Ok(Some(())) => read_at(&file(kept, project)),
        Ok(None) | Err(_) => Ok(None),
    }
}

fn read_at(path: &Path) -> Result<Option<ByPath>, Failure> {
    let read = || -> io::Result<ByPath> {
        // Through no link.
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

/// Keeps a random id where there is none; where another process was faster, that is the one.
pub(super) fn make(
    kept: &Shelf,
    project: &Path,
    known: Option<&ByPath>,
) -> Result<ByPath, Failure> {
    let mut random = [0; CHARACTERS / 2];
    (Environment::default().random)(&mut random);
    let stored: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    update(kept, project, known, |entry| {
        entry.stored.get_or_insert_with(|| stored.clone());
    })
}

/// Changes what is kept of a directory, or what is known of it from elsewhere. One after the other.
pub(super) fn update(
    kept: &Shelf,
    project: &Path,
    known: Option<&ByPath>,
    change: impl Fn(&mut ByPath),
) -> Result<ByPath, Failure> {
    let path = file(kept, project);
    let failed = |error| (path.clone(), error);
    make_parents(&path).map_err(|error| failed(io::Error::other(error)))?;
    kept.check().map_err(failed)?;
    let _lock = lock(&kept.dir).map_err(failed)?;
    loop {
        let before = read_at(&path)?;
        let start = before.as_ref().or(known).cloned();
        let mut entry = start.unwrap_or_else(|| ByPath::of(project));
        change(&mut entry);
        if before.as_ref() == Some(&entry) {
            return Ok(entry);
        }
        let new = whole(&kept.dir, &entry).map_err(failed)?;
        let placed = place(&new, &path, before.is_some());
        let _ = fs::remove_file(&new);
        match placed {
            // Where locks are missing too.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && before.is_none() => {}
            placed => {
                placed.and_then(|()| sync_dir(&kept.dir)).map_err(failed)?;
                return Ok(entry);
            }
        }
    }
}

fn place(new: &Path, path: &Path, replace: bool) -> io::Result<()> {
    if replace {
        return fs::rename(new, path);
    }
    match fs::hard_link(new, path) {
        // Not every file system has links. There the lock tells who is first.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => fs::rename(new, path),
        linked => linked,
    }
}

/// Lets one after the other change what is in a directory. Some file systems of a network lock no
/// directories; they have links.
fn lock(dir: &Path) -> io::Result<File> {
    let file = File::open(dir)?;
    let exclusive = rustix::fs::FlockOperation::LockExclusive;
    while rustix::fs::flock(&file, exclusive) == Err(rustix::io::Errno::INTR) {}
    Ok(file)
}

/// Forgets a directory, durably.
pub(super) fn remove(kept: &Shelf, project: &Path) -> Result<(), Failure> {
    let path = file(kept, project);
    if !matches!(kept.check(), Ok(Some(()))) {
        // Nothing in it counts.
        return Ok(());
    }
    match Disk.remove(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| Disk.sync_dir(&kept.dir)).map_err(|error| (path, error)),
    }
}

/// Writes a file of its own, durable. It is that of who owns the directory.
fn whole(dir: &Path, entry: &ByPath) -> io::Result<PathBuf> {
    let mut bytes = serde_json::to_vec(entry)?;
    bytes.push(b'\n');
    if bytes.len() > MOST {
        return Err(io::Error::new(ErrorKind::InvalidData, "it would be too long"));
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

fn sync_dir(dir: &Path) -> io::Result<()> {
    Disk.sync_dir(dir)?;
    // The directory itself may be new, made by another process.
    dir.parent().map_or(Ok(()), |above| Disk.sync_dir(above))
}
