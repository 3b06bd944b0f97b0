//! What is kept of a project by the path of its directory: a random id, and what else it was known by.
//!
//! One small JSON file for each directory, named by a hash over its path.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use abide_local::{Environment, read_small_file};
use abide_model::ObjectHash;
use serde::{Deserialize, Serialize};

use super::{CHARACTERS, stored_id};

/// The most bytes of such a file.
const MOST: u64 = 64 << 10;

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
}

/// Where it went wrong, and why.
pub(super) type Failure = (PathBuf, io::Error);

impl ByPath {
    /// Nothing is kept yet of this directory.
    pub(super) fn of(project: &Path) -> Self {
        Self { path: project.to_string_lossy().into_owned(), ..Self::default() }
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.stored.as_deref().map(stored_id).into_iter().chain(self.also.clone()).collect()
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

fn file(kept: &Path, project: &Path) -> PathBuf {
    let name = ObjectHash::of(absolute(project).as_os_str().as_encoded_bytes()).to_string();
    kept.join(name.chars().take(CHARACTERS).collect::<String>())
}

pub(super) fn read(kept: &Path, project: &Path) -> Result<Option<ByPath>, Failure> {
    let path = file(kept, project);
    match read_small_file(&path, MOST) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(entry) => Ok(Some(entry)),
            Err(error) => Err((path, error.into())),
        },
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err((path, error)),
    }
}

/// Keeps a new random id; where another process was faster, that is the one.
pub(super) fn make(kept: &Path, project: &Path) -> Result<ByPath, Failure> {
    let mut random = [0; CHARACTERS / 2];
    (Environment::default().random)(&mut random);
    let stored: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let before = read(kept, project)?;
    let mut entry = before.clone().unwrap_or_else(|| ByPath::of(project));
    if entry.stored.is_some() {
        return Ok(entry);
    }
    entry.stored = Some(stored);
    let path = file(kept, project);
    let written = whole(kept, &entry).and_then(|new| {
        let placed = match &before {
            None => match fs::hard_link(&new, &path) {
                // Not every file system has links.
                Err(error) if error.kind() != ErrorKind::AlreadyExists && !path.exists() => {
                    fs::rename(&new, &path)
                }
                _ => Ok(()),
            },
            Some(_) => fs::rename(&new, &path),
        };
        let _ = fs::remove_file(&new);
        placed.and_then(|()| sync_dir(kept))
    });
    written.map_err(|error| (path.clone(), error))?;
    let gone = || (path.clone(), io::Error::from(ErrorKind::NotFound));
    read(kept, project)?.ok_or_else(gone)
}

/// Keeps this in the place of what was kept.
pub(super) fn write(kept: &Path, project: &Path, entry: &ByPath) -> Result<(), Failure> {
    let path = file(kept, project);
    let written = whole(kept, entry).and_then(|new| {
        fs::rename(&new, &path)?;
        sync_dir(kept)
    });
    written.map_err(|error| (path, error))
}

/// Forgets a directory.
pub(super) fn remove(kept: &Path, project: &Path) {
    let _ = fs::remove_file(file(kept, project));
}

/// Writes a file of its own, durable.
fn whole(kept: &Path, entry: &ByPath) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(kept)?;
    let mut random = [0; 8];
    (Environment::default().random)(&mut random);
    let new = kept.join(format!("{:016x}.new", u64::from_le_bytes(random)));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = serde_json::to_vec(entry).map_err(io::Error::from).and_then(|mut bytes| {
        bytes.push(b'\n');
        file.write_all(&bytes)?;
        file.sync_all()
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.map(|()| new)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()?;
    // The directory itself may be new.
    dir.parent().map_or(Ok(()), |above| fs::File::open(above)?.sync_all())
}
