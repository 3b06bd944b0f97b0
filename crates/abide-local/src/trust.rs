//! Whose stores are obeyed. A store says which commands were run and where files go, so one that is
//! found rather than named must be the user's own, as git has it with its `safe.directory`.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::place::PlaceError;

/// Root, to whom everything on a machine is open anyway.
const ROOT: u32 = 0;

/// Whose stores are used where they are found. One that the user names is used whoever owns it.
#[derive(Debug, Clone)]
pub struct Trust {
    /// The users whose files are believed.
    users: Vec<u32>,
    /// Projects and stores that are used whoever owns them.
    listed: Vec<PathBuf>,
}

impl Trust {
    /// What is this user's or root's is believed. For root under `sudo`, what is the caller's too.
    #[must_use]
    pub fn of_user(user: u32, caller: Option<u32>) -> Self {
        let caller = caller.filter(|_| user == ROOT);
        Self { users: [user, ROOT].into_iter().chain(caller).collect(), listed: Vec::new() }
    }

    /// That of the user that this process acts as.
    #[must_use]
    pub fn of_process() -> Self {
        let caller = std::env::var("SUDO_UID").ok().and_then(|caller| caller.parse().ok());
        Self::of_user(rustix::process::geteuid().as_raw(), caller)
    }

    /// With directories, of projects or of stores, that are used whoever owns them.
    #[must_use]
    pub fn with_listed(mut self, directories: Vec<PathBuf>) -> Self {
        self.listed = directories;
        self
    }

    /// Is this directory listed?
    #[must_use]
    pub fn lists(&self, dir: &Path) -> bool {
        let real = |dir: &Path| dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        !self.listed.is_empty() && self.listed.iter().any(|listed| real(listed) == real(dir))
    }

    /// Refuses what another user owns.
    pub(crate) fn check_owner(&self, path: &Path, found: &Metadata) -> Result<(), PlaceError> {
        let owner = found.uid();
        if self.users.contains(&owner) {
            return Ok(());
        }
        Err(PlaceError::Foreign { path: path.to_owned(), owner })
    }

    /// Refuses what another user owns or may write. A group of the same number as the owner is the
    /// owner's own: systems that give each user a group let it write by default.
    pub(crate) fn check(&self, path: &Path, found: &Metadata) -> Result<(), PlaceError> {
        self.check_owner(path, found)?;
        let own_group = found.gid() == found.uid();
        let others = if own_group { 0o002 } else { 0o022 };
        if found.mode() & others == 0 {
            return Ok(());
        }
        Err(PlaceError::Writable { path: path.to_owned(), mode: found.mode() & 0o7777 })
    }
}

/// That of the user that this process acts as.
impl Default for Trust {
    fn default() -> Self {
        Self::of_process()
    }
}
