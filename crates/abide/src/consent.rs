//! What this machine began and what its user accepted, as notes in the user's state directory.
//!
//! A store may come from anybody: a clone, a bundle, a copy, another user's directory. So nothing in
//! a store says who began a run or a rewind. A note is outside it, and is bound to the store's place,
//! its random id, the session, and what was begun: a store that was swapped, or a command in it, has
//! no note.
//!
//! ```text
//! runs/HASH       this run was begun here
//! rewinds/HASH    this rewind was begun here, in this directory; removed when its files are done
//! accepted/HASH   the user accepted that this project's store is there
//! ```
//!
//! Each note is a small file of its own, durable before what it speaks of has any effect. The names
//! are BLAKE3 hashes: no secret of a URL stands in them. Directories are made 0700, files 0600. A
//! state directory that belongs to another user, or that others may write to, is not used.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_local::{Access, Disk, Environment, Storage, Where, read_full, write_full};
use abide_model::{ObjectHash, Rewind, RunStart, Seq, SessionId};

use crate::{Error, Store};

/// The sorts of notes: each has a directory.
const RUNS: &str = "runs";
const REWINDS: &str = "rewinds";
const ACCEPTED: &str = "accepted";

/// Notes of what this machine began and what its user accepted. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Consent {
    dir: Option<PathBuf>,
    storage: Arc<dyn Storage>,
    owner: Owner,
}

/// Whose the state directory must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The effective user's.
    User,
    /// A simulated disk has no users.
    #[cfg(test)]
    Anybody,
}

/// A rewind that was begun here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotedRewind {
    /// As it was recorded, except for its place in the journal.
    rewind: Rewind,
    /// The directory whose files it puts back.
    pub(crate) root: PathBuf,
}

impl NotedRewind {
    pub(crate) fn of(rewind: &Rewind, root: &Path) -> Self {
        Self { rewind: placeless(rewind), root: root.to_owned() }
    }

