//! Examines what a fork shares with its ancestors, and what a repair of an ancestor means for its
//! forks.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use abide_journal::{JournalItem, JournalWalkStart};
use abide_maintain::{doctor_error, note_recovery};
use abide_model::{
    Fact, Finding, FindingPlace, FindingType, Kind, Recovery, Repair, Seq, SessionId, StoreError,
};

use super::Doctor;
use crate::error::store_error;
use crate::sessions::local_reader::LocalReader;
use crate::sessions::session_ancestry::SessionAncestry;

impl Doctor<'_> {
    /// Checks that a fork's ancestors are in the store and that the chain is unbroken. It may be
    /// broken where a repair of an ancestor has said why.
    pub(super) fn check_past(
        &self,
        reader: &LocalReader,
        findings: &mut Vec<Finding>,
    ) -> Result<bool, StoreError> {
        let past = reader.past().map_err(store_error)?;
        if !past.is_fork() {
            return Ok(true);
        }
        let place =
            FindingPlace::subject(format!("the shared events of session {}", reader.session()));
        if let Some(note) = past.note(Seq::FIRST) {
            findings.push(doctor_error(
                "missing-parent",
                FindingType::Referential,
                place,
                note.to_string(),
                Repair::by_hand("import its parent session"),
            ));
            return Ok(false);
        }
        let last = past.last();
        let shared = past.sum_of(last).map_err(store_error)?;
        let mut chained = false;
        let walked = reader.journal().walk(JournalWalkStart::beginning(), None, &mut |found| {
            match found {
                JournalItem::Event { line, .. } => {
                    chained = shared.is_some_and(|sum| sum.link() == line.prev)
                        || line.seq > past.own_first();
                }
                // A repair has joined them.
                JournalItem::Splice { .. } => chained = true,
                _ => return ControlFlow::Continue(()),
            }
            ControlFlow::Break(())
        });
        walked.map_err(store_error)?;
        let names_it = |(first, end): &(Seq, Seq)| (*first..=*end).contains(&last);
        if chained || self.mended_past(past)?.iter().any(names_it) {
            return Ok(true);
        }
        let holder = past.stretches().last().map(|stretch| stretch.reader.session());
        let (message, how) = match (shared, holder) {
            (None, Some(holder)) => (
                format!(
                    "event @{last} of session {holder}, from which it was forked, cannot be read"
                ),
                format!("repair that session: `abide doctor {holder} --repair`"),
            ),
            _ => (
                format!("its first event does not follow from event @{last} of its parent session"),
                "compare the two sessions; the fork's own events are readable".to_owned(),
            ),
        };
        findings.push(doctor_error(
            "fork-chain",
            FindingType::Checksum,
            place,
            message,
            Repair::by_hand(how),
        ));
        Ok(true)
    }

    /// The shared events that repairs of ancestors have named as lost or reconstructed: first and
    /// last of each range. Those repairs are recorded after the event that was forked at, where the
    /// fork does not see them.
    pub(super) fn mended_past(
        &self,
        past: &SessionAncestry,
    ) -> Result<Vec<(Seq, Seq)>, StoreError> {
        let mut mended = Vec::new();
        for stretch in past.stretches() {
            for (_, fact) in recoveries(&stretch.reader)? {
                let ranges = fact.lost.iter().chain(&fact.reconstructed);
                mended.extend(ranges.filter_map(|(first, last)| {
                    let (first, last) = (stretch.first.max(*first), stretch.last.min(*last));
                    (first <= last).then_some((first, last))
                }));
            }
        }
        Ok(mended)
    }

    /// Removes the state caches of a session's forks, and of theirs: they were folded from its
    /// events before the repair.
    pub(super) fn forget_forks(&self, session: SessionId) -> Result<(), StoreError> {
        let forks = self.store.forker().all()?;
        let mut seen = HashSet::from([session]);
        let mut left = vec![session];
        while let Some(parent) = left.pop() {
            for (fork, _) in forks.iter().filter(|(_, link)| link.session == parent) {
                if !seen.insert(*fork) {
                    continue;
                }
                let layout = self.store.layout_of(*fork)?;
                // A writer that has it open holds its state, and will cache it.
                if let Ok(_lock) = self.store.lock_session(*fork, &layout, Duration::ZERO) {
                    self.forget_state(&layout)?;
                }
                left.push(*fork);
            }
        }
        Ok(())
    }
}

/// The recoveries of a session that were not undone, with their events.
fn recoveries(reader: &LocalReader) -> Result<Vec<(Seq, Recovery)>, StoreError> {
    let mut found = Vec::new();
    let mark = reader.mark().map_err(store_error)?;
    let last = reader.last().map_err(store_error)?;
    let walked = reader.each_own_event(last, mark, &mut |event| {
        if event.kind == Kind::RECOVERY_PERFORMED
            && let Ok(Fact::Recovery(fact)) = event.fact()
        {
            note_recovery(&mut found, event.seq, fact);
        }
    });
    walked.map_err(store_error)?;
    Ok(found)
}
