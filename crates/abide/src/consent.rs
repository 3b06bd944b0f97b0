//! Notes of what this machine started and what its user accepted, in the user's state directory.
//!
//! A store may come from anybody: a clone, a bundle, a copy, another user's directory. So nothing
//! in a store can prove who started a run or a rewind. Notes are kept outside the store and are
//! bound to its location, its random id, the session, and what was started. A store that was
//! swapped, or a command planted in it, has no note.
//!
//! ```text
//! runs/HASH       this run was begun here
//! rewinds/HASH    this rewind was begun here, in this directory; removed when its files are done
//! accepted/HASH   the user accepted that this project's store is there, that this command is run there, or
//!                 that what this project's file says about runs is done there
//! ```
//!
//! Each note is a small file, durable before the operation it describes has any effect. The names
//! are BLAKE3 hashes, so they reveal no secrets of a URL. Directories are created with mode 0700,
//! files with 0600. A state directory that belongs to another user, or that others can write to, is
//! not used.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_local::{Access, Disk, Environment, Storage, StoreLocation, read_full, write_full};
use abide_model::{ObjectHash, Rewind, RunStart, Seq, SessionId};

use crate::{Error, Store};

/// The kinds of notes; each has its own directory.
const RUNS: &str = "runs";
const REWINDS: &str = "rewinds";
const ACCEPTED: &str = "accepted";

/// Notes of what this machine started and what its user accepted. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Consent {
    dir: Option<PathBuf>,
    storage: Arc<dyn Storage>,
    owner: StateDirOwner,
}

/// Who must own the state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StateDirOwner {
    /// The effective user.
    User,
    /// A simulated disk has no users.
    #[cfg(test)]
    Anybody,
}

/// A rewind that this machine started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RewindConsent {
    /// As recorded, except for its position in the journal.
    rewind: Rewind,
    /// The directory whose files it restores.
    pub(crate) root: PathBuf,
}

impl RewindConsent {
    pub(crate) fn of(rewind: &Rewind, root: &Path) -> Self {
        Self { rewind: consent_without_position(rewind), root: root.to_owned() }
    }

    /// Returns true if it is the same rewind.
    pub(crate) fn is(&self, rewind: &Rewind) -> bool {
        self.rewind == consent_without_position(rewind)
    }

    /// One line of JSON, then the bytes of the directory's path.
    fn write(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(&self.rewind).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(self.root.as_os_str().as_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let (json, root) = bytes.split_at_checked(end)?;
        let root = PathBuf::from(OsStr::from_bytes(root.strip_prefix(b"\n")?));
        let rewind = serde_json::from_slice(json).ok()?;
        root.is_absolute().then_some(Self { rewind, root })
    }
}

/// Its position is known only once it is recorded, after the note is written.
fn consent_without_position(rewind: &Rewind) -> Rewind {
    Rewind { to: Seq::ZERO, ..rewind.clone() }
}

/// What a run takes from the file of a project, which the user must have accepted.
#[derive(Debug, Clone, Copy)]
pub struct ProjectRunTerms<'a> {
    /// The directory that holds the file.
    pub project: &'a Path,
    /// The directory in which commands would be run: a relative one is another program elsewhere.
    pub directory: &'a Path,
    /// What the run takes from the file, and what the names in it stand for: the command with its
    /// arguments, the check, the options.
    pub text: &'a str,
}

impl Default for Consent {
    /// No state directory: nothing can be noted.
    fn default() -> Self {
        Self::at(None)
    }
}

impl Consent {
    /// Notes in the user's state directory, which is created with the first note. With `None`,
    /// nothing can be noted.
    #[must_use]
    pub fn at(dir: Option<PathBuf>) -> Self {
        // A relative path would be a different one in every directory.
        let dir = dir.filter(|dir| dir.is_absolute());
        Self { dir, storage: Arc::new(Disk), owner: StateDirOwner::User }
    }

    /// Returns true if the user accepted this store location for the project. Another location must
    /// be accepted anew.
    #[must_use]
    pub fn is_accepted(&self, project: &Path, place: &StoreLocation) -> bool {
        let (name, text) = acceptance_consent(project, place);
        self.get(ACCEPTED, &name).is_some_and(|noted| noted == text)
    }

