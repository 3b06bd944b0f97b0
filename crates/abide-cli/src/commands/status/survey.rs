//! Chooses which sessions to examine. The index tells which are finished and which were closed;
//! files are opened only for the others and the newest, so many sessions cost little.

use abide::{HistoryQuery, SessionId, SessionStatus, history::HistoryEntry, liveness::Liveness};

use super::row::StatusRow;
use crate::command_context::CommandContext;
use crate::error::{CommandError, on_one_line};
use crate::scoped_store::ScopedStore;

/// How many unclosed sessions are examined, besides those that are held.
const OPEN: usize = 20;
/// How many idle sessions are listed.
const IDLE: usize = 5;

/// How many are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SurveyExtent {
    Newest,
    All,
}

/// The result of the survey.
#[derive(Default)]
pub(super) struct StatusSurvey {
    /// The examined sessions that are not finished, latest activity first.
    pub(super) rows: Vec<StatusRow>,
    /// Closed sessions that are not listed.
    pub(super) more_idle: usize,
    /// Unclosed sessions that nobody holds and that were not examined.
    pub(super) more_open: usize,
    pub(super) completed: usize,
    pub(super) failed: usize,
    /// Sessions that could not be examined: short id and reason.
    pub(super) unreadable: Vec<(String, String)>,
    /// Notes on the result.
    pub(super) notes: Vec<String>,
}

impl StatusSurvey {
    pub(super) fn take(
        opened: &ScopedStore,
        extent: SurveyExtent,
        surroundings: &CommandContext,
    ) -> Result<Self, CommandError> {
        let history = opened.store.history(&HistoryQuery::default())?;
        let mut survey = Self { notes: history.notes, ..Self::default() };
        let mut wanted: Vec<HistoryEntry> = Vec::new();
        let (mut open, mut idle) = (0, 0);
        for entry in history.entries {
            let overview = &entry.overview;
            if overview.writing {
                open += 1;
                if extent == SurveyExtent::All || open <= OPEN || opened.store.is_held(entry.id) {
                    wanted.push(entry);
                } else if !survey.count_finished(overview.status) {
                    survey.more_open += 1;
                }
            } else if !survey.count_finished(overview.status) {
                idle += 1;
                if extent == SurveyExtent::All || idle <= IDLE {
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
                Ok(found) => {
                    let name = entry.overview.name();
                    survey.rows.push(StatusRow::of(entry.short, name, found, opened, surroundings));
                }
            }
        }
        Ok(survey)
    }

    /// How many listed sessions have this liveness.
    pub(super) fn count(&self, liveness: Liveness) -> usize {
        self.rows.iter().filter(|row| row.found.liveness == liveness).count()
    }

    /// Counts a finished session. Returns whether it is one.
    fn count_finished(&mut self, status: SessionStatus) -> bool {
        match status {
            SessionStatus::Completed => self.completed += 1,
            SessionStatus::Failed => self.failed += 1,
            _ => return false,
        }
        true
    }
}
