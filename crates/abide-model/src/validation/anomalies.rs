//! `anomaly`: events that do not fit the events before them, counted by anomaly.
//!
//! Anomalies that have a rule of their own are left to it.

use std::collections::BTreeMap;

use super::{LiveEvent, ValidationRule};
use crate::{
    Anomaly, Event, Finding, FindingPlace, FindingType, Kind, Repair, Seq, SessionState, Severity,
};

/// The `anomaly` rule.
#[derive(Debug, Default)]
pub(super) struct AnomalyRule {
    found: BTreeMap<Anomaly, (u64, Seq)>,
}

impl ValidationRule for AnomalyRule {
    fn event(&mut self, _: &LiveEvent<'_>) {}

    fn anomaly(&mut self, event: &Event, anomaly: Anomaly) {
        let elsewhere = match anomaly {
            Anomaly::Malformed | Anomaly::UnknownCall | Anomaly::SelfDependency => true,
            Anomaly::UnknownPosition => event.kind != Kind::PAYLOAD_ERASED,
            _ => false,
        };
        if !elsewhere {
            self.found.entry(anomaly).or_insert((0, event.seq)).0 += 1;
        }
    }

    fn finish(&mut self, _: &SessionState, findings: &mut Vec<Finding>) {
        for (anomaly, (count, first)) in &self.found {
            let message =
                format!("{}: {count} ({anomaly}), the first at @{first}", anomaly_words(*anomaly));
            findings.push(Finding::new(
                "anomaly",
                FindingType::BusinessLogic,
                Severity::Warning,
                FindingPlace::event(*first),
                message,
                Repair::by_hand("nothing to do: they are applied as far as possible"),
            ));
        }
    }
}

const fn anomaly_words(anomaly: Anomaly) -> &'static str {
    match anomaly {
        Anomaly::Malformed => "events with data that their kind does not allow",
        Anomaly::SessionCreatedTwice => "further `session.created`",
        Anomaly::UnknownCall => "results for calls that are not open",
        Anomaly::DuplicateCall => "calls with the id of one that is still open",
        Anomaly::UnknownTurn => "events of turns that were never started or are over",
        Anomaly::DuplicateTurn => "turns with a number that was used before",
        Anomaly::UnknownTask => "events of tasks that were never created",
        Anomaly::DuplicateTask => "tasks with an id that was used before",
        Anomaly::SelfDependency => "tasks that depend on themselves",
        Anomaly::IllegalTransition => "task statuses that cannot follow the ones before",
        Anomaly::DuplicateCheckpoint => "checkpoints with a number that was used before",
        Anomaly::UnknownPosition => "events that refer to an event that is not in the session",
        Anomaly::StaleEpoch => "writers with an epoch that is not greater than the previous one",
    }
}
