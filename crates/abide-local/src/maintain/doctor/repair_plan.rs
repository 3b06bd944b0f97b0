//! Plans the repair of a session in files: which segments are rewritten, and from what.

use std::collections::BTreeMap;

use abide_journal::{Journal, Salt, SegmentForm, SegmentName};
use abide_maintain::{
    Examination, ReconstructionSource, RepairAction, RepairPlan, RepairRequest, RepairStrategy,
    is_contradiction,
};
use abide_model::{Seq, SessionId, StoreError};

use super::Doctor;
use super::journal_survey::{JournalRewrite, JournalSurvey, ReconstructedEvent};
use super::source::SourceEvents;
use crate::error::store_error;
use crate::store_layout::SessionLayout;

/// What applying a plan needs beyond what is shown.
#[derive(Debug, Default)]
pub(super) struct RepairMaterial {
    pub(super) rewrite: JournalRewrite,
    pub(super) source: SourceEvents,
    pub(super) lost: Vec<(Seq, Seq)>,
}

impl Doctor<'_> {
    /// Plans the repair of a session. Changes nothing.
    pub fn plan(
        &self,
        examination: &Examination,
        request: RepairRequest,
    ) -> Result<RepairPlan, StoreError> {
        self.plan_with_material(examination, request).map(|(plan, _)| plan)
    }

    pub(super) fn plan_with_material(
        &self,
        examination: &Examination,
        request: RepairRequest,
    ) -> Result<(RepairPlan, RepairMaterial), StoreError> {
        let session = examination.session;
        let layout = self.store.layout_of(session)?;
        let facts = &examination.facts;
        let mut plan = RepairPlan { session: Some(session), ..RepairPlan::default() };
        let mut workings = RepairMaterial::default();
        let unsealed = examination.findings.iter().any(|found| found.rule == "sealed-segment");
        if facts.damaged || unsealed {
            let survey = self.survey(session, &layout)?;
            // A transcript or index entry of another session is ignored.
            let source = self.source(&layout)?;
            if source.session.is_none_or(|of| of == session) {
                workings.source = source;
            }
            workings.lost = facts.lost.clone();
            choose_strategy(examination, request, &workings, &mut plan)?;
            let again = match plan.strategy {
                None | Some(RepairStrategy::Checkpoint) => BTreeMap::new(),
                Some(_) => workings.source.within(&facts.lost),
            };
            let rewrite = draft_repair(&survey, &Self::preview_source_events(again))?;
            plan.actions.extend(rewrite.segments.iter().map(|segment| {
                let name = SegmentName { number: segment.number, form: SegmentForm::Plain };
                RepairAction::RewriteSegment {
                    path: layout.journal().join(name.file_name()),
                    kept: segment.kept,
                    reconstructed: segment.again,
                }
            }));
            if rewrite.segments.is_empty() {
                // Every line is in place: the watermark stems from before a repair that was
                // interrupted.
                let path = layout.watermark();
                plan.actions.push(RepairAction::MakeAnew { what: "watermark", path });
            }
            workings.rewrite = rewrite;
        } else if request.from.is_some()
            || request.strategy == Some(RepairStrategy::Checkpoint)
                && examination.findings.iter().any(is_contradiction)
        {
            choose_strategy(examination, request, &workings, &mut plan)?;
        }
        plan.plan_events(examination, request, &workings.rewrite.lost)?;
        self.plan_derived(examination, &layout, &mut plan);
        plan.keep_left(examination);
        Ok((plan, workings))
    }

    pub(super) fn survey(
        &self,
        session: SessionId,
        layout: &SessionLayout,
    ) -> Result<JournalSurvey, StoreError> {
        let reader = self.store.reader_at(session, layout);
        let journal = Journal::new(self.store.storage().clone(), layout.journal());
        let past = reader.past().map_err(store_error)?;
        let sum = past.sum().map_err(store_error)?;
        let before = (past.last(), sum.unwrap_or_else(|| abide_journal::Sum::genesis(session)));
        let mark = reader.mark().map_err(store_error)?;
        JournalSurvey::of(&journal, session, before, mark).map_err(store_error)
    }

    fn plan_derived(
        &self,
        examination: &Examination,
        layout: &SessionLayout,
        plan: &mut RepairPlan,
    ) {
        for found in &examination.findings {
            let path = || found.place.path.clone().unwrap_or_default();
            match &*found.rule {
                "state-snapshot" | "state-mismatch" => plan.actions.push(RepairAction::MakeAnew {
                    what: "snapshot of the state",
                    path: layout.state(),
                }),
                "transcript" if self.store.keeps_transcripts() => {
                    plan.actions.push(RepairAction::MakeAnew { what: "transcript", path: path() })
                }
                "transcript" => plan.actions.push(RepairAction::Remove { path: path() }),
                "watermark" => {
                    plan.actions.push(RepairAction::MakeAnew { what: "watermark", path: path() })
                }
                "temporary-file" => plan.actions.push(RepairAction::Remove { path: path() }),
                "permissions" => plan.actions.push(super::store::store_mode_repair(found)),
                _ => {}
            }
        }
    }
}

/// What would be written, with dummy salts.
fn draft_repair(
    survey: &JournalSurvey,
    again: &BTreeMap<Seq, ReconstructedEvent>,
) -> Result<JournalRewrite, StoreError> {
    let mut salt = || Salt([b'A'; Salt::WIDTH]);
    survey.rewrite("", again, Seq::ZERO, &mut salt).map_err(store_error)
}

fn choose_strategy(
    examination: &Examination,
    request: RepairRequest,
    workings: &RepairMaterial,
    plan: &mut RepairPlan,
) -> Result<(), StoreError> {
    let source = ReconstructionSource {
        events: workings.source.within(&workings.lost).len() as u64,
        name: workings.source.name,
        without: "neither the transcript nor the index has",
    };
    plan.choose_strategy(examination, request, &workings.lost, source)
}
