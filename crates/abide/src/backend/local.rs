//! The capabilities of a store on local files.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use abide_local::{
    BundleHeader, CleanupOutcome, CleanupPlan, CleanupRules, CollectError, CollectionSummary,
    DiskUse, EraseError, EraseOutcome, ErasePlan, EventPart, Examination, FileMatches,
    FinishedRepair, ImportedBundle, LocalStore, RepairPlan, RepairRequest, SessionLiveness,
    TextMatches,
};
use abide_model::{Finding, Seq, SessionId, SessionWriter, StoreError};

use super::{
    Bundle, BundleStore, COLLECTION_GRACE, Capabilities, ChildBatchObserver, ChildRelay,
    ChildService, EraseRemains, LivenessProbe, Maintenance, ObjectCollector, PayloadEraser,
    ProjectRegistry, SessionCleaner, StoreDoctor, StoreHome,
};
use crate::Error;

impl Capabilities {
    /// The capabilities of a store on local files.
    #[must_use]
    pub fn of_local(store: &Arc<LocalStore>) -> Self {
        Self { files: Some(store.clone()), ..Self::of_store(store) }
    }
}

impl StoreHome for LocalStore {
    fn place(&self) -> String {
        self.root().display().to_string()
    }

    fn cache_dir(&self) -> Option<PathBuf> {
        Some(self.make_cache_dir())
    }

    fn store_id(&self) -> Result<Option<String>, Error> {
        Ok(self.store_id())
    }

    fn make_store_id(&self) -> Result<String, Error> {
        Ok(self.make_store_id()?)
    }

    fn objects_mark(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }
}

impl ProjectRegistry for LocalStore {
    fn projects(&self) -> &[String] {
        self.projects()
    }

    fn project_of(&self, session: SessionId) -> Result<Option<String>, Error> {
        Ok(self.finder().project_of(session)?)
    }

    fn workspace_here(&self, _: SessionId) -> Result<Option<PathBuf>, Error> {
        Ok(None)
    }
}

impl LivenessProbe for LocalStore {
    fn livenesses(&self, sessions: &[SessionId]) -> Vec<Result<SessionLiveness, Error>> {
        let found = self.liveness_checker().check_all(sessions);
        found.into_iter().map(|found| found.map_err(Error::from)).collect()
    }

    fn is_held(&self, session: SessionId) -> bool {
        self.liveness_checker().is_held(session)
    }
}

impl BundleStore for LocalStore {
    fn export_bundle(
        &self,
        session: SessionId,
        out: &mut dyn Write,
    ) -> Result<BundleHeader, Error> {
        Ok(self.exporter().export(session, out)?)
    }

    fn check_bundle(
        &self,
        bundle: Bundle<'_>,
        project: Option<&str>,
    ) -> Result<ImportedBundle, Error> {
        Ok(self.importer().check_of(bundle, project)?)
    }

    fn import_bundle(
        &self,
        bundle: Bundle<'_>,
        project: Option<&str>,
        wait: Duration,
    ) -> Result<ImportedBundle, Error> {
        Ok(self.importer().import_of(bundle, project, wait)?)
    }
}

impl ChildRelay for LocalStore {
    fn write_through_holder(
        &self,
        session: SessionId,
        wait: Duration,
    ) -> Result<Arc<dyn SessionWriter>, StoreError> {
        Self::write_through_holder(self, session, wait)
    }

    fn serve_children(
        &self,
        session: SessionId,
        writer: &Arc<dyn SessionWriter>,
        seen: ChildBatchObserver,
    ) -> Result<ChildService, Error> {
        Ok(ChildService::new(self.serve_children(session, writer, seen)?))
    }
}

impl Maintenance for LocalStore {
    fn disk_use(&self) -> Result<DiskUse, Error> {
        Ok(self.disk_use()?)
    }

    fn delete_session(&self, session: SessionId) -> Result<Vec<String>, Error> {
        Ok(self.remover().delete(session)?)
    }

