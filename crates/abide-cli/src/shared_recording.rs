//! A session that `abide record` holds: other commands write to it meanwhile. If that is asked for,
//! checkpoints of its files are made at intervals, and its context is compacted.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use abide::{
    CheckpointRequest, Checkpointer, Error, NewEvent, Session,
    backend::ChildService,
    checkpoint::{CheckpointerEvent, CheckpointerOptions},
    context::{CompactionSettings, Compactor, CompactorEvent, undo_of_compaction},
    event::StatusChange,
};

use crate::command_output::{status, warning};
use crate::error::on_one_line;

/// What is done beside a recording.
#[derive(Debug, Clone)]
pub(crate) struct RecordingJobs {
    /// The time between two checkpoints.
    pub(crate) checkpoint_every: Option<Duration>,
    /// When the context is compacted by itself.
    pub(crate) compaction: Option<CompactionSettings>,
}

/// A session that this process writes to, shared with other commands.
pub(crate) struct SharedRecording {
    /// Makes checkpoints until the recording ends.
    checkpoints: Option<RecordingCheckpoints>,
    /// Compacts the context until the recording ends.
    compactor: Option<Compactor>,
    /// `None` until the session is shared, and if it cannot be.
    others: Option<ChildService>,
    is_shared: bool,
    session: Arc<Session>,
}

struct RecordingCheckpoints {
    checkpointer: Checkpointer,
    events: Receiver<CheckpointerEvent>,
    /// The last failure that was reported.
    failure: Option<String>,
}

impl SharedRecording {
    /// Records into a session. The first checkpoint is made at once.
    pub(crate) fn over(session: Session, jobs: &RecordingJobs) -> Result<Self, Error> {
        let session = Arc::new(session);
        let compactor = jobs.compaction.as_ref().and_then(|settings| {
            let threshold = settings.threshold(session.store())?;
            Some(Compactor::start(
                &session,
                threshold,
                settings.summarizer.clone(),
                tell_compaction,
            ))
        });
        let mut recording =
            Self { checkpoints: None, compactor, others: None, is_shared: false, session };
        if let Some(every) = jobs.checkpoint_every {
            // The first checkpoint may take its time, and others want to write meanwhile.
            recording.share();
            let checkpoints = RecordingCheckpoints::start(&recording.session, every)?;
            recording.checkpoints = Some(checkpoints);
        }
        Ok(recording)
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Lets other commands of this user write to the session. Without a socket they are told who
    /// holds it.
    pub(crate) fn share(&mut self) {
        if !std::mem::replace(&mut self.is_shared, true) && !self.session.is_relayed() {
            let waker = self.compactor.as_ref().map(Compactor::waker);
            let seen = move |_: &[NewEvent]| {
                if let Some(waker) = &waker {
                    waker.wake();
                }
            };
            self.others = self.session.serve_children(seen).ok();
        }
    }

    pub(crate) const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Warns of checkpoints that failed.
    pub(crate) fn report_checkpoints(&mut self) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.report();
        }
    }

    /// Events were recorded and acknowledged; the last of them ends a turn, or not.
    pub(crate) fn recorded(&self, is_turn_end: bool) {
        match &self.compactor {
            Some(compactor) if is_turn_end => compactor.settle(),
            Some(compactor) => compactor.wake(),
            None => {}
        }
    }

    pub(crate) fn is_compaction_waiting(&self) -> bool {
        self.compactor.as_ref().is_some_and(Compactor::is_waiting)
    }

    /// Compacts what is due, makes the last checkpoint, records the status that the session gets, and
    /// releases it. That a checkpoint fails is only a warning: everything was recorded.
    pub(crate) fn close(mut self, status: Option<StatusChange>) -> Result<(), Error> {
        if let Some(compactor) = self.compactor.take() {
            compactor.finish();
        }
        if let Some(checkpoints) = self.checkpoints.take()
            && let Err(error) = checkpoints.stop()
        {
            warning(format_args!("no checkpoint at the end: {}", on_one_line(&error)));
        }
        if let Some(status) = status {
            self.session.append(status)?.wait()?;
        }
        self.others = None;
        match Arc::try_unwrap(self.session) {
            Ok(session) => session.close(),
            Err(_) => Ok(()),
        }
    }
}

/// Tells the user what became of the context.
fn tell_compaction(event: CompactorEvent) {
    match event {
        CompactorEvent::Compacted { ref lane, .. } => {
            let undo = undo_of_compaction(lane.as_ref());
            status(format_args!("{event}; `{undo}` undoes it"));
        }
        CompactorEvent::Failed(_) => warning(event),
    }
}

impl RecordingCheckpoints {
    fn start(session: &Arc<Session>, interval: Duration) -> Result<Self, Error> {
        let request = CheckpointRequest { lenient: true, ..CheckpointRequest::default() };
        let options = CheckpointerOptions { interval, request };
        let (checkpointer, events) = Checkpointer::start(session.clone(), options)?;
        Ok(Self { checkpointer, events, failure: None })
    }

    fn report(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            match event {
                CheckpointerEvent::Checkpoint(_) | CheckpointerEvent::Unchanged(_) => {
                    self.failure = None;
                }
                CheckpointerEvent::Failed(error) => {
                    let failure = on_one_line(&error);
                    if self.failure.as_ref() != Some(&failure) {
                        warning(format_args!("no checkpoint: {failure}; abide will try again"));
                        self.failure = Some(failure);
                    }
                }
                CheckpointerEvent::Started { .. } | CheckpointerEvent::Stopped(_) => {}
            }
        }
    }

    fn stop(mut self) -> Result<(), Error> {
        self.report();
        self.checkpointer.stop()?;
        Ok(())
    }
}
