//! Values that are known to be secret: those of environment variables and of `.env` files whose
//! names say so.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use abide_secrets::{Literals, is_secret_name, is_secret_value, read_dotenv};
use rustix::fs::OFlags;

/// Larger `.env` files are not read.
const DOTENV_BYTES: u64 = 1 << 20;
/// The most `.env` files of a workspace that are read.
const DOTENV_FILES: usize = 64;
/// With so many values, no further file is read.
const VALUES: usize = 2_000;
/// The rule that stands in the marks of these values.
const LABEL: &str = "env";

/// Values that are known to be secret.
#[derive(Clone, Default)]
pub struct KnownSecrets {
    values: BTreeSet<String>,
    workspaces: BTreeSet<PathBuf>,
    unread: BTreeSet<PathBuf>,
}

impl std::fmt::Debug for KnownSecrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "KnownSecrets({} values)", self.values.len())
    }
}

impl KnownSecrets {
    /// Those among these environment variables.
    pub fn of_variables(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut known = Self::default();
        for (name, value) in variables {
            known.add(&name.to_string_lossy(), &value.to_string_lossy());
        }
        known
    }

    /// Adds those of the `.env` files at the root of a workspace, as they are now. Returns whether
    /// there are values that were not known.
    pub fn add_workspace(&mut self, dir: &Path) -> bool {
        let before = (self.values.len(), self.workspaces.len());
        let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
        let is_dotenv = |name: &[u8]| name == b".env" || name.starts_with(b".env.");
        let found = entries.filter(|entry| is_dotenv(entry.file_name().as_encoded_bytes()));
        // A cloned repository may bring any number of them.
        let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
        paths.sort_unstable();
        self.unread.extend(paths.drain(DOTENV_FILES.min(paths.len())..));
        for path in paths {
            match read_small_file(&path) {
                Ok(_) if self.values.len() >= VALUES => {
                    self.unread.insert(path);
                }
                Ok(text) => {
                    for one in read_dotenv(&String::from_utf8_lossy(&text)) {
                        self.add(&one.name, &one.value);
                    }
                }
                Err(_) => {
                    self.unread.insert(path);
                }
            }
        }
        let stands_in = |value: &String| dir.to_string_lossy().contains(value.as_str());
        // Only such a workspace changes what is looked for.
        if self.values.iter().any(stands_in) {
            self.workspaces.insert(dir.to_owned());
        }
        before != (self.values.len(), self.workspaces.len())
    }

    fn add(&mut self, name: &str, value: &str) {
        let has_room = self.values.len() < VALUES;
        if has_room && is_secret_name(name) && is_secret_value(value) {
            self.values.insert(value.to_owned());
        }
    }

    /// `.env` files that could not be read.
    pub fn unread(&self) -> impl Iterator<Item = &Path> {
        self.unread.iter().map(PathBuf::as_path)
    }

    /// The values that are not allowed, for a redactor. One that stands in the path of a workspace is left
    /// out: it is no secret there, and the path could not be read any more.
    #[must_use]
    pub fn literals(&self, allowed: &[String]) -> Literals {
        let mut literals = Literals::default();
        for value in self.values.iter().filter(|value| !allowed.contains(value)) {
            let in_path = |dir: &PathBuf| dir.to_string_lossy().contains(value.as_str());
            if !self.workspaces.iter().any(in_path) {
                literals.add(LABEL, value);
            }
        }
        literals
    }
}

/// The content of a regular file, or of the one that a link leads to, unless it is too large. A pipe is not waited
/// for.
fn read_small_file(path: &Path) -> io::Result<Vec<u8>> {
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = Vec::new();
    file.take(DOTENV_BYTES + 1).read_to_end(&mut text)?;
    let is_small = text.len() as u64 <= DOTENV_BYTES;
    if is_small { Ok(text) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_from_variables_and_dotenv_files_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".env"), "DB_PASSWORD=correct-horse-1\nPORT=8080808080\n")
            .unwrap();
        fs::write(dir.path().join(".env.local"), "API_TOKEN='correct-horse-2'\n").unwrap();
        fs::write(dir.path().join("x.env"), "API_TOKEN=correct-horse-9\n").unwrap();
        fs::create_dir(dir.path().join(".env.d")).unwrap();
        let variables = [("A_TOKEN", "correct-horse-3"), ("HOME", "correct-horse-4")];
        let mut known =
            KnownSecrets::of_variables(variables.map(|(name, value)| (name.into(), value.into())));
        assert_eq!(known.literals(&[]).len(), 1);
        assert!(known.add_workspace(dir.path()));
        assert!(!known.add_workspace(dir.path()), "nothing is new");
        assert_eq!(known.literals(&[]).len(), 3);
        assert_eq!(known.unread().count(), 1, "a directory");
        assert_eq!(format!("{known:?}"), "KnownSecrets(3 values)");
        let inner = dir.path().join("correct-horse-3");
        assert!(known.add_workspace(&inner), "it stands in a path");
        assert_eq!(known.literals(&[]).len(), 2);
    }
}
