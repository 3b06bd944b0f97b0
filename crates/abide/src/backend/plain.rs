//! A store with nothing but the methods of [`abide_model::Store`]. Everything else is refused.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use abide_local::{
    BundleHeader, DiskUse, EraseOutcome, ImportedBundle, LocalStore, SessionLiveness,
};
use abide_model::{
    CreatedSession, History, HistoryQuery, NewSession, Objects, Retention, Seq, SessionId,
    SessionReader, SessionRef, SessionSummary, SessionWriter, Store, StoreError,
};
use abide_workspace::Policy;

use super::{Backend, Bundle, ChildBatchObserver, ChildService};
use crate::Error;

/// Any store.
#[derive(Debug)]
pub(crate) struct PlainStore(pub(crate) Arc<dyn Store>);

impl PlainStore {
    fn lacks(&self, what: &'static str) -> Error {
        Error::Lacking { what, place: self.place() }
    }
}

impl Backend for PlainStore {
    fn place(&self) -> String {
        "this store".to_owned()
    }

    fn root(&self) -> Option<&Path> {
        None
    }

    fn as_files(&self) -> Option<&LocalStore> {
        None
    }

    fn cache_dir(&self) -> Option<PathBuf> {
        None
    }

    fn workspace_policy(&self, _: &Path) -> Policy {
        Policy::default()
    }

    fn workspace_here(&self, _: SessionId) -> Result<Option<PathBuf>, Error> {
        Ok(None)
    }

    fn retention(&self) -> Retention {
        Retention::default()
    }

    fn projects(&self) -> &[String] {
        &[]
    }

    fn project_of(&self, session: SessionId) -> Result<Option<String>, Error> {
        let state = self.0.read(session)?.state()?;
        Ok(state.core.fields.project_id)
    }

    fn livenesses(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, Error>> {
        sessions.iter().map(|_| Err(self.lacks("the liveness of writers"))).collect()
    }

    fn is_held(&self, _: SessionId) -> bool {
        false
    }

    fn disk_use(&self) -> Result<DiskUse, Error> {
        Err(self.lacks("disk usage"))
    }

    fn delete_session(&self, _: SessionId) -> Result<Vec<String>, Error> {
        Err(self.lacks("deleting sessions"))
    }

    fn export_bundle(&self, _: SessionId, _: &mut dyn Write) -> Result<BundleHeader, Error> {
        Err(self.lacks("bundles"))
    }

    fn check_bundle(&self, _: Bundle<'_>) -> Result<ImportedBundle, Error> {
        Err(self.lacks("bundles"))
    }

    fn import_bundle(&self, _: Bundle<'_>, _: Duration) -> Result<ImportedBundle, Error> {
        Err(self.lacks("bundles"))
    }

    fn erase_payloads(&self, _: SessionId, _: &[Seq], _: Duration) -> Result<EraseOutcome, Error> {
        Err(self.lacks("erasing payloads"))
    }

    fn serve_children(&self, _: SessionId, _: ChildBatchObserver) -> Result<ChildService, Error> {
        Err(self.lacks("child processes"))
    }

    fn update_transcript(&self, _: SessionId) -> Result<(), Error> {
        Ok(())
    }
}

impl Store for PlainStore {
    fn create(&self, session: NewSession) -> Result<CreatedSession, StoreError> {
        self.0.create(session)
    }

    fn fork(
        &self,
        parent: SessionId,
        at: Option<Seq>,
        session: NewSession,
    ) -> Result<CreatedSession, StoreError> {
        self.0.fork(parent, at, session)
    }

    fn find(&self, reference: &SessionRef) -> Result<SessionId, StoreError> {
        self.0.find(reference)
    }

    fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        self.0.list()
    }

    fn history(&self, query: &HistoryQuery) -> Result<History, StoreError> {
        self.0.history(query)
    }

    fn write(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError> {
        self.0.write(session, wait)
    }

    fn read(&self, session: SessionId) -> Result<Arc<dyn SessionReader>, StoreError> {
        self.0.read(session)
    }

    fn objects(&self) -> Result<Arc<dyn Objects>, StoreError> {
        self.0.objects()
    }
}

#[cfg(test)]
mod tests {
    use abide_testkit::MemoryStore;

    use super::*;

    #[test]
    fn what_it_lacks_is_said_and_sessions_are_written_all_the_same() {
        let store = crate::Store::over(Arc::new(MemoryStore::default()));
        let session = store.create(NewSession::titled("plain")).unwrap();
        session.append(crate::Message::user("hello")).unwrap().wait().unwrap();
        let id = session.id();
        let said = |error: Error| error.to_string();
        assert_eq!(
            said(store.liveness(id).unwrap_err()),
            "this store does not support the liveness of writers"
        );
        assert_eq!(
            said(store.export_bundle(id, &mut Vec::new()).unwrap_err()),
            "this store does not support bundles"
        );
        let children = said(session.serve_children(|_| {}).unwrap_err());
        assert_eq!(children, "this store does not support child processes");
        let files = said(store.files("`abide doctor`").unwrap_err());
        assert_eq!(files, "`abide doctor` works on local stores only; this store is not one");
        store.update_transcript(id).unwrap();
        assert_eq!((store.root(), store.project()), (None, None));
    }
}
