//! Chooses which sessions to list. The index tells most of it; a session's files are opened only if
//! a process may have it open, if its writer died a short time ago, or if everything is asked for. So
//! a status costs the same, however many sessions there are.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use abide::{
    HistoryQuery, SessionId, SessionStatus, Timestamp,
    history::HistoryEntry,
    liveness::{Liveness, SessionLiveness},
};

use super::row::StatusRow;
use crate::error::{CommandError, on_one_line};
use crate::next_step::CommandWords;
use crate::scoped_store::ScopedStore;
use crate::session_status::{CurrentStatus, DisplayedState, RecordedOutcome};

/// How many of the sessions in which something happened last are considered, besides those that a
/// process may have open.
const RECENT: usize = 100;
/// How many crashed sessions are listed, how many that failed or were stopped, and how many others.
const CRASHED: usize = 10;
const BROKEN: usize = 10;
const OTHERS: usize = 10;
/// For how long it is listed first that a session failed or was stopped.
const BROKEN_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// How many are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SurveyExtent {
    Newest,
    /// Every one that has not ended.
    All,
}

/// Of which sessions the files are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SurveyDepth {
    /// Of those that were not closed.
    Open,
    /// Of every listed one.
    Listed,
}

/// The result of the survey.
#[derive(Default)]
pub(super) struct StatusSurvey {
    /// The listed sessions, latest activity first.
    pub(super) rows: Vec<StatusRow>,
    /// How many sessions there are, listed or not.
    pub(super) sessions: u64,
    /// How many were not closed, and not looked at: their writers died some time ago.
    pub(super) not_closed: usize,
    /// Sessions that could not be examined: short id and reason.
    pub(super) unreadable: Vec<(String, String)>,
    /// Notes on the result.
    pub(super) notes: Vec<String>,
}

/// Places that are left in the list.
struct SurveyPlaces {
    crashed: usize,
    broken: usize,
    others: usize,
    broken_since: i64,
}

impl SurveyPlaces {
    fn new(now: Timestamp) -> Self {
        let age = i64::try_from(BROKEN_FOR.as_millis()).unwrap_or(i64::MAX);
        let broken_since = now.as_millis().saturating_sub(age);
        Self { crashed: CRASHED, broken: BROKEN, others: OTHERS, broken_since }
    }

    /// Takes a place for a session; `false` if there is none left.
    fn take(&mut self, state: DisplayedState, updated: Timestamp) -> bool {
        let recent = updated.as_millis() >= self.broken_since;
        let left = match state {
            DisplayedState::Running | DisplayedState::Unclear => return true,
            DisplayedState::Crashed => &mut self.crashed,
            DisplayedState::Failed | DisplayedState::Stopped if recent => &mut self.broken,
            _ => &mut self.others,
        };
        let is_left = *left > 0;
        *left = left.saturating_sub(1);
        is_left
    }
}