    /// Notes durably that the user accepts it. Returns false if there is nowhere to note it.
    pub fn accept(&self, project: &Path, place: &StoreLocation) -> Result<bool, Error> {
        let (name, text) = acceptance_consent(project, place);
        self.put(ACCEPTED, &name, &text)
    }

    /// Returns true if the user accepted that this command, which a file of the project or a task
    /// names, is run in this directory. Another command must be accepted anew.
    #[must_use]
    pub fn is_command_accepted(&self, directory: &Path, command: &str) -> bool {
        let (name, text) = accepted_command(directory, command);
        self.get(ACCEPTED, &name).is_some_and(|noted| noted == text)
    }

    /// Notes durably that the user accepts it. Returns false if there is nowhere to note it.
    pub fn accept_command(&self, directory: &Path, command: &str) -> Result<bool, Error> {
        let (name, text) = accepted_command(directory, command);
        self.put(ACCEPTED, &name, &text)
    }

    /// Returns true if the user accepted what a run takes from the file of a project. Other terms
    /// must be accepted anew.
    #[must_use]
    pub fn is_run_config_accepted(&self, terms: &ProjectRunTerms<'_>) -> bool {
        let (name, noted) = accepted_run_config(terms);
        self.get(ACCEPTED, &name).is_some_and(|there| there == noted)
    }

    /// Notes durably that the user accepts it. Returns false if there is nowhere to note it.
    pub fn accept_run_config(&self, terms: &ProjectRunTerms<'_>) -> Result<bool, Error> {
        let (name, noted) = accepted_run_config(terms);
        self.put(ACCEPTED, &name, &noted)
    }

    /// Writes a note durably. Returns false if there is nowhere to write it.
    fn put(&self, sort: &str, name: &str, bytes: &[u8]) -> Result<bool, Error> {
        let Some(dir) = self.writable(sort)? else { return Ok(false) };
        let path = dir.join(name);
        let mut random = [0; 8];
        (Environment::default().random)(&mut random);
        // A unique name: several processes may write the same note.
        let temporary = dir.join(format!("{name}.{:016x}.new", u64::from_le_bytes(random)));
        let written = self.storage.open(&temporary, Access::CreateNew).and_then(|file| {
            write_full(&*file, bytes, 0)?;
            file.sync()?;
            self.storage.rename(&temporary, &path)?;
            self.storage.sync_dir(&dir)
        });
        match written {
            Ok(()) => Ok(true),
            Err(source) => {
                let _ = self.storage.remove(&temporary);
                if is_no_place_for_consent(&source) {
                    Ok(false)
                } else {
                    Err(Error::file("write", &path)(source))
                }
            }
        }
    }

    fn get(&self, sort: &str, name: &str) -> Option<Vec<u8>> {
        let dir = self.dir.as_ref().filter(|dir| self.is_own(dir))?.join(sort);
        let file = self.storage.open(&dir.join(name), Access::Read).ok()?;
        if !self.is_own(&dir) {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(file.len().ok()?).ok()?];
        let read = read_full(&*file, &mut bytes, 0).ok()?;
        bytes.truncate(read);
        Some(bytes)
    }

    /// Removes a note. A leftover has no effect.
    fn remove(&self, sort: &str, name: &str) {
        if let Some(dir) = self.dir.as_ref().filter(|dir| self.is_own(dir)) {
            let _ = self.storage.remove(&dir.join(sort).join(name));
        }
    }

    /// Removes the notes of all runs of a session.
    fn remove_runs(&self, session: SessionId) {
        let Some(dir) = self.dir.as_ref().filter(|dir| self.is_own(dir)) else { return };
        let text = run_consent_text(session);
        for name in self.storage.list(&dir.join(RUNS)).unwrap_or_default() {
            if self.get(RUNS, &name).is_some_and(|noted| noted == text) {
                self.remove(RUNS, &name);
            }
        }
    }

    /// The directory of a kind of notes, created if it is missing; `None` if it cannot be created
    /// or is not private to this user.
    fn writable(&self, sort: &str) -> Result<Option<PathBuf>, Error> {
        let dir = self.dir.as_ref().filter(|dir| self.may_make(dir));
        let Some(dir) = dir else { return Ok(None) };
        let sorted = dir.join(sort);
        match self.make(&sorted) {
            Err(source) if is_no_place_for_consent(&source) => return Ok(None),
            made => made.map_err(Error::file("make", &sorted))?,
        }
        Ok(self.is_own(dir).then_some(sorted))
    }

