//! The command that comes next for a session, by its state. Decided here alone.

use abide::history::RunOutline;

use crate::command_context::CommandContext;
use crate::session_status::DisplayedState;
use crate::shell_word::shell_quoted;

/// What a person does next with a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Watch it.
    Follow,
    /// Go on with its run.
    Resume,
    /// Go on with its run, and try again what failed.
    RetryFailed,
    /// Read it.
    Show,
}

/// What comes next. `run` is the session's last run.
pub(crate) const fn next_step(state: DisplayedState, run: Option<RunOutline>) -> NextStep {
    match (state, run) {
        (DisplayedState::Running, _) => NextStep::Follow,
        (DisplayedState::Crashed | DisplayedState::Stopped | DisplayedState::Idle, Some(_)) => {
            NextStep::Resume
        }
        (DisplayedState::Failed, Some(RunOutline { planned: true, .. })) => NextStep::RetryFailed,
        _ => NextStep::Show,
    }
}

/// How commands are written for a person, in the store that this command works on.
#[derive(Debug, Clone)]
pub(crate) struct CommandWords {
    abide: String,
}

impl CommandWords {
    /// With the store, if it was named.
    pub(crate) fn of(surroundings: &CommandContext) -> Self {
        let by_environment = CommandContext::of_process().ok().and_then(|process| process.store);
        // The environment has it in full; what can be shown of a URL is not all of it.
        let named =
            surroundings.store.as_ref().filter(|store| Some(*store) != by_environment.as_ref());
        let abide = match named {
            Some(store) => format!("abide --store {}", shell_quoted(&store.to_string())),
            None => "abide".to_owned(),
        };
        Self { abide }
    }

    /// The command of a step.
    pub(crate) fn step(&self, step: NextStep, short: &str) -> String {
        let abide = &self.abide;
        match step {
            NextStep::Follow => format!("{abide} tail -f {short}"),
            NextStep::Resume => format!("{abide} resume {short}"),
            NextStep::RetryFailed => format!("{abide} resume {short} --retry-failed"),
            NextStep::Show => format!("{abide} show {short}"),
        }
    }

    /// The command that offers the checkpoints to go back to.
    pub(crate) fn rewind(&self, short: &str) -> String {
        format!("{} rewind -s {short}", self.abide)
    }

    /// The command by which a program goes on recording.
    pub(crate) fn record(&self, short: &str) -> String {
        format!("{} record -s {short}", self.abide)
    }

    /// The command by which any agent goes on with a session that no run made.
    pub(crate) fn resume_with_agent(&self, short: &str) -> String {
        format!("{} resume {short} -- AGENT", self.abide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_fits_the_state_and_the_run() {
        use DisplayedState as State;
        let run = |planned| Some(RunOutline { planned, ..RunOutline::default() });
        let step = |state| [None, run(false), run(true)].map(|run| next_step(state, run));
        let [show, resume] = [NextStep::Show, NextStep::Resume];
        assert_eq!(step(State::Running), [NextStep::Follow; 3]);
        assert_eq!(step(State::Crashed), [show, resume, resume]);
        assert_eq!(step(State::Stopped), [show, resume, resume]);
        assert_eq!(step(State::Idle), [show, resume, resume]);
        assert_eq!(step(State::Failed), [show, show, NextStep::RetryFailed]);
        for state in [State::Unclear, State::New, State::Ended] {
            assert_eq!(step(state), [show; 3]);
        }
    }
}
