//! Cleanup of a shared store: removes sessions by age and number, planned first and then applied.
//!
//! Nothing is held from the plan to its end. Each session is deleted in a transaction of its own, which
//! looks again: whoever uses or forks a session first keeps it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use abide_maintain::{CleanupOutcome, CleanupPlan, CleanupRules, SessionRemoval};
use abide_model::{Retention, Seq, SessionId, StoreError, read_session_name};

use crate::deletion::SessionDeletion;
use crate::postgres_store::PostgresStore;
use crate::session_survey::SessionSurvey;

/// Plans and applies cleanups of a shared store.
#[derive(Debug)]
pub struct PostgresCleaner<'a> {
    store: &'a PostgresStore,
}

impl PostgresCleaner<'_> {
    /// Plans a cleanup by these rules; of the objects, those stored longer ago than `grace` go. Changes
    /// nothing. Checkpoints are not thinned.
    pub fn plan(
        &self,
        rules: impl Into<CleanupRules>,
        grace: Duration,
    ) -> Result<CleanupPlan, StoreError> {
        let (mut plan, _) = self.plan_sessions(&rules.into(), &[])?;
        let going: HashSet<SessionId> = plan.sessions.iter().map(|removal| removal.id).collect();
        match self.store.collector().preview_without(&going, grace, &mut plan.notes) {
            Ok(objects) => plan.objects = Some(objects),
            Err(error) => plan.notes.push(format!("no objects will be collected: {error}")),
        }
        Ok(plan)
    }

    /// Applies a plan as far as it still holds: a session that was used since stays. Waits up to `wait`
    /// for those who store objects.
    pub fn apply(
        &self,
        plan: &CleanupPlan,
        rules: impl Into<CleanupRules>,
        grace: Duration,
        wait: Duration,
    ) -> Result<CleanupOutcome, StoreError> {
        if plan.is_empty() {
            return Ok(CleanupOutcome::default());
        }
        self.store.check_may_clean()?;
        let mut cleaned = CleanupOutcome::default();
        {
            // A standby that lags behind does not know who uses a session.
            let _primary = self.store.server().only_primary();
            // Plan again: what has changed since the plan was shown stays.
            let (fresh, survey) = self.plan_sessions(&rules.into(), &plan.sessions)?;
            note_what_stays(plan, &fresh, &survey, &mut cleaned.notes);
            self.remove_planned(plan, &fresh, &survey, &mut cleaned);
        }
        match self.store.collector().collect(grace, wait, &mut cleaned.notes) {
            Ok(objects) => cleaned.objects = objects,
            Err(error) => cleaned.notes.push(format!("no objects were collected: {error}")),
        }
        Ok(cleaned)
    }

    /// Which sessions to remove. What is `shown` already was read then.
    fn plan_sessions(
        &self,
        rules: &CleanupRules,
        shown: &[SessionRemoval],
    ) -> Result<(CleanupPlan, SessionSurvey<'_>), StoreError> {
        let mut survey = SessionSurvey::of(self.store)?;
        shown.iter().for_each(|removal| survey.take_over(removal));
        if rules.any(|settings: &Retention| settings.max_size.is_some()) {
            let all: Vec<SessionId> = survey.sessions.iter().map(|it| it.facts.id).collect();
            survey.read(all.into_iter())?;
        }
        // What is read may turn out to be damaged, and then others go.
        let mut plan = loop {
            let plan = CleanupPlan::of(&mut survey.sessions, rules, survey.now, None);
            if !survey.read(plan.sessions.iter().map(|removal| removal.id))? {
                break plan;
            }
        };
        for removal in &mut plan.sessions {
            let shown = shown.iter().find(|shown| shown.id == removal.id);
            removal.name = match shown {
                Some(shown) => shown.name.clone(),
                // What cannot be read has no name.
                None => {
                    let reader = self.store.reader(removal.id);
                    reader.and_then(|reader| read_session_name(&reader)).unwrap_or_default()
                }
            };
        }
        Ok((plan, survey))
    }

    /// Removes the sessions that both plans name, forks before their parents.
    fn remove_planned(
        &self,
        plan: &CleanupPlan,
        fresh: &CleanupPlan,
        survey: &SessionSurvey<'_>,
        cleaned: &mut CleanupOutcome,
    ) {
        let shown: HashMap<SessionId, Seq> =
            plan.sessions.iter().map(|session| (session.id, session.last)).collect();
        for session in &fresh.sessions {
            let id = session.id;
            let (Some(last), Some(sid)) = (shown.get(&id), survey.sid(id)) else { continue };
            let deleted = match self.store.delete_rows(sid, Some(*last)) {
                Ok(deleted) => deleted,
                // It may be gone: the answer may be what was lost.
                Err(error) => {
                    cleaned.notes.push(format!("session {id}: {error}; the others stay"));
                    return;
                }
            };
            let why = match deleted {
                SessionDeletion::Done => {
                    cleaned.sessions.push(session.clone());
                    continue;
                }
                // Another cleanup was first.
                SessionDeletion::Gone => continue,
                SessionDeletion::Forked(fork) => format!("its fork {fork} does"),
                SessionDeletion::Held(holder) => {
                    StoreError::Held { session: id, holder }.to_string()
                }
                SessionDeletion::Used => USED.to_owned(),
            };
            cleaned.notes.push(format!("session {id} stays: {why}"));
        }
    }
}

/// Why a session that somebody has written to since stays.
const USED: &str = "the session was used meanwhile";

/// Notes the sessions that were to go and do not any more because of what happened since.
fn note_what_stays(
    plan: &CleanupPlan,
    fresh: &CleanupPlan,
    survey: &SessionSurvey<'_>,
    notes: &mut Vec<String>,
) {
    let going: HashSet<SessionId> = fresh.sessions.iter().map(|removal| removal.id).collect();
    for shown in plan.sessions.iter().filter(|shown| !going.contains(&shown.id)) {
        let why = match survey.session(shown.id) {
            Some(session) if session.last != shown.last => USED.to_owned(),
            Some(session) if session.facts.in_use => "it is in use or damaged".to_owned(),
            Some(_) => match fresh.fork_that_stays(shown.id, &fresh.sessions) {
                Some(fork) => format!("its fork {fork} does"),
                // The limits leave it.
                None => continue,
            },
            None => continue,
        };
        notes.push(format!("session {} stays: {why}", shown.id));
    }
}

impl PostgresStore {
    /// Plans and applies cleanups.
    #[must_use]
    pub const fn cleaner(&self) -> PostgresCleaner<'_> {
        PostgresCleaner { store: self }
    }
}
