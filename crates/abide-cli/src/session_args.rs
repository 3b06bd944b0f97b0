//! The arguments that name a session, the same for every command.

use abide::{SessionId, SessionRef, SessionView, Timestamp};
use clap_complete::ArgValueCandidates;

use crate::command_context::CommandContext;
use crate::command_output::status;
use crate::completion_candidates::session_candidates;
use crate::error::{CommandError, FailureCode};
use crate::scoped_store::{NameMatch, ScopedStore, shown_session_name};
use crate::typed_time::time_ago;

/// Which session a command is about.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SessionArg {
    /// The session, by its id, name or key; see `abide help sessions` [default: $ABIDE_SESSION, else
    /// the latest]
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(session_candidates))]
    positional: Option<String>,
    /// The session, as an option
    #[arg(
        short, long, value_name = "SESSION", conflicts_with = "positional",
        add = ArgValueCandidates::new(session_candidates)
    )]
    session: Option<String>,
}

/// Which session a command is about that has other arguments.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SessionOption {
    /// The session, by its id, name or key; see `abide help sessions` [default: $ABIDE_SESSION, else
    /// the latest]
    #[arg(
        short, long, value_name = "SESSION", add = ArgValueCandidates::new(session_candidates)
    )]
    session: Option<String>,
}

/// What a command does with its session: decides which one is meant if none is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionPurpose {
    /// It reads the session: the latest in scope.
    Read,
    /// It writes to the session: the latest of this project alone.
    Write,
    /// It works on the files of this directory: only a session whose workspace is this directory,
    /// in this clone and worktree, qualifies.
    FilesHere,
    /// It changes the files of this directory, or takes back what was recorded: the same, and a
    /// name must be typed as a whole.
    RewindHere,
    /// It reads checkpoints: of the session whose workspace is this directory and that has some, else
    /// of the latest.
    FilesNear,
}

/// Which acts of a session count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActSearch {
    /// Rewinds, and compactions of the main lane.
    All,
    /// Rewinds alone.
    Rewinds,
}

impl SessionOption {
    /// Was a session named?
    pub(crate) const fn is_named(&self) -> bool {
        self.session.is_some()
    }

    /// Finds the session with this place in its past. A label may be in any session that works here: if
    /// none was named, the latest one that has it is meant. A number is one of the latest session that
    /// has checkpoints.
    pub(crate) fn find_with_place(
        &self,
        purpose: SessionPurpose,
        place: Option<&str>,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        let names_checkpoint = match place {
            Some(place) => is_label(place) || is_number(place) || place == "latest",
            None => purpose != SessionPurpose::Write,
        };
        if self.is_chosen(surroundings) || !names_checkpoint {
            return self.find(purpose, opened, surroundings);
        }
        let label = place.filter(|place| is_label(place));
        if label.is_some()
            && let Some((session, at)) = opened.latest_with_checkpoint(surroundings, label)?
        {
            tell_session_here(session, at, "the latest here with this checkpoint");
            return Ok(session);
        }
        match opened.latest_with_checkpoint(surroundings, None)? {
            Some((session, at)) => {
                tell_session_here(session, at, "the latest here with checkpoints");
                Ok(session)
            }
            None => self.find(purpose, opened, surroundings),
        }
    }

    /// Finds the session whose latest act is undone or redone: the latest that works here. `act` tells
    /// the time of a session's latest act. If another session has a later one, the error names it:
    /// going back there would take back what came since.
    pub(crate) fn find_latest_act(
        &self,
        verb: &str,
        opened: &ScopedStore,
        surroundings: &CommandContext,
        act: impl Fn(&SessionView, ActSearch) -> Result<Option<Timestamp>, abide::Error>,
    ) -> Result<SessionId, CommandError> {
        let latest = self.find(SessionPurpose::RewindHere, opened, surroundings)?;
        let act_of = |session, search| {
            opened.store.view(&SessionRef::Id(session)).and_then(|view| act(&view, search))
        };
        // What cannot be read has its own error when it is opened.
        let (false, Ok(own)) = (self.is_chosen(surroundings), act_of(latest, ActSearch::All))
        else {
            return Ok(latest);
        };
        let mut found: Option<(Timestamp, SessionId)> = None;
        for (session, active) in opened.recent_in(surroundings)? {
            // No act is later than the last activity.
            let least = found.map(|(at, _)| at).max(own);
            if session == latest || least.is_some_and(|at| at >= active) {
                continue;
            }
            // Of others, only files that went back are of interest here.
            if let Ok(Some(at)) = act_of(session, ActSearch::Rewinds)
                && least.is_none_or(|before| at > before)
            {
                found = Some((at, session));
            }
        }
        let Some((at, session)) = found else { return Ok(latest) };
        let short = session.short(SessionId::SHORT);
        let name = opened.store.view(&SessionRef::Id(session)).and_then(|view| view.name());
        let name = name.ok().flatten();
        let name = name.map_or_else(|| short.clone(), |name| shown_session_name(&name, &short));
        let ago = time_ago(at, jiff::Timestamp::now());
        let error = match own {
            None => format!("there is nothing to {verb} in the latest session"),
            Some(_) => "the last rewind here is not of the latest session".to_owned(),
        };
        let mut hint = format!(
            "the last rewind here was {ago}, in session {name}: `abide {verb} -s {short}` shows what \
             would change"
        );
        if own.is_some() {
            let short = latest.short(SessionId::SHORT);
            hint.push_str(&format!("; `abide {verb} -s {short}` means the latest session"));
        }
        Err(CommandError::failed(error).coded(FailureCode::NothingToDo).with_hint(hint))
    }

