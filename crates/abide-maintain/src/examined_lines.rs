//! The lines of a session, as an examination collects them.

use std::collections::BTreeMap;

use abide_journal::JournalLine;
use abide_model::{
    Event, Fact, Finding, FindingPlace, FindingType, Kind, MessageRevisions, ObjectHash, Recovery,
    Repair, Seq, StoreError, Timestamp, rewind_target,
};

use crate::checkpoint_numbers::CheckpointNumbers;
use crate::examination::{RecordedLosses, doctor_error, doctor_warning};

/// How many milliseconds a clock may be ahead of ours.
const CLOCK: i64 = 5 * 60 * 1000;

/// The snapshot of a checkpoint, its event and its number.
pub type CheckpointSnapshot = (ObjectHash, Seq, Option<u64>);

/// What a pass over the lines of a session collects.
#[derive(Debug, Default)]
pub struct ExaminedLines {
    /// Its rewinds, with their targets.
    pub rewinds: Vec<(Seq, Seq)>,
    /// Its messages that replace others.
    pub revisions: MessageRevisions,
    /// Objects that hold payloads, and the first and last event that name each.
    pub payloads: BTreeMap<ObjectHash, (Seq, Seq)>,
    /// Snapshots of checkpoints, with the event and number of each.
    pub snapshots: Vec<CheckpointSnapshot>,
    /// The last event.
    pub last: Seq,
    /// The latest time of an event.
    pub latest: Timestamp,
    /// Something cannot be read, whether or not it costs an event.
    pub damaged: bool,
    /// Lost events: first and last of each range.
    pub lost: Vec<(Seq, Seq)>,
    /// What splices call lost.
    pub spliced: Vec<(Seq, Seq)>,
    /// Recoveries that were not undone, with their events.
    pub recoveries: Vec<(Seq, Recovery)>,
}

impl ExaminedLines {
    /// The objects that recoveries name as lost, and the last recovery that names each.
    #[must_use]
    pub fn named_as_lost(&self) -> BTreeMap<ObjectHash, Seq> {
        let all = self.recoveries.iter();
        all.flat_map(|(seq, fact)| fact.lost_objects.iter().map(|hash| (*hash, *seq))).collect()
    }

    /// Whether a repair asks for a person to look at the session.
    #[must_use]
    pub fn requires_validation(&self) -> bool {
        let wanted =
            |wants: bool, fact: &Recovery| (wants || fact.requires_validation) && !fact.accepted;
        self.recoveries.iter().map(|(_, fact)| fact).fold(false, wanted)
    }

    /// What splices call lost and no recovery names: a repair was interrupted between the two.
    #[must_use]
    pub fn unnamed(&self) -> Vec<(Seq, Seq)> {
        let named = |(first, last): &(Seq, Seq)| {
            let mut named = self.recoveries.iter().flat_map(|(_, fact)| &fact.lost);
            named.any(|(from, to)| from <= first && last <= to)
        };
        self.spliced.iter().filter(|range| !named(range)).copied().collect()
    }

    /// Takes a line. `place` is where it is, for a finding about an event that no version writes.
    pub fn line(
        &mut self,
        line: &JournalLine<'_>,
        numbers: &mut CheckpointNumbers,
        place: impl FnOnce() -> (FindingPlace, String),
    ) -> Option<Finding> {
        self.last = line.seq;
        for object in line.objects() {
            let named = self.payloads.entry(object.hash);
            named.or_insert((line.seq, line.seq)).1 = line.seq;
        }
        match line.event() {
            Some(event) if is_json(&event) => {
                self.take(&event, numbers);
                None
            }
            _ => {
                let (place, at) = place();
                Some(doctor_error(
                    "event-form",
                    FindingType::Structural,
                    place.of_event(line.seq),
                    format!("{at}its sum is good, but it is not an event"),
                    Repair::by_hand("report it: no version of abide writes this"),
                ))
            }
        }
    }

    /// A finding if an event is of the future.
    #[must_use]
    pub fn clock_finding(&self, now: Timestamp) -> Option<Finding> {
        (self.latest.as_millis() > now.as_millis().saturating_add(CLOCK)).then(|| {
            doctor_warning(
                "future-clock",
                FindingType::BusinessLogic,
                FindingPlace::event(self.last),
                format!("its time, {}, is in the future; it is now {now}", self.latest),
                Repair::by_hand("set the clock; events keep their order whatever their times"),
            )
        })
    }

    /// Permanent losses that are named as such. An object that was stored again does not count.
    pub fn recorded_losses(
        &self,
        readable: impl FnOnce(&[ObjectHash]) -> Result<Vec<bool>, StoreError>,
    ) -> Result<RecordedLosses, StoreError> {
        let all = || self.recoveries.iter().map(|(_, recovery)| recovery);
        let named: Vec<ObjectHash> = self.named_as_lost().into_keys().collect();
        let there = readable(&named)?;
        let gone = named.into_iter().zip(there).filter(|(_, there)| !there);
        Ok(RecordedLosses {
            events: all().flat_map(|fact| fact.lost.iter().copied()).collect(),
            objects: gone.map(|(hash, _)| hash).collect(),
            calls: all().flat_map(|fact| fact.unknown.iter().cloned()).collect(),
        })
    }

    fn take(&mut self, event: &Event, numbers: &mut CheckpointNumbers) {
        self.latest = self.latest.max(event.at);
        self.rewinds.extend(rewind_target(event).map(|to| (event.seq, to)));
        self.revisions.note(event);
        let kinds = [Kind::CHECKPOINT_CREATED, Kind::CHECKPOINT_THINNED, Kind::RECOVERY_PERFORMED];
        let Some(fact) = kinds.contains(&event.kind).then(|| event.fact().ok()).flatten() else {
            return;
        };
        let number = numbers.take(&event.kind, &fact);
        match fact {
            Fact::Checkpoint(fact) => {
                self.snapshots.extend(fact.snapshot.map(|snapshot| (snapshot, event.seq, number)));
            }
            Fact::Recovery(fact) => note_recovery(&mut self.recoveries, event.seq, fact),
            _ => {}
        }
    }
}

/// Adds a recovery. One that was undone removes its entry.
pub fn note_recovery(recoveries: &mut Vec<(Seq, Recovery)>, seq: Seq, fact: Recovery) {
    if fact.strategy == "undo" && fact.repair.is_some() {
        recoveries.retain(|(_, recovery)| recovery.repair != fact.repair);
    }
    recoveries.push((seq, fact));
}

/// Whether the payload is JSON. The rules check those of known kinds.
fn is_json(event: &Event) -> bool {
    Kind::VOCABULARY.contains(&event.kind.as_str())
        || event.data.as_ref().is_none_or(|data| data.decode::<serde::de::IgnoredAny>().is_ok())
}
