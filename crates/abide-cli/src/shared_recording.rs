//! A session that `abide record` holds: other commands write to it meanwhile, and checkpoints of its
//! files are made at intervals if that is asked for.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use abide::{
    CheckpointRequest, Checkpointer, Error, Session,
    backend::ChildService,
    checkpoint::{CheckpointerEvent, CheckpointerOptions},
    event::StatusChange,
};

use crate::error::on_one_line;
use crate::output::warning;

/// A session that this process writes to, shared with other commands.
pub(crate) struct SharedRecording {
    /// Makes checkpoints until the recording ends.
    checkpoints: Option<RecordingCheckpoints>,
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
    /// Records into a session, with checkpoints at this interval. The first one is made at once.
    pub(crate) fn over(session: Session, every: Option<Duration>) -> Result<Self, Error> {
        let session = Arc::new(session);
        let mut recording = Self { checkpoints: None, others: None, is_shared: false, session };
        if let Some(every) = every {
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
            self.others = self.session.serve_children(|_| ()).ok();
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

    /// Makes the last checkpoint, records the status that the session gets, and releases it. That a
    /// checkpoint fails is only a warning: everything was recorded.
    pub(crate) fn close(mut self, status: Option<StatusChange>) -> Result<(), Error> {
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
                CheckpointerEvent::Checkpoint(_) => self.failure = None,
                CheckpointerEvent::Failed(error) => {
                    let failure = on_one_line(&error);
                    if self.failure.as_ref() != Some(&failure) {
                        warning(format_args!("no checkpoint: {failure}; it is tried again"));
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