    /// Creates a directory and its parents durably.
    fn make(&self, dir: &Path) -> io::Result<()> {
        let Some(above) = dir.parent() else { return Ok(()) };
        match self.storage.make_dir(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.make(above)?;
                self.storage.make_dir(dir)?;
            }
            made => made?,
        }
        self.storage.sync_dir(above)
    }

    /// Returns true if the directory exists and only this user can change its contents.
    fn is_own(&self, dir: &Path) -> bool {
        match self.owner {
            StateDirOwner::User => is_private(dir).unwrap_or(false),
            #[cfg(test)]
            StateDirOwner::Anybody => true,
        }
    }

    /// Returns true if the existing part of the path belongs to this user or the system. Root must
    /// not create directories in the home of the user whose `HOME` it was given, nor a missing
    /// home.
    fn may_make(&self, dir: &Path) -> bool {
        match self.owner {
            StateDirOwner::User => may_make_consent_dir(dir),
            #[cfg(test)]
            StateDirOwner::Anybody => true,
        }
    }
}

/// Returns true if there is no place to write to, as opposed to a failed write.
fn is_no_place_for_consent(error: &io::Error) -> bool {
    let nowhere = [
        ErrorKind::PermissionDenied,
        ErrorKind::ReadOnlyFilesystem,
        ErrorKind::NotADirectory,
        ErrorKind::AlreadyExists,
        ErrorKind::NotFound,
    ];
    nowhere.contains(&error.kind())
}

/// Returns true if it is a directory, not a link, that belongs to the effective user and nobody
/// else can write to.
pub(crate) fn is_private(dir: &Path) -> io::Result<bool> {
    let there = std::fs::symlink_metadata(dir)?;
    let own = there.uid() == rustix::process::geteuid().as_raw();
    Ok(there.is_dir() && own && there.mode() & 0o022 == 0)
}

fn may_make_consent_dir(dir: &Path) -> bool {
    let mut below_root = dir.ancestors().filter(|dir| dir.parent().is_some());
    let there = below_root.find_map(|dir| std::fs::metadata(dir).ok());
    let user = rustix::process::geteuid().as_raw();
    there.is_some_and(|there| there.uid() == user || there.uid() == 0)
}

/// Returns true if a directory of the user may hold this machine's derived data. Root does not use
/// the directory of the user whose `HOME` it was given.
pub(crate) fn is_usable(dir: &Path) -> bool {
    match std::fs::symlink_metadata(dir) {
        Ok(_) => is_private(dir).unwrap_or(false),
        Err(_) => dir.is_absolute() && may_make_consent_dir(dir),
    }
}