    /// Is it this one?
    pub(crate) fn is(&self, rewind: &Rewind) -> bool {
        self.rewind == placeless(rewind)
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

/// Its place is known only when it is recorded, which is after the note.
fn placeless(rewind: &Rewind) -> Rewind {
    Rewind { to: Seq::ZERO, ..rewind.clone() }
}

impl Default for Consent {
    /// Nothing can be noted, and nothing was.
    fn default() -> Self {
        Self::at(None)
    }
}

impl Consent {
    /// Notes in the user's state directory, which is made when the first is written; with none,
    /// nothing can be noted.
    #[must_use]
    pub fn at(dir: Option<PathBuf>) -> Self {
        // A relative one would be another's in every directory.
        let dir = dir.filter(|dir| dir.is_absolute());
        Self { dir, storage: Arc::new(Disk), owner: Owner::User }
    }

    /// Did the user accept that the store of this project is there? Another place asks again.
    #[must_use]
    pub fn is_accepted(&self, project: &Path, place: &Where) -> bool {
        let (name, text) = accepted(project, place);
        self.get(ACCEPTED, &name).is_some_and(|noted| noted == text)
    }

    /// Notes that the user accepts it, durable. `false`: there is nowhere to note it.
    pub fn accept(&self, project: &Path, place: &Where) -> Result<bool, Error> {
        let (name, text) = accepted(project, place);
        self.put(ACCEPTED, &name, &text)
    }

    /// Writes a note, durable when this returns. `false`: there is nowhere to write it.
    fn put(&self, sort: &str, name: &str, bytes: &[u8]) -> Result<bool, Error> {
        let Some(dir) = self.writable(sort)? else { return Ok(false) };
        let path = dir.join(name);
        let mut random = [0; 8];
        (Environment::default().random)(&mut random);
        // A name of its own: several processes may write the same note.
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
                if is_nowhere(&source) {
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

    /// Takes a note away. What is left of it says nothing any more.
    fn remove(&self, sort: &str, name: &str) {
        if let Some(dir) = self.dir.as_ref().filter(|dir| self.is_own(dir)) {
            let _ = self.storage.remove(&dir.join(sort).join(name));
        }
    }

    /// Takes away the notes of all runs of a session.
    fn remove_runs(&self, session: SessionId) {
        let Some(dir) = self.dir.as_ref().filter(|dir| self.is_own(dir)) else { return };
        let text = run_text(session);
        for name in self.storage.list(&dir.join(RUNS)).unwrap_or_default() {
            if self.get(RUNS, &name).is_some_and(|noted| noted == text) {
                self.remove(RUNS, &name);
            }
        }
    }

    /// The directory of a sort of notes, made where it is missing; none where it cannot be made or
    /// is not this user's alone.
    fn writable(&self, sort: &str) -> Result<Option<PathBuf>, Error> {
        let dir = self.dir.as_ref().filter(|dir| self.may_make(dir));
        let Some(dir) = dir else { return Ok(None) };
        let sorted = dir.join(sort);
        match self.make(&sorted) {
            Err(source) if is_nowhere(&source) => return Ok(None),
            made => made.map_err(Error::file("make", &sorted))?,
        }
        Ok(self.is_own(dir).then_some(sorted))
    }

    /// Makes a directory and those above it, durable.
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

    /// Is the directory there, and can nobody but this user change what is in it?
    fn is_own(&self, dir: &Path) -> bool {
        match self.owner {
            Owner::User => is_private(dir).unwrap_or(false),
            #[cfg(test)]
            Owner::Anybody => true,
        }
    }

    /// Is what is there of the path this user's, or the system's? Root does not make directories in
    /// the home of the user whose `HOME` it was given, nor a home that is not there.
    fn may_make(&self, dir: &Path) -> bool {
        match self.owner {
            Owner::User => may_make(dir),
            #[cfg(test)]
            Owner::Anybody => true,
        }
    }
}

/// Does an error say that there is no place to write to, rather than that writing failed?
fn is_nowhere(error: &io::Error) -> bool {
    let nowhere = [
        ErrorKind::PermissionDenied,
        ErrorKind::ReadOnlyFilesystem,
        ErrorKind::NotADirectory,
        ErrorKind::AlreadyExists,
        ErrorKind::NotFound,
    ];
    nowhere.contains(&error.kind())
}

/// Is it a directory of the effective user's, and no link to one, that nobody else may write to?
pub(crate) fn is_private(dir: &Path) -> io::Result<bool> {
    let there = std::fs::symlink_metadata(dir)?;
    let own = there.uid() == rustix::process::geteuid().as_raw();
    Ok(there.is_dir() && own && there.mode() & 0o022 == 0)
}

fn may_make(dir: &Path) -> bool {
    let mut below_root = dir.ancestors().filter(|dir| dir.parent().is_some());
    let there = below_root.find_map(|dir| std::fs::metadata(dir).ok());
    let user = rustix::process::geteuid().as_raw();
    there.is_some_and(|there| there.uid() == user || there.uid() == 0)
}

/// May a directory of the user's be used for what this machine derives? Root does not use that of
/// the user whose `HOME` it was given.
pub(crate) fn is_usable(dir: &Path) -> bool {
    match std::fs::symlink_metadata(dir) {
        Ok(_) => is_private(dir).unwrap_or(false),
        Err(_) => dir.is_absolute() && may_make(dir),
    }
}

/// The name of a note: a hash over all that it is bound to.
fn name_of(parts: &[&[u8]]) -> String {
    let mut bytes = Vec::new();
    for part in parts {
        // With its length, so that no part can pass for another.
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    ObjectHash::of(&bytes).to_string()
}

/// The note that a project's store is there.
fn accepted(project: &Path, place: &Where) -> (String, Vec<u8>) {
    let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
    let project = project.as_os_str().as_bytes();
    let sort: &[u8] = match place {
        Where::Files(_) => b"files",
        Where::Shared(_) => b"shared",
    };
    let name = name_of(&[b"abide accepted 1", project, sort, place.reveal().as_bytes()]);
    (name, [project, b"\n"].concat())
}

impl Store {
    /// The same store, with the notes of what this machine began. A store that is opened by the
    /// library has none: then a rewind that was cut off is left, and every run counts as begun
    /// elsewhere.
    #[must_use]
    pub fn with_consent(mut self, consent: Consent) -> Self {
        self.consent = consent;
        self
    }

    /// The notes of what this machine began.
    #[must_use]
    pub const fn consent(&self) -> &Consent {
        &self.consent
    }

    /// What tells this store from every other: where it stands, and its id.
    fn identity(&self, id: &str) -> Vec<u8> {
        let place = match self.root() {
            Some(root) => {
                let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
                root.into_os_string().into_encoded_bytes()
            }
            None => self.place().into_bytes(),
        };
        [place.as_slice(), b"\0", id.as_bytes()].concat()
    }

    /// The store as it stands; none where it has no id yet, or no note can be.
    fn known(&self) -> Result<Option<Vec<u8>>, Error> {
        if self.consent.dir.is_none() {
            return Ok(None);
        }
        Ok(self.backend().store_id()?.map(|id| self.identity(&id)))
    }

    /// The same, with an id that is made where it is missing.
    fn made_known(&self) -> Result<Option<Vec<u8>>, Error> {
        if self.consent.dir.is_none() {
            return Ok(None);
        }
        Ok(self.backend().make_store_id()?.map(|id| self.identity(&id)))
    }

    /// Notes that this machine begins a run, durable: before its agent is started. `false`: there is
    /// nowhere to note it, and whoever goes on with it is asked.
    pub fn note_run(&self, session: SessionId, start: &RunStart) -> Result<bool, Error> {
        let Some(store) = self.made_known()? else { return Ok(false) };
        let (name, text) = run_note(&store, session, start);
        self.consent.put(RUNS, &name, &text)
    }

    /// Was a run with just this command, directory and options begun by this machine in this
    /// session?
    pub(crate) fn began_run(&self, session: SessionId, start: &RunStart) -> Result<bool, Error> {
        let Some(store) = self.known()? else { return Ok(false) };
        let (name, text) = run_note(&store, session, start);
        Ok(self.consent.get(RUNS, &name).is_some_and(|noted| noted == text))
    }

    /// Somebody else's events came into a session: what its agent would be told now is not what this
    /// machine began, and whoever goes on with it is asked.
    pub(crate) fn forget_runs(&self, session: SessionId) {
        self.consent.remove_runs(session);
    }

    /// Notes that this machine begins to put files back, durable: before the first is touched.
    pub(crate) fn note_rewind(&self, session: SessionId, noted: &NotedRewind) -> Result<(), Error> {
        if let Some(store) = self.made_known()? {
            self.consent.put(REWINDS, &rewind_name(&store, session), &noted.write())?;
        }
        Ok(())
    }

    /// The rewind of a session that this machine has begun.
    pub(crate) fn noted_rewind(&self, session: SessionId) -> Result<Option<NotedRewind>, Error> {
        let Some(store) = self.known()? else { return Ok(None) };
        let noted = self.consent.get(REWINDS, &rewind_name(&store, session));
        Ok(noted.and_then(|noted| NotedRewind::read(&noted)))
    }

    /// The files of a session are where they should be.
    pub(crate) fn forget_rewind(&self, session: SessionId) {
        if let Ok(Some(store)) = self.known() {
            self.consent.remove(REWINDS, &rewind_name(&store, session));
        }
    }
}

fn run_note(store: &[u8], session: SessionId, start: &RunStart) -> (String, Vec<u8>) {
    // What is bound is what would be done: the command, the directory, the options.
    let begun = serde_json::to_vec(start).unwrap_or_default();
    let name = name_of(&[b"abide run 1", store, session.to_string().as_bytes(), &begun]);
    (name, run_text(session))
}

fn run_text(session: SessionId) -> Vec<u8> {
    format!("{session}\n").into_bytes()
}

fn rewind_name(store: &[u8], session: SessionId) -> String {
    name_of(&[b"abide rewind 1", store, session.to_string().as_bytes()])
}