impl StatusSurvey {
    pub(super) fn take(
        opened: &ScopedStore,
        extent: SurveyExtent,
        depth: SurveyDepth,
        words: &CommandWords,
    ) -> Result<Self, CommandError> {
        let (entries, mut survey) = match extent {
            SurveyExtent::All => {
                let history = opened.store.history(&HistoryQuery::default())?;
                let sessions = history.entries.len() as u64;
                let survey = Self { notes: history.notes, sessions, ..Self::default() };
                (history.entries, survey)
            }
            SurveyExtent::Newest => newest_entries(opened)?,
        };
        let open = entries.iter().filter(|entry| entry.overview.writing);
        let open: Vec<SessionId> = match extent {
            SurveyExtent::All => open.map(|entry| entry.id).collect(),
            SurveyExtent::Newest => {
                // One that crashed long ago is not asked for again and again.
                let mut crashed = CRASHED;
                let mut wanted = |id| {
                    let counts = !opened.store.is_held(id);
                    let is_wanted = !counts || crashed > 0;
                    crashed = crashed.saturating_sub(usize::from(counts));
                    is_wanted
                };
                open.map(|entry| entry.id).filter(|id| wanted(*id)).collect()
            }
        };
        let mut found = survey.examine(opened, &open, &entries);
        let mut places = SurveyPlaces::new(opened.store.now());
        let mut listed: Vec<(HistoryEntry, CurrentStatus)> = Vec::new();
        for entry in entries {
            let recorded = RecordedOutcome::of_overview(&entry.overview);
            let now = match found.get(&entry.id) {
                Some(found) => CurrentStatus::seen(
                    RecordedOutcome { status: found.evidence.status, ..recorded },
                    found,
                ),
                None if entry.overview.writing => {
                    survey.not_closed += usize::from(!open.contains(&entry.id));
                    continue;
                }
                None => CurrentStatus::closed(recorded),
            };
            let is_listed = match extent {
                SurveyExtent::All => now.state != DisplayedState::Ended,
                SurveyExtent::Newest => places.take(now.state, entry.overview.updated),
            };
            if is_listed {
                listed.push((entry, now));
            }
        }
        if depth == SurveyDepth::Listed {
            let closed = listed.iter().map(|(entry, _)| entry.id);
            let closed: Vec<SessionId> = closed.filter(|id| !found.contains_key(id)).collect();
            let entries: Vec<HistoryEntry> =
                listed.iter().map(|(entry, _)| entry.clone()).collect();
            found.extend(survey.examine(opened, &closed, &entries));
        }
        let row = |(entry, now): (HistoryEntry, CurrentStatus)| {
            let found = found.remove(&entry.id);
            StatusRow::of(entry.into(), now, found, opened, words)
        };
        survey.rows = listed.into_iter().map(row).collect();
        Ok(survey)
    }

    /// How many sessions are not listed.
    pub(super) fn more(&self) -> u64 {
        self.sessions.saturating_sub(self.rows.len() as u64)
    }

    /// How many listed sessions have this liveness.
    pub(super) fn count(&self, liveness: Liveness) -> usize {
        let has = |row: &&StatusRow| {
            row.found.as_ref().map_or(Liveness::Idle, |found| found.liveness) == liveness
        };
        self.rows.iter().filter(has).count()
    }

    /// Looks at the writers and the states of sessions. Notes those that cannot be read.
    fn examine(
        &mut self,
        opened: &ScopedStore,
        ids: &[SessionId],
        entries: &[HistoryEntry],
    ) -> HashMap<SessionId, SessionLiveness> {
        let mut all = HashMap::new();
        for (id, found) in ids.iter().copied().zip(opened.store.livenesses(ids)) {
            match found {
                Ok(found) => {
                    all.insert(id, found);
                }
                Err(error) => {
                    let entry = entries.iter().find(|entry| entry.id == id);
                    let short = entry
                        .map_or_else(|| id.short(SessionId::SHORT), |entry| entry.short.clone());
                    self.unreadable.push((short, on_one_line(&error)));
                }
            }
        }
        all
    }
}

/// Those that a process may have open, and those in which something happened last.
fn newest_entries(opened: &ScopedStore) -> Result<(Vec<HistoryEntry>, StatusSurvey), CommandError> {
    let held = HistoryQuery { maybe_held: true, ..HistoryQuery::default() };
    let held = opened.store.history(&held)?;
    let recent = HistoryQuery { limit: Some(RECENT), ..HistoryQuery::default() };
    let recent = opened.store.history(&recent)?;
    let sessions = recent.entries.len() as u64 + recent.more.unwrap_or_default();
    let known: HashSet<SessionId> = recent.entries.iter().map(|entry| entry.id).collect();
    let mut entries = recent.entries;
    entries.extend(held.entries.into_iter().filter(|entry| !known.contains(&entry.id)));
    entries.sort_by_key(|entry| std::cmp::Reverse((entry.overview.updated, entry.id)));
    let survey = StatusSurvey { sessions, notes: recent.notes, ..StatusSurvey::default() };
    Ok((entries, survey))
}

/// How many sessions in scope were recorded with this status.
pub(super) fn count_recorded(
    opened: &ScopedStore,
    status: SessionStatus,
) -> Result<u64, CommandError> {
    let none = HistoryQuery { limit: Some(0), status: vec![status], ..HistoryQuery::default() };
    Ok(opened.store.history(&none)?.more.unwrap_or_default())
}
