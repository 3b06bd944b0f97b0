//! The contexts of a run, compacted by themselves.

use std::sync::mpsc::channel;

use abide::context::{Compactor, CompactorEvent};

use super::Supervisor;
use crate::run_event::RunEvent;
use crate::stop::StopUrgency;

impl Supervisor<'_> {
    /// Starts the compactor, if the options or the store ask for it.
    pub(crate) fn start_compactor(&mut self) {
        let Some(settings) = &self.options.compaction else { return };
        let Some(threshold) = settings.threshold(self.session.store()) else { return };
        let (sender, events) = channel();
        // Nobody may be listening any more.
        let tell = move |event| drop(sender.send(event));
        let by = settings.summarizer.clone();
        self.compactor = Some((Compactor::start(&self.session, threshold, by, tell), events));
    }

    /// Has the compactor look at what was recorded.
    pub(super) fn wake_compactor(&self) {
        if let Some((compactor, _)) = &self.compactor {
            compactor.wake();
        }
    }

    /// Has the compactor record a summary that waits for the end of a turn.
    pub(super) fn settle_compactor(&self) {
        if let Some((compactor, _)) = &self.compactor {
            compactor.settle();
        }
    }

    /// Reports what the compactor has done.
    pub(super) fn take_compactions(&mut self) {
        let Some((_, events)) = &self.compactor else { return };
        let events: Vec<CompactorEvent> = events.try_iter().collect();
        self.report_compactions(events);
    }

    fn report_compactions(&mut self, events: Vec<CompactorEvent>) {
        for event in events {
            match event {
                CompactorEvent::Compacted { lane, result } => {
                    self.tell(&RunEvent::Compacted { lane, result });
                }
                CompactorEvent::Failed(_) => self.warn(event.to_string()),
            }
        }
    }

    /// Compacts what is due, unless the run is to stop now.
    pub(super) fn end_compactor(&mut self) {
        let Some((compactor, events)) = self.compactor.take() else { return };
        if self.stop.urgency() < StopUrgency::Now {
            compactor.finish();
        } else {
            drop(compactor);
        }
        self.report_compactions(events.try_iter().collect());
    }
}
