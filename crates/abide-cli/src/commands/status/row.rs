//! One session in the status: what is known of it, and the commands that come next.

use abide::history::{HistoryEntry, Overview, RunOutline};
use abide::liveness::{Liveness, LockObservation, SessionLiveness};
use abide::{SessionFields, SessionId, Timestamp};
use serde_json::{Value, json};

use crate::next_step::{CommandWords, NextStep, next_step};
use crate::project_name::project_name;
use crate::scoped_store::ScopedStore;
use crate::session_status::{CurrentStatus, DisplayedState};

pub(super) struct StatusRow {
    pub(super) session: SessionId,
    pub(super) short: String,
    /// What it is shown under.
    pub(super) name: Option<String>,
    pub(super) fields: SessionFields,
    pub(super) now: CurrentStatus,
    /// When something happened last.
    pub(super) at: Timestamp,
    /// How it ended, if that was recorded.
    pub(super) ending: Option<String>,
    /// What its writer and its state say, if they were looked at.
    pub(super) found: Option<SessionLiveness>,
    /// Its project, if several projects are listed.
    pub(super) project: Option<String>,
    /// The command that comes next.
    pub(super) next: String,
    /// The command that goes on with it, if that is another one, and takes an agent.
    pub(super) with_agent: Option<String>,
    /// The command by which a program or a run goes on; `None` while it is held.
    resume: Option<String>,
    /// The command that shows it.
    pub(super) show: String,
}

/// What is recorded of a session in the status.
pub(super) struct RecordedRow {
    pub(super) session: SessionId,
    pub(super) short: String,
    pub(super) name: Option<String>,
    pub(super) fields: SessionFields,
    pub(super) at: Timestamp,
    pub(super) ending: Option<String>,
    pub(super) run: Option<RunOutline>,
}

impl From<HistoryEntry> for RecordedRow {
    fn from(entry: HistoryEntry) -> Self {
        let name = entry.overview.name();
        let run = entry.overview.standing_run();
        let Overview { updated, reason, fields, .. } = entry.overview;
        let HistoryEntry { id, short, .. } = entry;
        Self { session: id, short, name, fields, at: updated, ending: reason, run }
    }
}

impl StatusRow {
    pub(super) fn of(
        recorded: RecordedRow,
        now: CurrentStatus,
        found: Option<SessionLiveness>,
        opened: &ScopedStore,
        words: &CommandWords,
    ) -> Self {
        let RecordedRow { session, short, name, fields, at, ending, run } = recorded;
        let step = next_step(now.state, run);
        let is_held = found.as_ref().is_some_and(|found| {
            found.liveness == Liveness::Alive || found.evidence.lock == LockObservation::Held
        });
        let has_run = run.is_some();
        let resume = match step {
            NextStep::Resume | NextStep::RetryFailed => words.step(step, &short),
            _ if has_run => words.step(NextStep::Resume, &short),
            _ => words.record(&short),
        };
        let at_rest =
            matches!(now.state, DisplayedState::Crashed | DisplayedState::Stopped) && !has_run;
        Self {
            session,
            name,
            now,
            at,
            ending,
            project: project_name(&fields).filter(|_| opened.spans_projects()),
            next: words.step(step, &short),
            with_agent: at_rest.then(|| words.resume_with_agent(&short)),
            resume: (!is_held).then_some(resume),
            show: words.step(NextStep::Show, &short),
            found,
            fields,
            short,
        }
    }

    pub(super) fn json(&self) -> Value {
        let found = self.found.as_ref();
        json!({
            "session": self.session.to_string(),
            "short": self.short,
            "title": self.fields.title,
            "name": self.name,
            "agent": self.fields.agent,
            "project": project_name(&self.fields),
            "state": self.now.state.as_str(),
            "status": found.map_or(self.now.status, |found| found.evidence.status).as_str(),
            "ending": self.ending,
            "liveness": found.map(|found| found.liveness),
            "reason": found.map(|found| found.reason),
            "why": found.map(SessionLiveness::explain),
            "evidence": found.map(|found| &found.evidence),
            "seq": found.map(|found| found.seq),
            "at": found.map_or(self.at, |found| found.at),
            "open_turns": found.map(|found| &found.turns),
            "active_tasks": found.map(|found| &found.tasks),
            "open_calls": found.map(|found| &found.calls),
            "orphans": found.map(|found| &found.orphans),
            "next": self.next,
            "resume": self.resume,
            "show": self.show,
        })
    }
}