    fn erase_payloads(
        &self,
        session: SessionId,
        seqs: &[Seq],
        wait: Duration,
    ) -> Result<EraseOutcome, Error> {
        let plan = self.eraser().plan(session, seqs)?;
        Ok(self.eraser().apply(&plan, None, wait)?)
    }

    fn has_erased(&self, session: SessionId) -> Result<bool, Error> {
        Ok(self.eraser().has_erased(session)?)
    }
}

impl PayloadEraser for LocalStore {
    fn tidy_erasures(&self, wait: Duration) -> Result<EraseRemains, EraseError> {
        let finished = self.eraser().finish(wait)?.is_some();
        let unfinished = self.eraser().is_erasing();
        let leftovers = self.eraser().clear_leftovers()?;
        Ok(EraseRemains { finished, unfinished, leftovers, notes: Vec::new() })
    }

    fn is_erasing(&self) -> Result<bool, StoreError> {
        Ok(self.eraser().is_erasing())
    }

    fn event_parts(&self, session: SessionId) -> Result<Vec<EventPart>, StoreError> {
        self.eraser().parts_of(session)
    }

    fn find_payloads(&self, session: SessionId, text: &str) -> Result<TextMatches, StoreError> {
        self.eraser().find_payloads(session, text)
    }

    fn find_files(&self, parts: &[EventPart], text: &str) -> Result<FileMatches, StoreError> {
        self.eraser().find_files(parts, text)
    }

    fn plan_erasure(&self, session: SessionId, seqs: &[Seq]) -> Result<ErasePlan, EraseError> {
        self.eraser().plan(session, seqs)
    }

    fn apply_erasures(
        &self,
        plans: &[ErasePlan],
        reason: Option<&str>,
        wait: Duration,
        each: &mut dyn FnMut(&ErasePlan, &EraseOutcome),
    ) -> Result<Vec<String>, EraseError> {
        for plan in plans {
            each(plan, &self.eraser().apply(plan, reason, wait)?);
        }
        Ok(Vec::new())
    }

    fn erase_unnamed(&self, wait: Duration) -> Result<EraseOutcome, EraseError> {
        self.eraser().erase_unnamed(wait)
    }
}

impl ObjectCollector for LocalStore {
    fn preview_collection(&self, _: &mut Vec<String>) -> Result<CollectionSummary, CollectError> {
        self.collector().unnamed_objects(COLLECTION_GRACE)
    }

    fn collect_objects(
        &self,
        _: Duration,
        _: &mut Vec<String>,
    ) -> Result<CollectionSummary, CollectError> {
        self.collector().collect(COLLECTION_GRACE)
    }
}

impl SessionCleaner for LocalStore {
    fn cleanup_rules(&self) -> CleanupRules {
        self.cleaner().rules()
    }

    fn plan_cleanup(&self, rules: &CleanupRules) -> Result<CleanupPlan, StoreError> {
        self.cleaner().plan(rules)
    }

    fn apply_cleanup(
        &self,
        plan: &CleanupPlan,
        rules: &CleanupRules,
        _: Duration,
    ) -> Result<CleanupOutcome, StoreError> {
        self.cleaner().apply(plan, rules)
    }
}

impl StoreDoctor for LocalStore {
    fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        self.doctor().sessions()
    }

    fn examine(&self, session: SessionId) -> Result<Examination, StoreError> {
        self.doctor().examine(session)
    }

    fn examine_store(&self) -> Result<Vec<Finding>, StoreError> {
        self.doctor().examine_store()
    }

    fn plan(
        &self,
        examination: &Examination,
        request: RepairRequest,
    ) -> Result<RepairPlan, StoreError> {
        self.doctor().plan(examination, request)
    }

    fn plan_store(&self, findings: &[Finding]) -> Result<RepairPlan, StoreError> {
        self.doctor().plan_store(findings)
    }

    fn repair(
        &self,
        plan: &RepairPlan,
        request: RepairRequest,
        wait: Duration,
    ) -> Result<FinishedRepair, StoreError> {
        self.doctor().repair(plan, request, wait)
    }

    fn accept(&self, session: SessionId, wait: Duration) -> Result<(), StoreError> {
        self.doctor().accept(session, wait)
    }
}
