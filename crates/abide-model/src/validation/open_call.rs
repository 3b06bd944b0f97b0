//! `open-call`: a call has no result at the end. It is running, or its outcome is unknown.

use super::bounded_findings::{BoundedFindings, short};
use super::{LiveEvent, ValidationRule};
use crate::{Finding, FindingPlace, FindingType, Repair, SessionState, Severity};

/// The `open-call` rule.
#[derive(Debug)]
pub(super) struct OpenCallRule;

impl ValidationRule for OpenCallRule {
    fn event(&mut self, _: &LiveEvent<'_>) {}

    fn finish(&mut self, state: &SessionState, findings: &mut Vec<Finding>) {
        let mut few = BoundedFindings::new("open-call", FindingType::BusinessLogic);
        let mut open: Vec<_> = state.calls.iter().collect();
        open.sort_by_key(|(id, call)| (call.seq, *id));
        for (id, call) in open {
            few.add(
                Severity::Warning,
                FindingPlace::event(call.seq),
                format!("call {} of {} has no result", short(id), short(&call.name)),
                Repair::automatic("its outcome is recorded as unknown"),
            );
        }
        few.finish(findings);
    }
}
