//! `checkpoint-position`: a thinning, a rewind or restored files refer to something that does not
//! exist.

use std::collections::BTreeSet;

use super::bounded_findings::BoundedFindings;
use super::{LiveEvent, ValidationRule};
use crate::{Fact, Finding, FindingPlace, FindingType, Kind, Repair, Seq, SessionState, Severity};

/// The `checkpoint-position` rule.
#[derive(Debug)]
pub(super) struct CheckpointPositionRule {
    rewinds: BTreeSet<Seq>,
    few: BoundedFindings,
}

impl Default for CheckpointPositionRule {
    fn default() -> Self {
        let few = BoundedFindings::new("checkpoint-position", FindingType::Referential);
        Self { rewinds: BTreeSet::new(), few }
    }
}

impl ValidationRule for CheckpointPositionRule {
    fn event(&mut self, seen: &LiveEvent<'_>) {
        let seq = seen.event.seq;
        if seen.event.kind == Kind::SESSION_REWOUND {
            self.rewinds.insert(seq);
        }
        // Is it an event before this one, rewound or not?
        let is_before = |named: Seq| named > Seq::ZERO && named < seq;
        match seen.fact {
            Ok(Fact::Thinning(fact)) => {
                // Numbers are not reused after rewinds, so those of rewound checkpoints are known
                // too.
                let last = seen.before.core.checkpoints.last;
                let unknown =
                    fact.checkpoints.iter().find(|number| **number == 0 || **number > last);
                if let Some(number) = unknown {
                    self.add(seq, format!("checkpoint {number} was dropped but never made"));
                }
            }
            Ok(Fact::Rewind(fact)) => {
                if !is_before(fact.to) {
                    self.add(seq, format!("a rewind to @{}, which is not before it", fact.to));
                }
                if let Some(undone) =
                    fact.undoes.filter(|undone| !self.may_be_rewind(*undone, seen))
                {
                    self.add(seq, format!("a rewind undoes @{undone}, which is not a rewind"));
                }
            }
            Ok(Fact::FilesRestored(fact)) if !self.may_be_rewind(fact.rewind, seen) => {
                self.add(
                    seq,
                    format!("files were restored for @{}, which is not a rewind", fact.rewind),
                );
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: &SessionState, findings: &mut Vec<Finding>) {
        self.few.finish(findings);
    }
}

impl CheckpointPositionRule {
    /// Rewound events are not seen here, and any of them may have been a rewind.
    fn may_be_rewind(&self, named: Seq, seen: &LiveEvent<'_>) -> bool {
        let is_before = named > Seq::ZERO && named < seen.event.seq;
        is_before && (self.rewinds.contains(&named) || !seen.before.core.lineage.contains(named))
    }

    fn add(&mut self, seq: Seq, message: String) {
        let repair = Repair::by_hand("nothing to do: it has no effect");
        self.few.add(Severity::Error, FindingPlace::event(seq), message, repair);
    }
}
