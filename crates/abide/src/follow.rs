//! Following a session live, the appends of other processes included.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use abide_model::{Event, EventRange, ReadNote, Seq};

use crate::{Error, SessionView};

/// How often it is looked whether there is more, in a store that does not tell.
const PAUSE: Duration = Duration::from_millis(20);
const PAGE: usize = 256;

/// Gives events as they are acknowledged: never one that a power cut could take back.
#[derive(Debug)]
pub struct Follow {
    view: SessionView,
    next: Seq,
    page: VecDeque<Event>,
    notes: Vec<ReadNote>,
}

impl Follow {
    pub(crate) fn new(view: SessionView, first: Seq) -> Self {
        Self { view, next: first.max(Seq::FIRST), page: VecDeque::new(), notes: Vec::new() }
    }

    /// The next event; `None` when none came within `wait`.
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
                    // Everything up to there is lost; what comes after is not.
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
                // It may have waited already.
                let pause = left.map_or(PAUSE, |left| left.min(PAUSE));
                std::thread::sleep(pause.saturating_sub(asked.elapsed()));
            }
        }
    }

    /// Takes what there is to know about the events given so far.
    pub fn take_notes(&mut self) -> Vec<ReadNote> {
        std::mem::take(&mut self.notes)
    }
}
