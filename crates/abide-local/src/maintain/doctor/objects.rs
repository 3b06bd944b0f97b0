//! Examines the objects that a session names: the texts of its events, and the files of its
//! checkpoints.

use std::collections::BTreeSet;

use abide_model::{
    Finding, FindingPlace, FindingType, ObjectHash, Repair, Seq, SessionState, StoreError,
};
use abide_workspace::{Losses, Reach, ReachError};

use super::session::SessionJournalWalk;
use super::{Doctor, RecordedLosses, doctor_error, doctor_warning};
use crate::error::store_error;

/// The snapshot of a checkpoint, its event and its number.
pub(super) type CheckpointSnapshot = (ObjectHash, Seq, Option<u64>);

impl Doctor<'_> {
    /// Checks that every object can be read that an event or a checkpoint names. Returns those that
    /// are lost and that no later repair has named as lost.
    pub(super) fn check_objects_of(
        &self,
        lines: &SessionJournalWalk,
        state: Option<&SessionState>,
        findings: &mut Vec<Finding>,
    ) -> Result<Vec<ObjectHash>, StoreError> {
        let packs = self.store.packs();
        let named = lines.named_as_lost();
        let is_known = |hash: &ObjectHash, seq: Seq| named.get(hash).is_some_and(|at| *at > seq);
        let mut lost = BTreeSet::new();
        for (hash, (first, last)) in &lines.payloads {
            if packs.read(*hash).map_err(store_error)?.is_none() && !is_known(hash, *last) {
                lost.insert(*hash);
                findings.push(missing_object(
                    *hash,
                    *first,
                    "the object of an event's text is missing or damaged".to_owned(),
                ));
            }
        }
        let (kept, unkept) = self.kept_snapshots(lines, state)?;
        let losses = self.object_losses(&kept)?;
        // First those that no repair has named, or that were named longest ago.
        let leading = losses.leading(|hash| named.get(&hash).copied());
        for (snapshot, seq, number) in &kept {
            let Some(object) = leading.get(snapshot) else { continue };
            let checkpoint = number
                .map_or_else(|| "a checkpoint".to_owned(), |number| format!("checkpoint {number}"));
            if is_known(object, *seq) {
                findings.push(doctor_warning(
                    "damaged-checkpoint",
                    FindingType::Referential,
                    FindingPlace::event(*seq),
                    format!(
                        "not all files of {checkpoint} can be restored: object {object} is lost"
                    ),
                    Repair::by_hand(
                        "make a checkpoint: it stores again what is still in the workspace",
                    ),
                ));
            } else {
                lost.extend(&losses.objects);
                let what = format!("{checkpoint} needs it, and it is missing or damaged");
                findings.push(missing_object(*object, *seq, what));
            }
        }
        if let Some((snapshot, seq, _)) = unkept.first() {
            findings.push(doctor_warning(
                "missing-snapshot",
                FindingType::Referential,
                FindingPlace::subject(format!("object {snapshot}")).of_event(*seq),
                format!(
                    "the files of {} checkpoints are not in this store: the session was imported without them, or they are lost",
                    unkept.len()
                ),
                Repair::by_hand("files cannot be restored to those checkpoints; the conversation can"),
            ));
        }
        Ok(lost.into_iter().collect())
    }

    /// The checkpoints that retention has not removed: those whose snapshot is in the store, and
    /// the others.
    fn kept_snapshots(
        &self,
        lines: &SessionJournalWalk,
        state: Option<&SessionState>,
    ) -> Result<(Vec<CheckpointSnapshot>, Vec<CheckpointSnapshot>), StoreError> {
        let named = lines.named_as_lost();
        let thinned = state.map(|state| &state.core.checkpoints);
        let (mut kept, mut unkept) = (Vec::new(), Vec::new());
        for at @ (snapshot, _, number) in &lines.snapshots {
            if number.zip(thinned).is_some_and(|(number, all)| all.is_thinned(number)) {
                continue;
            }
            if self.store.packs().read(*snapshot).map_err(store_error)?.is_some() {
                kept.push(*at);
            } else if !named.contains_key(snapshot) {
                unkept.push(*at);
            }
        }
        Ok((kept, unkept))
    }

    /// The objects of these checkpoints that cannot be read.
    fn object_losses(&self, snapshots: &[CheckpointSnapshot]) -> Result<Losses, StoreError> {
        let packs = self.store.packs();
        let read = |hash| packs.read(hash).map_err(store_error);
        let mut reach = Reach::default();
        let mut whole = true;
        for (snapshot, ..) in snapshots {
            match reach.add(&read, *snapshot) {
                Ok(()) => {}
                Err(ReachError::Store(error)) => return Err(error),
                Err(ReachError::Missing { .. } | ReachError::Form { .. }) => whole = false,
            }
        }
        let readable = |hashes: &[ObjectHash]| packs.readable(hashes).map_err(store_error);
        let all: Vec<ObjectHash> = reach.objects.into_iter().collect();
        if whole && !readable(&all)?.contains(&false) {
            return Ok(Losses::default());
        }
        // Collect who refers to what only if something is lost.
        let snapshots: Vec<_> = snapshots.iter().map(|(snapshot, ..)| *snapshot).collect();
        Losses::of(&snapshots, &read, &readable)
    }

    /// Permanent losses that are named as such. An object that was stored again does not count.
    pub(super) fn missing(&self, lines: &SessionJournalWalk) -> Result<RecordedLosses, StoreError> {
        let all = || lines.recoveries.iter().map(|(_, recovery)| recovery);
        let named: Vec<ObjectHash> = lines.named_as_lost().into_keys().collect();
        let there = self.store.packs().readable(&named).map_err(store_error)?;
        let gone = named.into_iter().zip(there).filter(|(_, there)| !there);
        Ok(RecordedLosses {
            events: all().flat_map(|fact| fact.lost.iter().copied()).collect(),
            objects: gone.map(|(hash, _)| hash).collect(),
            calls: all().flat_map(|fact| fact.unknown.iter().cloned()).collect(),
        })
    }
}

fn missing_object(hash: ObjectHash, seq: Seq, message: String) -> Finding {
    doctor_error(
        "missing-object",
        FindingType::Referential,
        FindingPlace::subject(format!("object {hash}")).of_event(seq),
        message,
        Repair::automatic("it is recorded as lost, and stored again when it next occurs"),
    )
}
