//! Examines the objects that a session names: the texts of its events, and the files of its
//! checkpoints.

use std::collections::BTreeSet;

use abide_model::{
    Finding, FindingPlace, FindingType, ObjectHash, Repair, Seq, SessionState, StoreError,
};
use abide_workspace::{Losses, Reach, ReachError, ReadObjectFn};

use crate::examination::{doctor_error, doctor_warning};
use crate::examined_lines::{CheckpointSnapshot, ExaminedLines};
use crate::live_objects::ObjectsThereFn;

/// How objects are read while a session is examined.
#[allow(missing_debug_implementations)]
pub struct ExaminedObjects<'a> {
    /// Reads an object; `None` if it is missing or damaged.
    pub read: &'a ReadObjectFn<'a>,
    /// Tells which objects can be read.
    pub readable: &'a ObjectsThereFn<'a>,
}

impl ExaminedObjects<'_> {
    /// Checks that every object can be read that an event or a checkpoint names. Returns those that
    /// are lost and that no later repair has named as lost.
    pub fn check(
        &self,
        lines: &ExaminedLines,
        state: Option<&SessionState>,
        findings: &mut Vec<Finding>,
    ) -> Result<Vec<ObjectHash>, StoreError> {
        let named = lines.named_as_lost();
        let is_known = |hash: &ObjectHash, seq: Seq| named.get(hash).is_some_and(|at| *at > seq);
        let mut lost = BTreeSet::new();
        for (hash, (first, last)) in &lines.payloads {
            if (self.read)(*hash)?.is_none() && !is_known(hash, *last) {
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
        lines: &ExaminedLines,
        state: Option<&SessionState>,
    ) -> Result<(Vec<CheckpointSnapshot>, Vec<CheckpointSnapshot>), StoreError> {
        let named = lines.named_as_lost();
        let thinned = state.map(|state| &state.core.checkpoints);
        let (mut kept, mut unkept) = (Vec::new(), Vec::new());
        for at @ (snapshot, _, number) in &lines.snapshots {
            if number.zip(thinned).is_some_and(|(number, all)| all.is_thinned(number)) {
                continue;
            }
            if (self.read)(*snapshot)?.is_some() {
                kept.push(*at);
            } else if !named.contains_key(snapshot) {
                unkept.push(*at);
            }
        }
        Ok((kept, unkept))
    }

    /// The objects of these checkpoints that cannot be read.
    fn object_losses(&self, snapshots: &[CheckpointSnapshot]) -> Result<Losses, StoreError> {
        let mut reach = Reach::default();
        let mut whole = true;
        for (snapshot, ..) in snapshots {
            match reach.add(self.read, *snapshot) {
                Ok(()) => {}
                Err(ReachError::Store(error)) => return Err(error),
                Err(ReachError::Missing { .. } | ReachError::Form { .. }) => whole = false,
            }
        }
        let all: Vec<ObjectHash> = reach.objects.into_iter().collect();
        if whole && !(self.readable)(&all)?.contains(&false) {
            return Ok(Losses::default());
        }
        // Collect who refers to what only if something is lost.
        let snapshots: Vec<_> = snapshots.iter().map(|(snapshot, ..)| *snapshot).collect();
        Losses::of(&snapshots, self.read, self.readable)
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
