//! Decides whose stores are used. A store says which commands were run and where files go, so one
//! that is found rather than named must belong to the user. Compare git's `safe.directory`.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::store_place::StorePlaceError;

/// Root can change everything on the machine anyway.
const ROOT: u32 = 0;

/// Whose stores are used when they are found. A store that the user names is used whoever owns it.
#[derive(Debug, Clone)]
pub struct TrustPolicy {
    /// Users whose files are trusted.
    users: Vec<u32>,
    /// Projects and stores that are trusted whoever owns them.
    listed: Vec<PathBuf>,
}

impl TrustPolicy {
    /// Trusts files of this user and of root; for root under `sudo`, also those of the caller.
    #[must_use]
    pub fn of_user(user: u32, caller: Option<u32>) -> Self {
        let caller = caller.filter(|_| user == ROOT);
        Self { users: [user, ROOT].into_iter().chain(caller).collect(), listed: Vec::new() }
    }

    /// Trusts the user that this process runs as.
    #[must_use]
    pub fn of_process() -> Self {
        let caller = std::env::var("SUDO_UID").ok().and_then(|caller| caller.parse().ok());
        Self::of_user(rustix::process::geteuid().as_raw(), caller)
    }

    /// Also trusts these directories of projects or stores, whoever owns them.
    #[must_use]
    pub fn with_listed(mut self, directories: Vec<PathBuf>) -> Self {
        self.listed = directories;
        self
    }

    /// Whether this directory is listed.
    #[must_use]
    pub fn lists(&self, dir: &Path) -> bool {
        let real = |dir: &Path| dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        !self.listed.is_empty() && self.listed.iter().any(|listed| real(listed) == real(dir))
    }

    /// Refuses a file that another user owns.
    pub(crate) fn check_owner(&self, path: &Path, found: &Metadata) -> Result<(), StorePlaceError> {
        let owner = found.uid();
        if self.users.contains(&owner) {
            return Ok(());
        }
        Err(StorePlaceError::Foreign { path: path.to_owned(), owner })
    }

    /// Refuses a file that another user owns or can write. A group with the owner's number counts
    /// as the owner's own: systems that give each user a group make files group-writable by
    /// default.
    pub(crate) fn check(&self, path: &Path, found: &Metadata) -> Result<(), StorePlaceError> {
        self.check_owner(path, found)?;
        let own_group = found.gid() == found.uid();
        let others = if own_group { 0o002 } else { 0o022 };
        if found.mode() & others == 0 {
            return Ok(());
        }
        Err(StorePlaceError::Writable { path: path.to_owned(), mode: found.mode() & 0o7777 })
    }
}

/// Trusts the user that this process runs as.
impl Default for TrustPolicy {
    fn default() -> Self {
        Self::of_process()
    }
}
