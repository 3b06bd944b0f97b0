//! What the library and the commands need from a store beyond [`abide_model::Store`].
//!
//! Code above this module does not ask which kind of store it has. It calls these methods, and a
//! store that does not support one returns an error.

mod local;
mod plain;
#[cfg(feature = "shared")]
mod shared;

use std::fmt;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_local::{
    BundleHeader, BundleReader, DiskUse, EraseOutcome, ImportedBundle, LocalStore, SessionLiveness,
};
use abide_model::{NewEvent, Retention, Seq, SessionId};
use abide_workspace::Policy;

use crate::Error;

pub(crate) use self::plain::PlainStore;
#[cfg(feature = "shared")]
pub use self::shared::{SharedOptions, SharedStore};

/// A bundle read from any source.
pub type Bundle<'a> = BundleReader<Box<dyn Read + 'a>>;

/// Called with each batch that was recorded for a child process.
pub type ChildBatchObserver = Box<dyn Fn(&[NewEvent]) + Send + Sync>;

/// A store with every operation that the library and the commands use.
pub trait Backend: abide_model::Store {
    /// The store's location for display, without secrets.
    fn place(&self) -> String;
    /// The directory of a local store.
    fn root(&self) -> Option<&Path>;
    /// The local store, for operations that work on files only.
    fn as_files(&self) -> Option<&LocalStore>;
    /// The directory for this machine's derived data, if there is one.
    fn cache_dir(&self) -> Option<PathBuf>;
    /// Which files are captured of the workspace in this directory.
    fn workspace_policy(&self, root: &Path) -> Policy;
    /// Where a session's files are in the local clone of its project, whichever machine it was
    /// started on; `None` if they are at the session's recorded path.
    fn workspace_here(&self, session: SessionId) -> Result<Option<PathBuf>, Error>;
    /// The retention settings.
    fn retention(&self) -> Retention;
    /// The ids of the project that the store was opened for; empty for all projects.
    fn projects(&self) -> &[String];
    /// The id of the project that a session was recorded in, if known.
    fn project_of(&self, session: SessionId) -> Result<Option<String>, Error>;

    /// An id that tells this store from another one that later appears at the same location; `None`
    /// if it has none, or none yet.
    fn store_id(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }
    /// The store id, created if it is missing.
    fn make_store_id(&self) -> Result<Option<String>, Error> {
        self.store_id()
    }

    /// The shortest unambiguous prefix of a session's id.
    fn short_id(&self, session: SessionId) -> Result<String, Error> {
        let all = self.list()?;
        let known = all.into_iter().find(|one| one.id == session);
        Ok(known.map_or_else(|| session.short(SessionId::SHORT), |one| one.short))
    }
    /// The state of these sessions' writers, each by itself.
    fn livenesses(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, Error>>;
    /// Returns true if somebody has this session open for writing. Cheap, so not certain.
    fn is_held(&self, session: SessionId) -> bool;
    /// Disk usage.
    fn disk_use(&self) -> Result<DiskUse, Error>;

    /// Deletes a session permanently. Returns notes about what could not be cleaned up afterwards.
    fn delete_session(&self, session: SessionId) -> Result<Vec<String>, Error>;

    /// Exports a session with all its objects.
    fn export_bundle(&self, session: SessionId, out: &mut dyn Write)
    -> Result<BundleHeader, Error>;
    /// Reports what an import would do.
    fn check_bundle(&self, bundle: Bundle<'_>) -> Result<ImportedBundle, Error>;
    /// Imports a session, complete and verified, or not at all.
    fn import_bundle(&self, bundle: Bundle<'_>, wait: Duration) -> Result<ImportedBundle, Error>;
    /// Reports what [`Backend::import_bundle_of`] would do.
    fn check_bundle_of(
        &self,
        bundle: Bundle<'_>,
        _: Option<&str>,
    ) -> Result<ImportedBundle, Error> {
        self.check_bundle(bundle)
    }
    /// Like [`Backend::import_bundle`]: a new session that names no project is assigned to this
    /// one, or else to the one the store was opened for.
    fn import_bundle_of(
        &self,
        bundle: Bundle<'_>,
        _: Option<&str>,
        wait: Duration,
    ) -> Result<ImportedBundle, Error> {
        self.import_bundle(bundle, wait)
    }
    /// Erases the payloads of these events, which must be the session's own. Waits up to `wait` for
    /// a writer.
    fn erase_payloads(
        &self,
        session: SessionId,
        seqs: &[Seq],
        wait: Duration,
    ) -> Result<EraseOutcome, Error>;

    /// Reads a session from start to end and checks every line and the hash chain. Returns the last
    /// event. Local stores have the doctor for this.
    fn verify(&self, _: SessionId) -> Result<Seq, Error> {
        Err(Error::Lacking { what: "verification", place: self.place() })
    }

    /// Lets child processes write to a session that this process holds.
    fn serve_children(
        &self,
        session: SessionId,
        seen: ChildBatchObserver,
    ) -> Result<ChildService, Error>;
    /// Updates the transcript of a session, if the store keeps one.
    fn update_transcript(&self, session: SessionId) -> Result<(), Error>;
}

/// Serves the child processes of a session's holder. Dropping it disconnects them.
pub struct ChildService(Box<dyn fmt::Debug + Send>);

impl ChildService {
    /// Wraps whatever serves them until it is dropped.
    pub fn new(serving: impl fmt::Debug + Send + 'static) -> Self {
        Self(Box::new(serving))
    }
}

impl fmt::Debug for ChildService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
