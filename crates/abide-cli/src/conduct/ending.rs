//! What is said at the end of a run: which session it was, what it is now, and what comes next.

use abide::history::RunOutline;
use abide::liveness::Liveness;
use abide::{SessionId, SessionRef};
use abide_runner::{RunGoal, RunSummary, SummaryDifference};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::status;
use crate::next_step::{CommandWords, NextStep, next_step};
use crate::scoped_store::{ScopedStore, shown_session_name};
use crate::session_status::{RecordedOutcome, displayed_state};

/// Whether a run has changed files, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunChanges {
    /// None, or none that is known.
    None,
    /// Some.
    Some,
}

impl RunChanges {
    pub(super) fn of(summary: &RunSummary) -> Self {
        let count = |change: &SummaryDifference| change.created + change.changed + change.deleted;
        match summary.difference.as_ref().map_or(0, count) {
            0 => Self::None,
            _ => Self::Some,
        }
    }
}

/// Names the session and the commands that come next. What cannot be read is left out.
pub(super) fn tell_next_steps(
    opened: &ScopedStore,
    id: SessionId,
    goal: RunGoal,
    changed: RunChanges,
    surroundings: &CommandContext,
) {
    let short = id.short(SessionId::SHORT);
    let words = CommandWords::of(surroundings);
    let view = opened.store.view(&SessionRef::Id(id));
    let core = view.as_ref().ok().and_then(|view| view.state().ok()).map(|state| state.core);
    let name = view.ok().and_then(|view| view.name().ok().flatten());
    let run = RunOutline {
        planned: goal == RunGoal::Tasks,
        conversation: goal == RunGoal::Conversation,
        finished: true,
        ..RunOutline::default()
    };
    let named = name.map_or_else(|| short.clone(), |name| shown_session_name(&name, &short));
    let (state, step) = match core {
        Some(core) => {
            let state = displayed_state(RecordedOutcome::of_core(&core), Liveness::Idle);
            (format!(": {state}"), next_step(state, Some(run)))
        }
        None => (String::new(), NextStep::Resume),
    };
    status(format_args!("Session {named}{state}"));
    let command = |step| escape::text(&words.step(step, &short)).into_owned();
    match step {
        NextStep::Resume => status(format_args!("Continue with: {}", command(step))),
        NextStep::RetryFailed => {
            status(format_args!("Retry the failed tasks with: {}", command(step)));
        }
        NextStep::Follow | NextStep::Show => {}
    }
    status(format_args!("Read it with: {}", command(NextStep::Show)));
    if changed == RunChanges::Some {
        let words = words.rewind(&short);
        status(format_args!("Take its files back with: {}", escape::text(&words)));
    }
}
