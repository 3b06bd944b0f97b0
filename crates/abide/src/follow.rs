//! Follows a session live, including appends by other processes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use abide_model::{Event, EventRange, ReadFinding, Seq};

use crate::{Error, SessionView};

/// Polling interval for stores that send no notification.
const PAUSE: Duration = Duration::from_millis(20);
const PAGE: usize = 256;

/// Yields events once they are acknowledged; never one that a power failure could take back.
#[derive(Debug)]
pub struct EventFollower {
    view: SessionView,
    next: Seq,
    page: VecDeque<Event>,
    notes: Vec<ReadFinding>,
}

impl EventFollower {
    pub(crate) fn new(view: SessionView, first: Seq) -> Self {
        Self { view, next: first.max(Seq::FIRST), page: VecDeque::new(), notes: Vec::new() }
    }

    /// The next event; `None` if none arrives within `wait`.
    pub fn next_within(&mut self, wait: Duration) -> Result<Option<Event>, Error> {
        let until = Instant::now().checked_add(wait);
        loop {
            if let Some(event) = self.page.pop_front() {
                self.next = event.seq.next();
                return Ok(Some(event));
            }
            let last = self.view.acknowledged()?;
            if last >= self.next {
                let range = EventRange { last, ..EventRange::from(self.next).limit(PAGE) };
                let page = self.view.page(range)?;
                if page.events.is_empty() {
                    // Everything up to there is lost. Continue after it.
                    self.next = last.next();
                }
                self.notes.extend(page.notes);
                self.page = page.events.into();
                continue;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let asked = Instant::now();
            if !self.view.grown(last, left.unwrap_or(Duration::MAX))? {
                // The store may have waited already.
                let pause = left.map_or(PAUSE, |left| left.min(PAUSE));
                std::thread::sleep(pause.saturating_sub(asked.elapsed()));
            }
        }
    }

    /// Takes the anomalies of the events returned so far.
    pub fn take_notes(&mut self) -> Vec<ReadFinding> {
        std::mem::take(&mut self.notes)
    }
}