/// The name of a note: a hash over everything it is bound to.
fn consent_name(parts: &[&[u8]]) -> String {
    let mut bytes = Vec::new();
    for part in parts {
        // With its length, so that the boundaries between parts are unambiguous.
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    ObjectHash::of(&bytes).to_string()
}

/// The note that a project's store location is accepted.
fn acceptance_consent(project: &Path, place: &StoreLocation) -> (String, Vec<u8>) {
    let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
    let project = project.as_os_str().as_bytes();
    let sort: &[u8] = match place {
        StoreLocation::Files(_) => b"files",
        StoreLocation::Shared(_) => b"shared",
    };
    let name = consent_name(&[b"abide accepted 1", project, sort, place.reveal().as_bytes()]);
    (name, [project, b"\n"].concat())
}

/// The note that a command is accepted in a directory.
fn accepted_command(directory: &Path, command: &str) -> (String, Vec<u8>) {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let directory = directory.as_os_str().as_bytes();
    let name = consent_name(&[b"abide accepted command 1", directory, command.as_bytes()]);
    (name, [directory, b"\n"].concat())
}

/// The note that what a run takes from a project's file is accepted.
fn accepted_run_config(terms: &ProjectRunTerms<'_>) -> (String, Vec<u8>) {
    let real = |dir: &Path| dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let (project, directory) = (real(terms.project), real(terms.directory));
    let (project, directory) = (project.as_os_str().as_bytes(), directory.as_os_str().as_bytes());
    let text = terms.text.as_bytes();
    let name = consent_name(&[b"abide accepted run config 1", project, directory, text]);
    (name, [project, b"\n", directory, b"\n"].concat())
}

impl Store {
    /// Sets the notes of what this machine started. A store opened by the library has none: an
    /// interrupted rewind is then left alone, and every run counts as started elsewhere.
    #[must_use]
    pub fn with_consent(mut self, consent: Consent) -> Self {
        self.consent = consent;
        self
    }

    /// The notes of what this machine started.
    #[must_use]
    pub const fn consent(&self) -> &Consent {
        &self.consent
    }

    /// What identifies this store: its location and its id.
    fn consent_identity(&self, id: &str) -> Vec<u8> {
        let place = match self.root() {
            Some(root) => {
                let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
                root.into_os_string().into_encoded_bytes()
            }
            None => self.place().into_bytes(),
        };
        [place.as_slice(), b"\0", id.as_bytes()].concat()
    }

    /// The store's identity; `None` if it has no id yet or nothing can be noted.
    fn known_consent_identity(&self) -> Result<Option<Vec<u8>>, Error> {
        if self.consent.dir.is_none() {
            return Ok(None);
        }
        Ok(self.store_id()?.map(|id| self.consent_identity(&id)))
    }

    /// The store's identity, with an id that is created if it is missing.
    fn ensure_consent_identity(&self) -> Result<Option<Vec<u8>>, Error> {
        if self.consent.dir.is_none() {
            return Ok(None);
        }
        Ok(self.make_store_id()?.map(|id| self.consent_identity(&id)))
    }

    /// Notes durably that this machine starts a run; must happen before the agent starts. Returns
    /// false if there is nowhere to note it: whoever resumes the run is then asked.
    pub fn note_run(&self, session: SessionId, start: &RunStart) -> Result<bool, Error> {
        let Some(store) = self.ensure_consent_identity()? else { return Ok(false) };
        let (name, text) = run_consent_note(&store, session, start);
        self.consent.put(RUNS, &name, &text)
    }

    /// Returns true if this machine started a run with exactly this command, directory and options
    /// in this session.
    pub(crate) fn has_consent_to_run(
        &self,
        session: SessionId,
        start: &RunStart,
    ) -> Result<bool, Error> {
        let Some(store) = self.known_consent_identity()? else { return Ok(false) };
        let (name, text) = run_consent_note(&store, session, start);
        Ok(self.consent.get(RUNS, &name).is_some_and(|noted| noted == text))
    }

    /// Forgets the runs of a session after somebody else's events were added: its agent would no
    /// longer be told what this machine started it with, so whoever resumes it is asked.
    pub(crate) fn forget_consent_to_runs(&self, session: SessionId) {
        self.consent.remove_runs(session);
    }

    /// Notes durably that this machine starts restoring files; must happen before the first file is
    /// touched.
    pub(crate) fn note_consent_to_rewind(
        &self,
        session: SessionId,
        noted: &RewindConsent,
    ) -> Result<(), Error> {
        if let Some(store) = self.ensure_consent_identity()? {
            self.consent.put(REWINDS, &rewind_consent_name(&store, session), &noted.write())?;
        }
        Ok(())
    }

    /// The rewind of a session that this machine started.
    pub(crate) fn noted_consent_to_rewind(
        &self,
        session: SessionId,
    ) -> Result<Option<RewindConsent>, Error> {
        let Some(store) = self.known_consent_identity()? else { return Ok(None) };
        let noted = self.consent.get(REWINDS, &rewind_consent_name(&store, session));
        Ok(noted.and_then(|noted| RewindConsent::read(&noted)))
    }

    /// Forgets the rewind: the session's files are in place.
    pub(crate) fn forget_consent_to_rewind(&self, session: SessionId) {
        if let Ok(Some(store)) = self.known_consent_identity() {
            self.consent.remove(REWINDS, &rewind_consent_name(&store, session));
        }
    }
}

fn run_consent_note(store: &[u8], session: SessionId, start: &RunStart) -> (String, Vec<u8>) {
    // The note is bound to what would be executed: the command, the directory, the options.
    let begun = serde_json::to_vec(start).unwrap_or_default();
    let name = consent_name(&[b"abide run 1", store, session.to_string().as_bytes(), &begun]);
    (name, run_consent_text(session))
}

fn run_consent_text(session: SessionId) -> Vec<u8> {
    format!("{session}\n").into_bytes()
}

fn rewind_consent_name(store: &[u8], session: SessionId) -> String {
    consent_name(&[b"abide rewind 1", store, session.to_string().as_bytes()])
}
