//! Undoes a repair: restores the files, rewinds the session, and records it.

use std::time::Duration;

use abide_maintain::repair_event;
use abide_model::{
    AnomalyPolicy, Durability, Recovery, Rewind, Seq, SessionId, SessionWriter, StoreError,
    Timestamp, path_text,
};
use serde::Serialize;

use super::Doctor;
use super::quarantine::{Quarantine, RepairRecord};
use crate::error::store_error;

/// What undoing a repair will do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UndoPlan {
    /// The session.
    pub session: SessionId,
    /// The repair.
    pub repair: String,
    /// When it was made.
    pub at: Timestamp,
    /// Files that are restored, relative to the store.
    pub files: Vec<String>,
    /// Files that the repair created and that are removed, relative to the store.
    pub removed: Vec<String>,
    /// The event that the session is rewound to; `None` if the repair added nothing to it.
    pub to: Option<Seq>,
    /// How many events leave the session's view; they stay in the journal.
    pub left_out: u64,
}

impl Doctor<'_> {
    /// Plans undoing the last repair of a session; `None` if there is none, or if the session was
    /// rewound since, which must be undone first.
    pub fn plan_undo(&self, session: SessionId) -> Result<Option<UndoPlan>, StoreError> {
        let core = self
            .store
            .reader(session)?
            .look(crate::sessions::session_ancestry::MissingParentPolicy::PassOver);
        let core = core.map_err(store_error)?.state.core;
        let Some((record, end)) = self.repair_to_undo(session)? else { return Ok(None) };
        if core.last_rewind.is_some_and(|rewind| rewind > end) {
            return Ok(None);
        }
        // A repair that only recorded itself leaves the session's view as it is.
        let to = record.said.then_some(record.before).filter(|to| *to > Seq::ZERO);
        Ok(Some(UndoPlan {
            session,
            repair: record.id.clone(),
            at: record.at,
            files: files_of_undo(&record, true),
            removed: files_of_undo(&record, false),
            to,
            left_out: to.map_or(0, |to| core.seq.0.saturating_sub(to.0)),
        }))
    }

    /// Undoes a repair as planned.
    pub fn undo(&self, plan: &UndoPlan, wait: Duration) -> Result<(), StoreError> {
        let session = plan.session;
        let layout = self.store.layout_of(session)?;
        let lock = self.store.lock_session(session, &layout, wait)?;
        let found = self.repair_to_undo(session)?.filter(|(record, _)| record.id == plan.repair);
        let Some((record, _)) = found else {
            return Err(StoreError::Damaged {
                place: format!("repair {}", plan.repair),
                reason: "it is no longer the last repair of its session".to_owned(),
            });
        };
        let quarantine = Quarantine::new(self.store);
        if record.files.iter().any(|filed| !filed.stays) {
            let _index = self.store.index().remove()?;
            quarantine.put_back(&record, &layout.dir)?;
            self.forget_places(&layout)?;
            // Best effort: if it fails, an examination of the fork finds it.
            let _ = self.forget_forks(session);
        }
        let writer = self.store.repair_writer(session, &layout, lock)?;
        if let Some(to) = plan.to {
            let event = repair_event(Rewind { to, ..Rewind::default() })?;
            writer.append(vec![event], Durability::Synced, AnomalyPolicy::Keep)?.wait()?;
        }
        writer.note_recovered(&Recovery {
            strategy: "undo".to_owned(),
            repair: Some(record.id.clone()),
            ..Recovery::default()
        })?;
        writer.finish()?;
        quarantine.undone(&record.id)
    }

    /// The last completed repair of a session that was not undone, and its last event.
    fn repair_to_undo(
        &self,
        session: SessionId,
    ) -> Result<Option<(RepairRecord, Seq)>, StoreError> {
        let quarantine = Quarantine::new(self.store);
        let records = quarantine.records()?.into_iter().rev();
        let mut of_session = records.filter(|record| record.session == Some(session));
        let found = of_session.find(|record| !quarantine.is_undone(&record.id));
        Ok(found.and_then(|record| quarantine.end(&record.id).map(|end| (record, end))))
    }
}

/// The files that an undo restores, or those that it removes.
fn files_of_undo(record: &RepairRecord, was: bool) -> Vec<String> {
    let files = record.files.iter().filter(|filed| !filed.stays && filed.was == was);
    files.map(|filed| path_text::text(&filed.path)).collect()
}
