//! `open-call`: a call has no result at the end. It is running, or its outcome is unknown.

use super::few::{Few, short};
use super::{Rule, Seen};
use crate::{Finding, FindingType, FoundAt, Repair, SessionState, Severity};

/// The `open-call` rule.
#[derive(Debug)]
pub(super) struct OpenCall;

impl Rule for OpenCall {
    fn event(&mut self, _: &Seen<'_>) {}

    fn finish(&mut self, state: &SessionState, findings: &mut Vec<Finding>) {
        let mut few = Few::new("open-call", FindingType::BusinessLogic);
        let mut open: Vec<_> = state.calls.iter().collect();
        open.sort_by_key(|(id, call)| (call.seq, *id));
        for (id, call) in open {
            few.add(
                Severity::Warning,
                FoundAt::event(call.seq),
                format!("call {} of {} has no result", short(id), short(&call.name)),
                Repair::automatic("its outcome is recorded as unknown"),
            );
        }
        few.finish(findings);
    }
}
