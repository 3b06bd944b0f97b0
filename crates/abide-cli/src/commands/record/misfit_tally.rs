//! Events that are recorded and have no effect: how many, in one line at the end of the input.

use abide::{AcknowledgedEvent, event::Anomaly};

/// How many events were recorded, and how many of them have no effect.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MisfitTally {
    recorded: u64,
    malformed: u64,
    of_unknown_kind: u64,
}

/// Whether abide knows the kind of an event, or its caller named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KindFamiliarity {
    Known,
    Unknown,
}

impl MisfitTally {
    /// Counts an event that is durable.
    pub(super) fn add(&mut self, event: &AcknowledgedEvent, kind: KindFamiliarity) {
        self.recorded += 1;
        if event.anomaly == Some(Anomaly::Malformed) {
            self.malformed += 1;
        } else if kind == KindFamiliarity::Unknown {
            self.of_unknown_kind += 1;
        }
    }

    /// The line for a person; `None` if every event has its effect.
    pub(super) fn line(self) -> Option<String> {
        let Self { recorded, malformed, of_unknown_kind: unknown } = self;
        let malformed_words = match malformed {
            0 => None,
            1 => Some("was recorded but does not fit its kind, and has no effect"),
            _ => Some("were recorded but do not fit their kind, and have no effect"),
        };
        match (malformed_words, unknown) {
            (None, 0) => None,
            (None, 1) => Some(format!(
                "1 of {recorded} events was recorded but is of an unknown kind, and has no effect (see \"unknown\" in \
                 the replies)"
            )),
            (None, unknown) => Some(format!(
                "{unknown} of {recorded} events were recorded but are of an unknown kind, and have no effect (see \
                 \"unknown\" in the replies)"
            )),
            (Some(words), 0) => Some(format!(
                "{malformed} of {recorded} events {words} (see \"malformed\" in the replies)"
            )),
            (Some(words), unknown) => {
                let are = if unknown == 1 { "is" } else { "are" };
                Some(format!(
                    "{malformed} of {recorded} events {words}; {unknown} {are} of an unknown kind (see \"malformed\" \
                     and \"unknown\" in the replies)"
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_without_effect_are_told_in_one_line() {
        let line = |recorded, malformed, of_unknown_kind| {
            MisfitTally { recorded, malformed, of_unknown_kind }.line().unwrap_or_default()
        };
        assert_eq!(line(29, 0, 0), "");
        assert_eq!(
            line(29, 3, 2),
            "3 of 29 events were recorded but do not fit their kind, and have no effect; 2 are of an \
             unknown kind (see \"malformed\" and \"unknown\" in the replies)"
        );
        assert_eq!(
            line(29, 1, 0),
            "1 of 29 events was recorded but does not fit its kind, and has no effect (see \
             \"malformed\" in the replies)"
        );
        assert_eq!(
            line(29, 0, 1),
            "1 of 29 events was recorded but is of an unknown kind, and has no effect (see \
             \"unknown\" in the replies)"
        );
    }
}
