//! `unknown-call`: a result for a call that was never made or that already has one.

use super::bounded_findings::{BoundedFindings, short};
use super::{LiveEvent, ValidationRule};
use crate::{
    Anomaly, Event, Fact, Finding, FindingPlace, FindingType, Kind, Repair, SessionState, Severity,
};

/// The `unknown-call` rule.
#[derive(Debug)]
pub(super) struct UnknownCallRule {
    /// Erased calls. A result may be for any of them.
    erased: u64,
    few: BoundedFindings,
}

impl Default for UnknownCallRule {
    fn default() -> Self {
        Self { erased: 0, few: BoundedFindings::new("unknown-call", FindingType::Referential) }
    }
}

impl ValidationRule for UnknownCallRule {
    fn event(&mut self, seen: &LiveEvent<'_>) {
        let call = [Kind::TOOL_CALLED, Kind::API_CALLED].contains(&seen.event.kind);
        self.erased += u64::from(call && seen.event.data.is_none());
    }

    fn anomaly(&mut self, event: &Event, anomaly: Anomaly) {
        if anomaly != Anomaly::UnknownCall {
            return;
        }
        if self.erased > 0 {
            self.erased -= 1;
            return;
        }
        let call = match event.fact() {
            Ok(Fact::ToolResult(fact)) => Some(fact.call),
            Ok(Fact::ApiResult(fact)) => fact.call,
            _ => None,
        };
        let call = call.map(|call| short(call.as_str())).unwrap_or_default();
        self.few.add(
            Severity::Warning,
            FindingPlace::event(event.seq),
            format!("a result for call {call}, which was never made or already has a result"),
            Repair::by_hand("nothing to do: it is kept but belongs to no call"),
        );
    }

    fn finish(&mut self, _: &SessionState, findings: &mut Vec<Finding>) {
        self.few.finish(findings);
    }
}
