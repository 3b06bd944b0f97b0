//! The session that a recording goes to.

use abide::{
    NewSession, Session, SessionId, SessionRef, SessionStatus, Store, event::StatusChange,
};

use crate::command_context::CommandContext;
use crate::command_output::{status, warning};
use crate::daily_cleanup::run_daily_cleanup;
use crate::error::CommandError;
use crate::interrupted_rewind::tell_interrupted_rewind;
use crate::scoped_store::{NameMatch, ScopedStore};
use crate::shared_recording::{RecordingJobs, SharedRecording};

/// Where a recording goes.
pub(super) struct RecordingTarget {
    /// `None` until the first event if no session was named: empty input creates no session.
    pub(super) open: Option<RecordingSession>,
    /// The session to create then.
    pub(super) new: NewSession,
    /// What is done beside the recording.
    pub(super) jobs: RecordingJobs,
    /// The session is completed at the end, if everything was recorded.
    pub(super) complete: bool,
}

impl RecordingTarget {
    /// Takes the session out, created if there is none yet.
    pub(super) fn take(
        &mut self,
        surroundings: &CommandContext,
    ) -> Result<RecordingSession, CommandError> {
        match self.open.take() {
            Some(open) => Ok(open),
            None => RecordingSession::new(self.new.clone(), self.jobs.clone(), surroundings),
        }
    }

    /// The session, created if there is none yet.
    pub(super) fn open(
        &mut self,
        surroundings: &CommandContext,
    ) -> Result<&mut RecordingSession, CommandError> {
        let open = self.take(surroundings)?;
        Ok(self.open.insert(open))
    }

    /// The session to complete if no line has opened it: the one that has the key.
    fn unopened(&self, surroundings: &CommandContext) -> Result<RecordingSession, CommandError> {
        let Some(key) = self.new.fields.key.clone() else {
            let text = "there is no session to complete: nothing was recorded";
            return Err(CommandError::failed(text));
        };
        let opened = surroundings.open_store()?;
        let id = opened.store.find(&SessionRef::Key(key))?;
        RecordingSession::opened(&opened, id, self.jobs.clone())
    }

    /// Releases the session, and completes it before if that was asked for and nothing of the input
    /// is missing.
    pub(super) fn close(
        mut self,
        is_whole: bool,
        surroundings: &CommandContext,
    ) -> Result<(), CommandError> {
        let complete = self.complete && is_whole;
        if complete && self.open.is_none() {
            self.open = Some(self.unopened(surroundings)?);
        }
        if let Some(held) = self.open.and_then(|open| open.held) {
            let status = SessionStatus::Completed;
            held.close(complete.then_some(StatusChange { status, reason: None, summary: None }))?;
        }
        Ok(())
    }
}

/// The session that receives the events.
pub(super) struct RecordingSession {
    pub(super) id: SessionId,
    store: Store,
    /// What is done beside it.
    pub(super) jobs: RecordingJobs,
    /// `None` after the writer stopped, until the next line reopens it.
    pub(super) held: Option<SharedRecording>,
}

impl RecordingSession {
    pub(super) fn existing(
        named: &str,
        jobs: RecordingJobs,
        surroundings: &CommandContext,
    ) -> Result<Self, CommandError> {
        // A full id is unique across projects.
        let whole = named.parse::<SessionId>().is_ok();
        let opened =
            if whole { surroundings.open_any_store()? } else { surroundings.open_store()? };
        let id = opened.find_by(named, NameMatch::Whole)?;
        Self::opened(&opened, id, jobs)
    }

    fn opened(
        opened: &ScopedStore,
        id: SessionId,
        jobs: RecordingJobs,
    ) -> Result<Self, CommandError> {
        let store = opened.store.clone();
        let session = store.open_session(&SessionRef::Id(id))?;
        tell_interrupted_rewind(&session)?;
        run_daily_cleanup(opened, id);
        Self::over(store, session, jobs)
    }

    /// Creates a session, or opens the one with its key.
    pub(super) fn new(
        new: NewSession,
        jobs: RecordingJobs,
        surroundings: &CommandContext,
    ) -> Result<Self, CommandError> {
        let opened = surroundings.open_or_init_store()?;
        let store = opened.store.clone();
        let session = store.create(new)?;
        run_daily_cleanup(&opened, session.id());
        Self::over(store, session, jobs)
    }

    fn over(store: Store, session: Session, jobs: RecordingJobs) -> Result<Self, CommandError> {
        session.notes().iter().for_each(warning);
        let id = session.id();
        let held = Some(SharedRecording::over(session, &jobs)?);
        Ok(Self { id, store, jobs, held })
    }

    /// The session, reopened if its writer had stopped.
    pub(super) fn session(&mut self) -> Result<&Session, abide::Error> {
        let held = match self.held.take() {
            Some(held) => held,
            None => {
                let session = self.store.open_session(&SessionRef::Id(self.id))?;
                session.notes().iter().for_each(warning);
                let short = self.id.short(SessionId::SHORT);
                status(format_args!("Session {short} is open again"));
                SharedRecording::over(session, &self.jobs)?
            }
        };
        Ok(self.held.insert(held).session())
    }

    /// The session, which other commands may write to meanwhile.
    pub(super) fn shared_session(&mut self) -> Result<&Session, abide::Error> {
        self.session()?;
        if let Some(held) = &mut self.held {
            held.report_checkpoints();
            held.share();
        }
        self.session()
    }
}
