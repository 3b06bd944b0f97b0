//! Checkpoints at intervals, beside whatever an agent does.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use abide_model::{Objects, SessionId, SessionRef};

use crate::{
    CheckpointEntry, CheckpointMade, CheckpointRequest, CheckpointSummary, Error, Session, Store,
    Trigger, summarize,
};

/// How a [`Checkpointer`] works.
#[derive(Debug, Clone)]
pub struct CheckpointerOptions {
    /// The time between two checkpoints. Sessions of under an hour do well with 10 to 15 minutes,
    /// up to three hours with 15 to 20, up to six with 20 to 30, longer ones with 30.
    pub interval: Duration,
    /// What each checkpoint is to hold; the trigger is set for each.
    pub request: CheckpointRequest,
}

impl CheckpointerOptions {
    /// Half an hour.
    pub const INTERVAL: Duration = Duration::from_secs(30 * 60);
}

impl Default for CheckpointerOptions {
    fn default() -> Self {
        let request = CheckpointRequest { lenient: true, ..CheckpointRequest::default() };
        Self { interval: Self::INTERVAL, request }
    }
}

/// What a [`Checkpointer`] tells of its work.
#[derive(Debug)]
pub enum CheckpointerEvent {
    /// It works.
    Started {
        /// The time between two checkpoints.
        interval: Duration,
    },
    /// A checkpoint was made.
    Checkpoint(Box<CheckpointMade>),
    /// One could not be made; the next is tried at its time.
    Failed(Error),
    /// It has ended, with all checkpoints in sum.
    Stopped(CheckpointSummary),
}

/// Who holds the session.
#[derive(Debug, Clone)]
enum Subject {
    /// This process.
    Held(Arc<Session>),
    /// Whoever does: it is taken for the moment of each append.
    Free(Store, SessionId),
}

/// Makes checkpoints at intervals until it is stopped.
///
/// ```
/// use std::sync::Arc;
/// use abide::{Checkpointer, CheckpointerEvent, CheckpointerOptions, NewSession, Store};
///
/// # let dir = tempfile::tempdir()?;
/// # std::fs::write(dir.path().join("notes.txt"), "first")?;
/// let store = Store::open_or_init(dir.path())?;
/// let session = Arc::new(store.create(NewSession::titled("a long run"))?);
/// let (checkpointer, events) = Checkpointer::start(session, CheckpointerOptions::default())?;
/// // … hours of work …
/// let summary = checkpointer.stop()?;
/// assert_eq!(summary.total, 2, "one at the start, one at the end");
/// assert!(matches!(events.recv(), Ok(CheckpointerEvent::Started { .. })));
/// # Ok::<(), abide::Error>(())
/// ```
#[derive(Debug)]
pub struct Checkpointer {
    subject: Subject,
    request: CheckpointRequest,
    events: Sender<CheckpointerEvent>,
    /// One checkpoint at a time.
    turn: Arc<Mutex<()>>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Begins with a checkpoint at once, then goes on at intervals in a thread of its own.
    pub fn start(
        session: Arc<Session>,
        options: CheckpointerOptions,
    ) -> Result<(Self, Receiver<CheckpointerEvent>), Error> {
        Self::start_with(Subject::Held(session), options)
    }

    /// The same for a session that others write to: it is taken only for the moment of an append,
    /// and waited for as long as the store waits.
    pub fn start_beside(
        store: Store,
        session: SessionId,
        options: CheckpointerOptions,
    ) -> Result<(Self, Receiver<CheckpointerEvent>), Error> {
        Self::start_with(Subject::Free(store, session), options)
    }

    fn start_with(
        subject: Subject,
        options: CheckpointerOptions,
    ) -> Result<(Self, Receiver<CheckpointerEvent>), Error> {
        let (events, receiver) = channel();
        let (end, ended) = channel();
        let CheckpointerOptions { interval, request } = options;
        let mut checkpointer =
            Self { subject, request, events, turn: Arc::default(), end: Some(end), thread: None };
        checkpointer.tell(CheckpointerEvent::Started { interval });
        checkpointer.capture(Trigger::Interval)?;
        let worker = checkpointer.twin();
        checkpointer.thread = Some(std::thread::spawn(move || worker.work(interval, &ended)));
        Ok((checkpointer, receiver))
    }

    /// The part of it that works in the thread.
    fn twin(&self) -> Self {
        Self {
            subject: self.subject.clone(),
            request: self.request.clone(),
            events: self.events.clone(),
            turn: self.turn.clone(),
            end: None,
            thread: None,
        }
    }

    fn work(&self, interval: Duration, ended: &Receiver<()>) {
        let mut next = Instant::now() + interval;
        loop {
            match ended.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
            if let Err(error) = self.capture(Trigger::Interval) {
                self.tell(CheckpointerEvent::Failed(error));
            }
            next = Instant::now() + interval;
        }
    }

    fn tell(&self, event: CheckpointerEvent) {
        // Nobody may be listening.
        let _ = self.events.send(event);
    }

    /// Makes a checkpoint now.
    pub fn capture(&self, trigger: Trigger) -> Result<CheckpointMade, Error> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let request = CheckpointRequest { trigger, ..self.request.clone() };
        let made = match &self.subject {
            Subject::Held(session) => session.checkpoint(&request)?,
            Subject::Free(store, id) => {
                let reference = SessionRef::Id(*id);
                let fields = store.view(&reference)?.state()?.core.fields;
                let captured = store.capture(&fields, &request)?;
                let session = store.open_session(&reference)?;
                let made = session.put_checkpoint(&captured)?;
                session.close()?;
                made
            }
        };
        self.tell(CheckpointerEvent::Checkpoint(Box::new(made.clone())));
        Ok(made)
    }

    /// Every checkpoint of the session, oldest first.
    pub fn list(&self) -> Result<Vec<CheckpointEntry>, Error> {
        match &self.subject {
            Subject::Held(session) => session.view().checkpoints(false),
            Subject::Free(store, id) => store.view(&SessionRef::Id(*id))?.checkpoints(false),
        }
    }

    /// The newest checkpoint that can be gone back to.
    pub fn latest(&self, objects: &dyn Objects) -> Result<Option<CheckpointEntry>, Error> {
        match &self.subject {
            Subject::Held(session) => Ok(session.view().latest_checkpoint(objects)?.0),
            Subject::Free(store, id) => {
                Ok(store.view(&SessionRef::Id(*id))?.latest_checkpoint(objects)?.0)
            }
        }
    }

    /// All checkpoints in sum.
    pub fn summary(&self) -> Result<CheckpointSummary, Error> {
        Ok(summarize(&self.list()?))
    }

    /// Ends with a last checkpoint, and sums up.
    pub fn stop(mut self) -> Result<CheckpointSummary, Error> {
        self.end_thread();
        self.capture(Trigger::Shutdown)?;
        let summary = self.summary()?;
        self.tell(CheckpointerEvent::Stopped(summary.clone()));
        Ok(summary)
    }

    fn end_thread(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.end_thread();
    }
}
