//! `malformed-event`: the data of an event does not match its kind.

use super::{LiveEvent, ValidationRule};
use crate::{Finding, FindingPlace, FindingType, Repair, Seq, SessionState, Severity};

/// How many events are named.
const NAMED: usize = 5;

/// The `malformed-event` rule.
#[derive(Debug, Default)]
pub(super) struct MalformedEventRule {
    count: u64,
    first: Vec<(Seq, String)>,
}

impl ValidationRule for MalformedEventRule {
    fn event(&mut self, seen: &LiveEvent<'_>) {
        if seen.fact.is_err() {
            self.count += 1;
            if self.first.len() < NAMED {
                self.first.push((seen.event.seq, seen.event.kind.to_string()));
            }
        }
    }

    fn finish(&mut self, _: &SessionState, findings: &mut Vec<Finding>) {
        let Some((seq, _)) = self.first.first() else { return };
        let named: Vec<_> =
            self.first.iter().map(|(seq, kind)| format!("@{seq} ({kind})")).collect();
        let rest = if self.count > NAMED as u64 { ", …" } else { "" };
        findings.push(Finding::new(
            "malformed-event",
            FindingType::Structural,
            Severity::Warning,
            FindingPlace::event(*seq),
            format!(
                "{} with data that their kinds do not allow: {}{rest}",
                if self.count == 1 {
                    "1 event".to_owned()
                } else {
                    format!("{} events", self.count)
                },
                named.join(", ")
            ),
            Repair::by_hand(
                "they are kept but have no effect; record them again in the right form",
            ),
        ));
    }
}
