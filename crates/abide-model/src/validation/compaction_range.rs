//! `compaction-range`: a compaction has an impossible range, or separates a call from its result.

use std::collections::BTreeSet;

use super::bounded_findings::{BoundedFindings, joined};
use super::{LiveEvent, ValidationRule};
use crate::{
    Compaction, Conversation, Fact, Finding, FindingPlace, FindingType, Kind, Repair, Seq,
    SessionState, Severity,
};

/// The `compaction-range` rule.
#[derive(Debug)]
pub(super) struct CompactionRangeRule {
    conversation: Conversation,
    compactions: BTreeSet<Seq>,
    possible: BTreeSet<Seq>,
    few: BoundedFindings,
}

impl Default for CompactionRangeRule {
    fn default() -> Self {
        Self {
            conversation: Conversation::default(),
            compactions: BTreeSet::new(),
            possible: BTreeSet::new(),
            few: BoundedFindings::new("compaction-range", FindingType::BusinessLogic),
        }
    }
}

impl ValidationRule for CompactionRangeRule {
    fn event(&mut self, seen: &LiveEvent<'_>) {
        let seq = seen.event.seq;
        self.conversation.event(seen.event, seen.fact);
        if seen.event.kind == Kind::CONTEXT_COMPACTED {
            self.compactions.insert(seq);
        }
        match seen.fact {
            Ok(Fact::Compaction(range)) => match impossible_compaction_range(range, seq) {
                Some(why) => self.few.add(
                    Severity::Error,
                    FindingPlace::event(seq),
                    format!("a compaction of @{} to @{} {why}", range.first, range.last),
                    Repair::by_hand("nothing to do: it covers no message; compact again"),
                ),
                None => {
                    self.possible.insert(seq);
                }
            },
            Ok(Fact::ContextRestored(fact)) if !self.compactions.contains(&fact.compaction) => {
                let named = fact.compaction;
                // A rewound compaction did exist.
                let gone = named < seq && !seen.before.core.lineage.contains(named);
                let severity =
                    if gone && named > Seq::ZERO { Severity::Warning } else { Severity::Error };
                self.few.add(
                    severity,
                    FindingPlace::event(seq),
                    format!("`context.restored` names @{named}, which is not a compaction"),
                    Repair::by_hand("nothing to do: it restores nothing"),
                );
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: &SessionState, findings: &mut Vec<Finding>) {
        for (seq, split) in self.conversation.splits() {
            let Some((_, call, result)) = split.first().filter(|_| self.possible.contains(&seq))
            else {
                continue;
            };
            let calls = joined(split.iter().map(|(id, ..)| id.as_str()));
            self.few.add(
                Severity::Error,
                FindingPlace::event(seq),
                format!(
                    "a compaction separates calls from results: {calls} (@{call} and @{result})"
                ),
                Repair::by_hand(
                    "record `context.restored` for it, and compact with the call and its result",
                ),
            );
        }
        self.few.finish(findings);
    }
}

fn impossible_compaction_range(range: &Compaction, seq: Seq) -> Option<&'static str> {
    if range.first > range.last {
        Some("ends before it starts")
    } else if range.first == Seq::ZERO {
        Some("starts before the session")
    } else if range.first <= seq && seq <= range.last {
        Some("covers itself")
    } else if range.last > seq {
        Some("covers events that did not exist yet")
    } else {
        None
    }
}
