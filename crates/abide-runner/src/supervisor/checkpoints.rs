//! The checkpoints of a run, from first to last.

use abide::{
    CheckpointRequest, Checkpointer,
    checkpoint::{CheckpointerEvent, CheckpointerOptions, Trigger},
    event::StatusChange,
};

use super::Supervisor;
use crate::RunError;
use crate::run_event::RunEvent;
use crate::run_summary::{RunCheckpointTotals, SummaryDifference};

/// The totals collected while a run is closed.
#[derive(Debug, Default)]
pub(crate) struct ClosingTotals {
    pub(crate) checkpoints: RunCheckpointTotals,
    pub(crate) difference: Option<SummaryDifference>,
}

impl Supervisor<'_> {
    /// Makes the first checkpoint, and starts those at intervals, unless the run makes none.
    pub(crate) fn start_checkpoints(&mut self) -> Result<(), RunError> {
        let Some(interval) = self.options.interval() else { return Ok(()) };
        let options = CheckpointerOptions {
            interval,
            request: CheckpointRequest {
                lenient: true,
                process: Some(std::process::id()),
                ..CheckpointRequest::default()
            },
        };
        self.checkpoints = Some(Checkpointer::start(self.session.clone(), options)?);
        self.take_checkpoints();
        Ok(())
    }

    pub(super) fn take_checkpoints(&mut self) {
        let Some((_, events)) = &self.checkpoints else { return };
        let events: Vec<CheckpointerEvent> = events.try_iter().collect();
        for event in events {
            match event {
                CheckpointerEvent::Checkpoint(made) => {
                    if self.first.is_none() {
                        self.first.clone_from(&made.snapshot);
                    }
                    self.last = made.snapshot.clone().or(self.last.take());
                    if let Some(error) = &made.checkpoint.error {
                        self.warn(format!("checkpoint {} holds no files: {error}", made.number));
                    }
                    self.tell(&RunEvent::Checkpoint(made));
                }
                CheckpointerEvent::Unchanged(held) => {
                    self.first.get_or_insert_with(|| held.snapshot.clone());
                    self.last = Some(held.snapshot);
                }
                CheckpointerEvent::Failed(error) => self.warn(format!("no checkpoint: {error}")),
                CheckpointerEvent::Started { .. } | CheckpointerEvent::Stopped(_) => {}
            }
        }
    }

    pub(super) fn checkpoint(&mut self, trigger: Trigger) {
        if let Some((checkpointer, _)) = &self.checkpoints
            && let Err(error) = checkpointer.capture(trigger)
        {
            self.warn(format!("no checkpoint: {error}"));
        }
        self.take_checkpoints();
    }

    /// Compacts what is due, makes the last checkpoint, records the session's status, and compares
    /// the files with those at the beginning.
    pub(crate) fn close_with_checkpoint(&mut self, standing: StatusChange) -> ClosingTotals {
        self.end_compactor();
        let mut closing = ClosingTotals::default();
        if let Some((checkpointer, events)) = self.checkpoints.take() {
            let stopped = checkpointer.stop();
            for event in events.try_iter() {
                match event {
                    CheckpointerEvent::Checkpoint(made) => {
                        self.last = made.snapshot.clone().or(self.last.take());
                        self.tell(&RunEvent::Checkpoint(made));
                    }
                    CheckpointerEvent::Unchanged(held) => self.last = Some(held.snapshot),
                    _ => {}
                }
            }
            match stopped {
                Ok(summary) => closing.checkpoints = (&summary).into(),
                Err(error) => self.warn(format!("no last checkpoint: {error}")),
            }
        }
        if let (Some(first), Some(last)) = (&self.first, &self.last)
            && let Ok(objects) = self.session.store().objects()
        {
            closing.difference = SummaryDifference::between(&*objects, first, last);
        }
        let ended = self.session.append(standing).and_then(|ticket| Ok(ticket.wait()?));
        if let Err(error) = ended {
            self.warn(format!("the session's status was not recorded: {error}"));
        }
        closing
    }
}