    /// Does an argument or the environment say which session is meant?
    pub(crate) fn is_chosen(&self, surroundings: &CommandContext) -> bool {
        self.is_named() || surroundings.session.is_some()
    }

    /// Finds the session. If none was named, its name is printed on stderr.
    pub(crate) fn find(
        &self,
        purpose: SessionPurpose,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        let arg = SessionArg { positional: None, session: self.session.clone() };
        arg.find(purpose, opened, surroundings)
    }
}

impl SessionArg {
    /// Takes an event, such as @36, that was typed in place of a session.
    pub(crate) fn take_event(&mut self) -> Option<String> {
        let event = self.positional.as_deref()?.strip_prefix('@')?;
        let is_event = !event.is_empty() && event.bytes().all(|byte| byte.is_ascii_digit());
        self.positional.take_if(|_| is_event)
    }

    /// The session named by an argument or the environment.
    pub(crate) fn named(
        &self,
        how: NameMatch,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<Option<SessionId>, CommandError> {
        match self.positional.as_ref().or(self.session.as_ref()) {
            Some(named) => opened.find_by(named, how).map(Some),
            // A program set it: it is an id or a key.
            None => surroundings.session.as_ref().map(|id| opened.find_unnamed(id)).transpose(),
        }
    }

    /// Finds the session. If none was named, its name is printed on stderr.
    pub(crate) fn find(
        &self,
        purpose: SessionPurpose,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<SessionId, CommandError> {
        let how = match purpose {
            SessionPurpose::Write | SessionPurpose::RewindHere => NameMatch::Whole,
            _ => NameMatch::Beginning,
        };
        if let Some(named) = self.named(how, opened, surroundings)? {
            return Ok(named);
        }
        let latest = match purpose {
            SessionPurpose::Read => opened.latest()?,
            SessionPurpose::Write => {
                opened.check_one_project(surroundings)?;
                opened.latest()?
            }
            SessionPurpose::FilesHere | SessionPurpose::RewindHere => {
                let latest = opened.latest_in(surroundings)?;
                latest.ok_or_else(|| opened.none_here(surroundings))?
            }
            SessionPurpose::FilesNear => {
                if let Some((session, at)) = opened.latest_with_checkpoint(surroundings, None)? {
                    tell_session_here(session, at, "the latest here with checkpoints");
                    return Ok(session);
                }
                match opened.latest_in(surroundings)? {
                    Some(latest) => latest,
                    None => opened.latest()?,
                }
            }
        };
        tell_latest_session(latest);
        Ok(latest)
    }
}

/// Can a place be nothing but the label of a checkpoint? The others mean something in every session.
pub(crate) fn is_label(place: &str) -> bool {
    let means_more = place.starts_with('@') || place.starts_with("turn:");
    let is_word = ["latest", "decision"].contains(&place);
    !place.is_empty() && !is_number(place) && !means_more && !is_word
}

fn is_number(place: &str) -> bool {
    !place.is_empty() && place.bytes().all(|byte| byte.is_ascii_digit())
}

/// Prints which of the sessions that work here was chosen, and why if it is not the first of them.
fn tell_session_here(session: SessionId, place: usize, why: &str) {
    match place {
        0 => tell_latest_session(session),
        _ => status(format_args!("Session {}, {why}", session.short(SessionId::SHORT))),
    }
}

/// Prints which session was chosen.
pub(crate) fn tell_latest_session(latest: SessionId) {
    status(format_args!("Session {} (the latest)", latest.short(SessionId::SHORT)));
}
