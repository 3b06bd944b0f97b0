//! Which sessions are looked at. The index tells which are over and which were closed; only of the
//! rest, and of the newest, are the files opened, so that many sessions cost little.

use abide::{HistoryEntry, HistoryQuery, Liveness, SessionId, SessionStatus};

use super::row::Row;
use crate::error::{CommandError, on_one_line};
use crate::store::{Opened, Surroundings};

/// So many sessions that were not closed are looked at, and those that somebody has.
const OPEN: usize = 20;
/// So many idle sessions are listed.
const IDLE: usize = 5;

/// How many are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Newest,
    All,
}

/// What was found.
#[derive(Default)]
pub(super) struct Survey {
    /// The sessions that were looked at and are not over, the one first in which something happened
    /// last.
    pub(super) rows: Vec<Row>,
    /// Closed ones that are not listed.
    pub(super) more_idle: usize,
    /// Ones that were not closed, which nobody has, and which were not looked at.
    pub(super) more_open: usize,
    pub(super) completed: usize,
    pub(super) failed: usize,
    /// Their short ids, and why they cannot be looked at.
    pub(super) unreadable: Vec<(String, String)>,
    /// What to know about the answer.
    pub(super) notes: Vec<String>,
}

impl Survey {
    pub(super) fn take(
        opened: &Opened,
        extent: Extent,
        surroundings: &Surroundings,
    ) -> Result<Self, CommandError> {
        let history = opened.store.history(&HistoryQuery::default())?;
        let mut survey = Self { notes: history.notes, ..Self::default() };
        let mut wanted: Vec<HistoryEntry> = Vec::new();
        let (mut open, mut idle) = (0, 0);
        for entry in history.entries {
            let overview = &entry.overview;
            if overview.writing {
                open += 1;
                if extent == Extent::All || open <= OPEN || opened.store.is_held(entry.id) {
                    wanted.push(entry);
                } else if !survey.count_finished(overview.status) {
                    survey.more_open += 1;
                }
            } else if !survey.count_finished(overview.status) {
                idle += 1;
                if extent == Extent::All || idle <= IDLE {
                    wanted.push(entry);
                } else {
                    survey.more_idle += 1;
                }
            }
        }
        let ids: Vec<SessionId> = wanted.iter().map(|entry| entry.id).collect();
        for (entry, found) in wanted.into_iter().zip(opened.store.livenesses(&ids)) {
            match found {
                Err(error) => survey.unreadable.push((entry.short, on_one_line(&error))),
                Ok(found)
                    if found.liveness == Liveness::Idle
                        && survey.count_finished(found.evidence.status) => {}
                Ok(found) => survey.rows.push(Row::of(entry.short, found, opened, surroundings)),
            }
        }
        Ok(survey)
    }

    /// How many are listed as this.
    pub(super) fn count(&self, liveness: Liveness) -> usize {
        self.rows.iter().filter(|row| row.found.liveness == liveness).count()
    }

    /// Counts a session that is over; says whether it is.
    fn count_finished(&mut self, status: SessionStatus) -> bool {
        match status {
            SessionStatus::Completed => self.completed += 1,
            SessionStatus::Failed => self.failed += 1,
            _ => return false,
        }
        true
    }
}
