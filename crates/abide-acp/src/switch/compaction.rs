//! Compacts the context of a session by itself after a prompt.

use std::sync::Arc;

use abide::context::{Compactor, CompactorEvent, undo_of_compaction};

use super::Switch;
use crate::live_session::LiveSession;

impl Switch {
    /// Has the context of a session compacted if it exceeds the threshold. Waits for no summary.
    pub(super) fn compact(self: &Arc<Self>, live: &Arc<LiveSession>) {
        let Some(settings) = &self.manner.compaction else { return };
        let (session, window) = {
            let book = live.book();
            (book.session().cloned(), book.translator.window())
        };
        let Some(session) = session else { return };
        let Some(threshold) = settings.threshold(session.store()) else { return };
        let mut compactor = live.compactor();
        // The store may have failed, and the session been opened again.
        if !compactor.as_ref().is_some_and(|compactor| compactor.is_of(&session)) {
            let (switch, named) = (Arc::downgrade(self), Arc::downgrade(live));
            let tell = move |event| {
                if let (Some(switch), Some(live)) = (switch.upgrade(), named.upgrade()) {
                    switch.tell_compaction(&live, event);
                }
            };
            let by = settings.summarizer.clone();
            *compactor = Some(Compactor::start(&session, threshold, by, tell));
        }
        if let Some(compactor) = &*compactor {
            if let Some(window) = window {
                compactor.set_window(window);
            }
            compactor.settle();
        }
    }

    fn tell_compaction(&self, live: &LiveSession, event: CompactorEvent) {
        match event {
            CompactorEvent::Compacted { ref lane, .. } => {
                let undo = undo_of_compaction(lane.as_ref());
                self.tell(live, "info", &format!("{event}; `{undo}` takes it back."));
            }
            CompactorEvent::Failed(_) => self.tell(live, "warning", &format!("abide: {event}.")),
        }
    }
}
