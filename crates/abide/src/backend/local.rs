//! The backend on local files, which supports everything.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_local::{
    BundleHeader, DiskUse, EraseOutcome, ImportedBundle, LocalStore, SessionLiveness,
};
use abide_model::{Retention, Seq, SessionId};
use abide_workspace::Policy;

use super::{Backend, Bundle, ChildBatchObserver, ChildService};
use crate::Error;

impl Backend for LocalStore {
    fn place(&self) -> String {
        self.root().display().to_string()
    }

    fn root(&self) -> Option<&Path> {
        Some(self.root())
    }

    fn as_files(&self) -> Option<&LocalStore> {
        Some(self)
    }

    fn cache_dir(&self) -> Option<PathBuf> {
        Some(self.make_cache_dir())
    }

    fn workspace_policy(&self, root: &Path) -> Policy {
        self.config().workspace_of(self.projects(), root)
    }

    fn workspace_here(&self, _: SessionId) -> Result<Option<PathBuf>, Error> {
        Ok(None)
    }

    fn retention(&self) -> Retention {
        self.config().retention.clone()
    }

    fn projects(&self) -> &[String] {
        self.projects()
    }

    fn project_of(&self, session: SessionId) -> Result<Option<String>, Error> {
        Ok(self.project_of(session)?)
    }

    fn store_id(&self) -> Result<Option<String>, Error> {
        Ok(self.store_id())
    }

    fn make_store_id(&self) -> Result<Option<String>, Error> {
        Ok(Some(self.make_store_id()?))
    }

    fn short_id(&self, session: SessionId) -> Result<String, Error> {
        Ok(self.short_id(session)?)
    }

    fn livenesses(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, Error>> {
        let found = self.livenesses(sessions);
        found.into_iter().map(|found| found.map_err(Error::from)).collect()
    }

    fn is_held(&self, session: SessionId) -> bool {
        self.is_held(session)
    }

    fn disk_use(&self) -> Result<DiskUse, Error> {
        Ok(self.disk_use()?)
    }

    fn delete_session(&self, session: SessionId) -> Result<Vec<String>, Error> {
        Ok(self.delete_session(session)?)
    }

    fn export_bundle(
        &self,
        session: SessionId,
        out: &mut dyn Write,
    ) -> Result<BundleHeader, Error> {
        Ok(self.export_bundle(session, out)?)
    }

    fn check_bundle(&self, bundle: Bundle<'_>) -> Result<ImportedBundle, Error> {
        Ok(self.check_bundle(bundle)?)
    }

    fn import_bundle(&self, bundle: Bundle<'_>, wait: Duration) -> Result<ImportedBundle, Error> {
        Ok(self.import_bundle(bundle, wait)?)
    }

    fn check_bundle_of(
        &self,
        bundle: Bundle<'_>,
        project: Option<&str>,
    ) -> Result<ImportedBundle, Error> {
        Ok(self.check_bundle_of(bundle, project)?)
    }

    fn import_bundle_of(
        &self,
        bundle: Bundle<'_>,
        project: Option<&str>,
        wait: Duration,
    ) -> Result<ImportedBundle, Error> {
        Ok(self.import_bundle_of(bundle, project, wait)?)
    }

    fn erase_payloads(
        &self,
        session: SessionId,
        seqs: &[Seq],
        wait: Duration,
    ) -> Result<EraseOutcome, Error> {
        let plan = self.plan_erase(session, seqs)?;
        Ok(self.apply_erase(&plan, None, wait)?)
    }

    fn serve_children(
        &self,
        session: SessionId,
        seen: ChildBatchObserver,
    ) -> Result<ChildService, Error> {
        Ok(ChildService::new(self.serve_children(session, seen)?))
    }

    fn update_transcript(&self, session: SessionId) -> Result<(), Error> {
        Ok(self.update_transcript(session)?)
    }
}
