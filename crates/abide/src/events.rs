//! Iterates over a range of events.

use std::collections::VecDeque;

use abide_model::{Event, EventRange, ReadDirection, ReadFinding};

use crate::{Error, SessionView};

/// Reads a range of events page by page, in bounded memory.
#[derive(Debug)]
pub struct Events {
    view: SessionView,
    range: Option<EventRange>,
    page: VecDeque<Event>,
    notes: Vec<ReadFinding>,
}

impl Events {
    pub(crate) fn new(view: SessionView, range: EventRange) -> Self {
        Self { view, range: Some(range), page: VecDeque::new(), notes: Vec::new() }
    }

    /// Anomalies in the events read so far: skipped damage, a torn tail.
    #[must_use]
    pub fn notes(&self) -> &[ReadFinding] {
        &self.notes
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.page.pop_front() {
                return Some(Ok(event));
            }
            let range = self.range.take()?;
            let page = match self.view.page(range) {
                Ok(page) => page,
                Err(error) => return Some(Err(error)),
            };
            self.range = page.next.map(|next| match range.direction {
                ReadDirection::Forward => EventRange { first: next, ..range },
                ReadDirection::Backward => EventRange { last: next, ..range },
            });
            self.notes.extend(page.notes);
            self.page = page.events.into();
        }
    }
}
