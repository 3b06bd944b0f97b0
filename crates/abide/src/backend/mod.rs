//! What the library and the commands need of a store beyond [`abide_model::Store`].
//!
//! Nothing above asks which store it is: what only one sort of store can do is asked for here, and
//! one that cannot says so with an error.

mod local;
mod plain;
#[cfg(feature = "shared")]
mod shared;

use std::fmt;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_local::{
    BundleHeader, BundleReader, DiskUse, Erased, Imported, LocalStore, Made, SessionLiveness,
};
use abide_model::{NewEvent, NewSession, Retention, Seq, SessionId};
use abide_workspace::Policy;

use crate::Error;

pub(crate) use self::plain::PlainStore;
#[cfg(feature = "shared")]
pub use self::shared::{SharedOptions, SharedStore};

/// A bundle that is read from anywhere.
pub type Bundle<'a> = BundleReader<Box<dyn Read + 'a>>;

/// Is told of each batch that was recorded for a child.
pub type SeenByHolder = Box<dyn Fn(&[NewEvent]) + Send + Sync>;

/// A store with all that is done with stores.
pub trait Backend: abide_model::Store {
    /// Where it is, for people; never with a secret.
    fn place(&self) -> String;
    /// The directory of a store of files.
    fn root(&self) -> Option<&Path>;
    /// The store of files that it is, for what makes sense on files only.
    fn as_files(&self) -> Option<&LocalStore>;
    /// Where what is derived and belongs to this machine is kept, if it has a place for it.
    fn cache_dir(&self) -> Option<PathBuf>;
    /// What is taken of the workspace in this directory.
    fn workspace_policy(&self, root: &Path) -> Policy;
    /// Where the files of a session are for whoever stands here, whatever machine it was begun on;
    /// none where that is as the session says.
    fn workspace_here(&self, session: SessionId) -> Result<Option<PathBuf>, Error>;
    /// What is let go.
    fn retention(&self) -> Retention;
    /// What the project is known by that the store was opened for; none where all are meant.
    fn projects(&self) -> &[String];
    /// The id of the project that a session was recorded in, where that is known.
    fn project_of(&self, session: SessionId) -> Result<Option<String>, Error>;

    /// What tells this store from others that come to stand at the same place; none where it has
    /// nothing of the sort, or not yet.
    fn store_id(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }
    /// The same, made where it is missing.
    fn make_store_id(&self) -> Result<Option<String>, Error> {
        self.store_id()
    }

    /// As much of a session's short id as no other session shares.
    fn short_id(&self, session: SessionId) -> Result<String, Error> {
        let all = pollster::block_on(self.list())?;
        let known = all.into_iter().find(|one| one.id == session);
        Ok(known.map_or_else(|| session.short(SessionId::SHORT), |one| one.short))
    }
    /// What became of the writers of these sessions, each by itself.
    fn livenesses(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, Error>>;
    /// Has somebody this session open for writing, as far as can be told cheaply?
    fn is_held(&self, session: SessionId) -> bool;
    /// Where the space went.
    fn disk_use(&self) -> Result<DiskUse, Error>;

    /// As [`abide_model::Store::create`], and tells whether the session is new: of those who ask for
    /// the same key at once, one is told so.
    fn create_new(&self, session: NewSession) -> Result<Made, Error>;
    /// As [`abide_model::Store::fork`], and tells whether the session is new.
    fn fork_new(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Result<Made, Error>;
    /// Deletes a session for good. What could not be tidied up after it was gone is a note.
    fn delete_session(&self, session: SessionId) -> Result<Vec<String>, Error>;

    /// Writes a session with all its objects.
    fn export_bundle(&self, session: SessionId, out: &mut dyn Write)
    -> Result<BundleHeader, Error>;
    /// Says what an import would do.
    fn check_bundle(&self, bundle: Bundle<'_>) -> Result<Imported, Error>;
    /// Takes a session in, whole and checked, or not at all.
    fn import_bundle(&self, bundle: Bundle<'_>, wait: Duration) -> Result<Imported, Error>;
    /// Says what [`Backend::import_bundle_of`] would do.
    fn check_bundle_of(&self, bundle: Bundle<'_>, _: Option<&str>) -> Result<Imported, Error> {
        self.check_bundle(bundle)
    }
    /// As [`Backend::import_bundle`]: a session that is new here and names no project is put into this
    /// one, else into the one that the store was opened for.
    fn import_bundle_of(
        &self,
        bundle: Bundle<'_>,
        _: Option<&str>,
        wait: Duration,
    ) -> Result<Imported, Error> {
        self.import_bundle(bundle, wait)
    }
    /// Erases the data of these events, all of the session's own. A writer is waited for so long.
    fn erase_payloads(
        &self,
        session: SessionId,
        seqs: &[Seq],
        wait: Duration,
    ) -> Result<Erased, Error>;

    /// Reads a session from its first event to its last and checks every line and the chain. Gives
    /// the last event. A store of files has its doctor for this.
    fn verify(&self, _: SessionId) -> Result<Seq, Error> {
        Err(Error::Lacking { what: "a check of its lines", place: self.place() })
    }

    /// Lets the processes that this one starts write to a session that it holds.
    fn serve_children(&self, session: SessionId, seen: SeenByHolder) -> Result<ChildSocket, Error>;
    /// Brings the transcript of a session up to date, where the store keeps one.
    fn update_transcript(&self, session: SessionId) -> Result<(), Error>;
}

/// Serves the children of a holder of a session. They are cut off when it is dropped.
pub struct ChildSocket(Box<dyn fmt::Debug + Send>);

impl ChildSocket {
    /// Over what serves them until it is dropped.
    pub fn new(serving: impl fmt::Debug + Send + 'static) -> Self {
        Self(Box::new(serving))
    }
}

impl fmt::Debug for ChildSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
