//! The events that a repair appends.

use std::sync::Arc;

use abide_model::{
    AnomalyPolicy, AppendError, Durability, InputError, NewEvent, Recovery, Rewind, Seq,
    SessionStatus, SessionWriter, StatusChange, StoreError,
};

use crate::examination::Examination;
use crate::repair_plan::{RepairAction, RepairPlan, RepairStrategy};

/// The events that a planned repair appends to its session.
#[derive(Debug)]
pub struct RepairEvents<'a> {
    plan: &'a RepairPlan,
    examination: &'a Examination,
    back: Option<Seq>,
    ends: bool,
    interrupts: bool,
    named: bool,
}

impl<'a> RepairEvents<'a> {
    /// Those of a plan.
    #[must_use]
    pub fn of(plan: &'a RepairPlan, examination: &'a Examination) -> Self {
        let has = |wanted: &dyn Fn(&RepairAction) -> bool| plan.actions.iter().any(wanted);
        let back = plan.actions.iter().find_map(|action| match action {
            RepairAction::GoBack { to, .. } => Some(*to),
            _ => None,
        });
        Self {
            plan,
            examination,
            back,
            ends: has(&|action| matches!(action, RepairAction::EndCalls { .. })),
            interrupts: has(&|action| *action == RepairAction::Interrupt),
            named: has(&|action| matches!(action, RepairAction::NameLost { .. })),
        }
    }

    /// What the repair did, as the first event says it; `None` if there is nothing to append. `lost`
    /// are the events that stay lost.
    #[must_use]
    pub fn recovery(&self, id: &str, lost: Vec<(Seq, Seq)>) -> Option<Recovery> {
        let strategy = self.plan.strategy;
        let any = strategy.is_some() || self.ends || self.interrupts || self.named;
        let facts = &self.examination.facts;
        (any || self.back.is_some()).then(|| Recovery {
            strategy: strategy.map_or("none", RepairStrategy::as_str).to_owned(),
            repair: Some(id.to_owned()),
            lost,
            lost_objects: facts.lost_objects.clone(),
            unknown: if self.ends { facts.unknown.clone() } else { Vec::new() },
            requires_validation: self.named && self.back.is_none()
                || strategy == Some(RepairStrategy::Partial),
            ..Recovery::default()
        })
    }

    /// Appends the others: the rewind, the results of calls, the status. `open` tells what ends the
    /// calls that are open after the rewind. Returns the last event.
    pub fn append(
        &self,
        writer: &dyn SessionWriter,
        open: &dyn Fn() -> Result<Vec<NewEvent>, StoreError>,
    ) -> Result<Option<Seq>, StoreError> {
        let mut last = None;
        let mut add = |events: Vec<NewEvent>| -> Result<(), StoreError> {
            for event in events {
                let ticket = writer.append(vec![event], Durability::Synced, AnomalyPolicy::Keep)?;
                last = ticket.wait()?.last().map_or(last, |done| Some(done.seq));
            }
            Ok(())
        };
        if let Some(to) = self.back {
            add(vec![repair_event(Rewind { to, ..Rewind::default() })?])?;
            add(open()?)?;
        } else if self.ends {
            add(self.examination.facts.closing.clone())?;
        }
        if self.interrupts {
            let reason = Some("its writer died".to_owned());
            add(vec![repair_event(StatusChange {
                status: SessionStatus::Interrupted,
                reason,
                summary: None,
            })?])?;
        }
        Ok(last)
    }
}

/// An event of a repair.
pub fn repair_event<T>(fact: T) -> Result<NewEvent, StoreError>
where
    NewEvent: TryFrom<T, Error = InputError>,
{
    NewEvent::try_from(fact)
        .map_err(|source| AppendError::Input { index: 0, source: Arc::new(source) }.into())
}
