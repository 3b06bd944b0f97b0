//! `checkpoint-digest`: the events before a checkpoint no longer give the state it was made of.
//!
//! Reports only what is certain. A checkpoint names the state of its digest; if that state was not
//! seen here, because others wrote in between, nothing is compared. If events are missing or a
//! payload was erased, the state may differ, and other findings say so.

use super::bounded_findings::BoundedFindings;
use super::{LiveEvent, ValidationRule};
use crate::{
    Digest, FOLD_VERSION, Fact, Finding, FindingPlace, FindingType, Repair, Seq, SessionId,
    SessionState, Severity,
};

/// The `checkpoint-digest` rule.
#[derive(Debug, Default)]
pub(super) struct CheckpointDigestRule {
    /// The state before the newest writer: a checkpoint may be the first event it records.
    before_writer: Option<(Seq, Digest)>,
    /// The state before the newest row of lock files, which a checkpoint records before itself.
    before_resolved: Option<(Seq, Digest)>,
    /// The last lock file.
    resolved: Option<Seq>,
    /// The session of the events so far.
    session: Option<SessionId>,
    /// The last live event.
    last: Seq,
    /// Something was missing or erased so far.
    uncertain: bool,
    /// Rewound events were skipped.
    passed_over: bool,
    /// Lost events were written again; checkpoints made in between have a state without them.
    rebuilt: bool,
    /// The number of recoveries seen.
    recoveries: u64,
    differ: Vec<(Seq, Option<u64>)>,
}

impl ValidationRule for CheckpointDigestRule {
    fn event(&mut self, seen: &LiveEvent<'_>) {
        let before = seen.before.core.seq;
        self.passed_over |= before != self.last;
        // Every event before this one must have been seen, live or not.
        self.uncertain |= before.next() != seen.event.seq;
        self.last = seen.event.seq;
        let session = seen.before.core.id;
        if self.session.is_some() && self.session != session {
            // A fork does not count what was erased or recovered before it; only live events show
            // it.
            self.uncertain |= self.passed_over;
            self.recoveries = 0;
        }
        self.session = session;
        match seen.fact {
            Ok(Fact::WriterOpened(_)) => {
                self.before_writer = Some((before, seen.before.digest()));
            }
            Ok(Fact::Dependencies(_)) => {
                if self.resolved != Some(before) {
                    self.before_resolved = Some((before, seen.before.digest()));
                }
                self.resolved = Some(seen.event.seq);
            }
            Ok(Fact::Recovery(fact)) => {
                self.recoveries += 1;
                self.rebuilt |= !fact.reconstructed.is_empty();
                self.uncertain |= !fact.lost.is_empty();
            }
            Ok(Fact::Checkpoint(fact)) if fact.fold == FOLD_VERSION && !self.uncertain => {
                let (Some(digest), Some(after)) = (&fact.digest, fact.after) else { return };
                let known = if after == before {
                    Some(seen.before.digest())
                } else {
                    let mut known =
                        [self.before_writer, self.before_resolved].into_iter().flatten();
                    known.find(|(seq, _)| *seq == after).map(|(_, digest)| digest)
                };
                if known.is_some_and(|known| known.to_string() != *digest) {
                    self.differ.push((seen.event.seq, fact.number));
                }
            }
            _ => {}
        }
        self.uncertain |= seen.event.data.is_none();
    }

    fn finish(&mut self, state: &SessionState, findings: &mut Vec<Finding>) {
        let mut few = BoundedFindings::new("checkpoint-digest", FindingType::Checksum);
        // An event that was erased or written again may be rewound, and so may the recovery that
        // reports it. Rewound events are not seen here.
        let health = &state.core.health;
        let explained = health.erased > 0 || self.rebuilt || health.recoveries != self.recoveries;
        for (seq, number) in self.differ.drain(..).filter(|_| !explained) {
            let name = number.map(|number| format!(" {number}")).unwrap_or_default();
            few.add(
                Severity::Error,
                FindingPlace::event(seq),
                format!(
                    "the events before checkpoint{name} give a different state than it was made of"
                ),
                Repair::by_hand("compare with a bundle or another copy of the session"),
            );
        }
        few.finish(findings);
    }
}
