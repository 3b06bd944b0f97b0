//! Makes checkpoints at intervals while an agent works.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use abide_model::{Objects, SessionCore, SessionId, SessionRef, StoreError};
use abide_workspace::WorkspaceError;

use crate::checkpoint::CapturedCheckpoint;
use crate::{
    CheckpointRequest, Error, Session, Store,
    checkpoint::{
        CheckpointEntry, CheckpointOutcome, CheckpointSummary, RecordedCheckpoint, Trigger,
        UnchangedCheckpoint, summarize,
    },
};

/// A checkpoint that another process prevents is retried after this time, or after the interval if
/// that is shorter.
const SOON: Duration = Duration::from_secs(30);
/// How often files are captured again because a rewind moved them meanwhile.
const ATTEMPTS: usize = 3;
/// The time between such attempts.
const PAUSE: Duration = Duration::from_millis(100);
/// Why a checkpoint fails while a rewind is unfinished.
const HALF_WAY: &str = "a rewind of its files is running or was interrupted";

/// Options of a [`Checkpointer`].
#[derive(Debug, Clone)]
pub struct CheckpointerOptions {
    /// The time between two checkpoints. Suggested: 10 to 15 minutes for sessions of under an hour,
    /// 15 to 20 for up to three hours, 20 to 30 for up to six, 30 for longer ones.
    pub interval: Duration,
    /// What each checkpoint contains. The trigger is set automatically.
    pub request: CheckpointRequest,
}

impl CheckpointerOptions {
    /// The default interval: half an hour.
    pub const INTERVAL: Duration = Duration::from_secs(30 * 60);
}

impl Default for CheckpointerOptions {
    fn default() -> Self {
        let request = CheckpointRequest { lenient: true, ..CheckpointRequest::default() };
        Self { interval: Self::INTERVAL, request }
    }
}

/// What a [`Checkpointer`] reports.
#[derive(Debug)]
pub enum CheckpointerEvent {
    /// The checkpointer started.
    Started {
        /// The time between two checkpoints.
        interval: Duration,
    },
    /// A checkpoint was made.
    Checkpoint(Box<RecordedCheckpoint>),
    /// A checkpoint was due and none was made: the files are those of the last one.
    Unchanged(UnchangedCheckpoint),
    /// A checkpoint failed. The next one is made on schedule, or soon if another process holds the
    /// session or a rewind is unfinished.
    Failed(Error),
    /// The checkpointer stopped, with the totals of all checkpoints.
    Stopped(CheckpointSummary),
}

/// Who holds the session.
#[derive(Debug, Clone)]
enum Subject {
    /// This process.
    Held(Arc<Session>),
    /// Somebody else, or nobody: it is opened only for each append.
    Free(Store, SessionId),
}

/// The result of one capture.
enum Attempt {
    Ended(CheckpointOutcome),
    /// A rewind is moving the files of this directory, or did so meanwhile.
    Moved(Option<PathBuf>),
}

/// Makes a checkpoint from a capture, unless a rewind happened since `before` or nothing changed.
fn put_captured_checkpoint(
    session: &Session,
    before: &SessionCore,
    captured: CapturedCheckpoint,
) -> Result<Attempt, Error> {
    let now = session.core()?;
    if now.restoring.is_some() || now.last_rewind != before.last_rewind {
        return Ok(Attempt::Moved(captured.root));
    }
    let outcome = match captured.held_by(&now, || session.state())? {
        Some(held) => {
            session.note_files(held.seq)?;
            CheckpointOutcome::Unchanged(held)
        }
        None => CheckpointOutcome::Recorded(Box::new(session.put_checkpoint(&captured)?)),
    };
    Ok(Attempt::Ended(outcome))
}

/// Returns true if the error goes away once another process is done.
fn is_passing_checkpoint_error(error: &Error) -> bool {
    match error {
        Error::Store(StoreError::Held { .. }) => true,
        Error::Workspace(WorkspaceError::Refused { why, .. }) => *why == HALF_WAY,
        _ => false,
    }
}

/// Makes checkpoints at intervals until it is stopped, each time the files have changed.
///
/// ```
/// use std::sync::Arc;
/// use abide::{Checkpointer, NewSession, Store, checkpoint::{CheckpointerEvent, CheckpointerOptions}};
///
/// # let dir = tempfile::tempdir()?;
/// # std::fs::write(dir.path().join("notes.txt"), "first")?;
/// let store = Store::open_or_init(dir.path())?;
/// let session = Arc::new(store.create(NewSession::titled("a long run"))?);
/// let (checkpointer, events) = Checkpointer::start(session, CheckpointerOptions::default())?;
/// // … hours of work …
/// # std::fs::write(dir.path().join("notes.txt"), "second")?;
/// let summary = checkpointer.stop()?;
/// assert_eq!(summary.total, 2, "one at the start, one at the end");
/// assert!(matches!(events.recv(), Ok(CheckpointerEvent::Started { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Checkpointer {
    subject: Subject,
    request: CheckpointRequest,
    events: Sender<CheckpointerEvent>,
    /// Held while a checkpoint is made.
    turn: Arc<Mutex<()>>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Makes a checkpoint at once, then at intervals on its own thread.
    ///
    /// If the first one fails because another process holds the session or a rewind is unfinished,
    /// the failure is reported as an event and the checkpoint is made as soon as possible.
    pub fn start(
        session: Arc<Session>,
        options: CheckpointerOptions,
    ) -> Result<(Self, Receiver<CheckpointerEvent>), Error> {
        Self::start_with(Subject::Held(session), options)
    }

    /// Like [`Checkpointer::start`] for a session that others write to. The session is opened only
    /// for each append, waiting as long as the store's wait time.
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
        let first = match checkpointer.capture(Trigger::Interval) {
            Ok(_) => interval,
            Err(error) if is_passing_checkpoint_error(&error) => {
                checkpointer.failed(error, interval)
            }
            Err(error) => return Err(error),
        };
        let worker = checkpointer.twin();
        checkpointer.thread =
            Some(std::thread::spawn(move || worker.work(first, interval, &ended)));
        Ok((checkpointer, receiver))
    }

    /// The copy that runs on the thread.
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

    fn work(&self, first: Duration, interval: Duration, ended: &Receiver<()>) {
        let mut next = Instant::now() + first;
        loop {
            match ended.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
            let pause = match self.capture(Trigger::Interval) {
                Ok(_) => interval,
                Err(error) => self.failed(error, interval),
            };
            next = Instant::now() + pause;
        }
    }

    /// Reports a failure and returns the time until the next attempt.
    fn failed(&self, error: Error, interval: Duration) -> Duration {
        let pause = if is_passing_checkpoint_error(&error) { interval.min(SOON) } else { interval };
        self.tell(CheckpointerEvent::Failed(error));
        pause
    }

    fn tell(&self, event: CheckpointerEvent) {
        // Nobody may be listening.
        let _ = self.events.send(event);
    }

    /// Makes a checkpoint now, unless the files are those of the last one. Files that a rewind moves
    /// meanwhile are captured again.
    pub fn capture(&self, trigger: Trigger) -> Result<CheckpointOutcome, Error> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let request = CheckpointRequest { trigger, ..self.request.clone() };
        let mut root = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            match self.attempt(&request)? {
                Attempt::Ended(outcome) => {
                    self.tell(match outcome.clone() {
                        CheckpointOutcome::Recorded(made) => CheckpointerEvent::Checkpoint(made),
                        CheckpointOutcome::Unchanged(held) => CheckpointerEvent::Unchanged(held),
                    });
                    return Ok(outcome);
                }
                Attempt::Moved(seen) => root = seen,
            }
        }
        let root = root.unwrap_or_default();
        Err(WorkspaceError::Refused { root, why: HALF_WAY }.into())
    }

    /// Captures, and makes the checkpoint unless a rewind moved files meanwhile.
    fn attempt(&self, request: &CheckpointRequest) -> Result<Attempt, Error> {
        match &self.subject {
            Subject::Held(session) => {
                let before = session.core()?;
                if before.restoring.is_some() {
                    return Ok(Attempt::Moved(
                        session.store().workspace_root(session.id(), &before.fields).ok(),
                    ));
                }
                let captured = session.store().capture_for_checkpoint(
                    session.id(),
                    &before.fields,
                    request,
                )?;
                put_captured_checkpoint(session, &before, captured)
            }
            Subject::Free(store, id) => {
                let reference = SessionRef::Id(*id);
                let before = store.view(&reference)?.state()?.core;
                if before.restoring.is_some() {
                    return Ok(Attempt::Moved(store.workspace_root(*id, &before.fields).ok()));
                }
                let captured = store.capture_for_checkpoint(*id, &before.fields, request)?;
                // Nobody is disturbed, and nothing is written, where nothing changed.
                let now = store.view(&reference)?.state()?;
                let has_moved = now.core.last_rewind != before.last_rewind;
                if now.core.restoring.is_none() && !has_moved {
                    let core = now.core.clone();
                    if let Some(held) = captured.held_by(&core, || Ok(now))? {
                        return Ok(Attempt::Ended(CheckpointOutcome::Unchanged(held)));
                    }
                }
                let session = store.open_session(&reference)?;
                let attempt = put_captured_checkpoint(&session, &before, captured)?;
                session.close()?;
                Ok(attempt)
            }
        }
    }

    /// Every checkpoint of the session, oldest first.
    pub fn list(&self) -> Result<Vec<CheckpointEntry>, Error> {
        match &self.subject {
            Subject::Held(session) => session.view().checkpoints(),
            Subject::Free(store, id) => store.view(&SessionRef::Id(*id))?.checkpoints(),
        }
    }

    /// The newest checkpoint that can be restored.
    pub fn latest(&self, objects: &dyn Objects) -> Result<Option<CheckpointEntry>, Error> {
        match &self.subject {
            Subject::Held(session) => Ok(session.view().latest_checkpoint(objects)?.0),
            Subject::Free(store, id) => {
                Ok(store.view(&SessionRef::Id(*id))?.latest_checkpoint(objects)?.0)
            }
        }
    }

    /// The totals of all checkpoints.
    pub fn summary(&self) -> Result<CheckpointSummary, Error> {
        Ok(summarize(&self.list()?))
    }

    /// Makes a last checkpoint if the files have changed, stops, and returns the totals. The totals are reported as an event
    /// even if that checkpoint fails.
    pub fn stop(mut self) -> Result<CheckpointSummary, Error> {
        self.end_thread();
        let last = self.capture(Trigger::Shutdown);
        let summary = self.summary()?;
        self.tell(CheckpointerEvent::Stopped(summary.clone()));
        last.map(|_| summary)
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

#[cfg(test)]
mod tests {
    use super::*;
    use abide_model::{FilesRestored, NewSession, Rewind};
    use abide_workspace::Watch;
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Lab {
        dir: tempfile::TempDir,
        store: Store,
        id: SessionId,
    }

    impl Lab {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open_or_init(dir.path()).unwrap().waiting(Duration::ZERO);
            let mut new = NewSession::titled("work");
            new.fields.workspace = Some(dir.path().to_string_lossy().into_owned());
            let id = store.make(new).unwrap();
            let lab = Self { dir, store, id };
            lab.write("1");
            lab
        }

        fn write(&self, text: &str) {
            fs::write(self.dir.path().join("a"), text).unwrap();
        }

        fn open(&self) -> Session {
            self.store.open_session(&SessionRef::Id(self.id)).unwrap()
        }

        fn start(&self, watch: Watch) -> (Checkpointer, Receiver<CheckpointerEvent>) {
            let request = CheckpointRequest { watch, lenient: true, ..Default::default() };
            let options = CheckpointerOptions { interval: Duration::from_millis(20), request };
            Checkpointer::start_beside(self.store.clone(), self.id, options).unwrap()
        }
    }

    fn failure(events: &Receiver<CheckpointerEvent>) -> Error {
        assert!(matches!(events.recv().unwrap(), CheckpointerEvent::Started { .. }));
        match events.recv().unwrap() {
            CheckpointerEvent::Failed(error) => error,
            event => panic!("{event:?}"),
        }
    }

    fn first_made(events: &Receiver<CheckpointerEvent>) -> RecordedCheckpoint {
        let made = events.iter().find_map(|event| match event {
            CheckpointerEvent::Checkpoint(made) => Some(*made),
            _ => None,
        });
        made.unwrap()
    }

    #[test]
    fn a_session_that_another_holds_is_tried_again() {
        let lab = Lab::new();
        let held = lab.open();
        let (checkpointer, events) = lab.start(Watch::default());
        let error = failure(&events);
        assert!(matches!(error, Error::Store(StoreError::Held { .. })), "{error:?}");
        held.close().unwrap();
        assert_eq!(first_made(&events).number, 1);
        let held = loop {
            // It is taken for moments.
            match lab.store.open_session(&SessionRef::Id(lab.id)) {
                Ok(held) => break held,
                Err(error) => assert!(is_passing_checkpoint_error(&error), "{error:?}"),
            }
        };
        lab.write("2");
        let error = checkpointer.stop().unwrap_err();
        assert!(matches!(error, Error::Store(StoreError::Held { .. })), "{error:?}");
        assert!(matches!(events.iter().last(), Some(CheckpointerEvent::Stopped(_))));
        held.close().unwrap();
    }

    #[test]
    fn files_that_did_not_change_are_not_captured_again() {
        let lab = Lab::new();
        let (checkpointer, events) = lab.start(Watch::default());
        assert_eq!(first_made(&events).number, 1);
        let end = lab.store.view(&SessionRef::Id(lab.id)).unwrap().acknowledged().unwrap();
        assert!(
            matches!(events.recv().unwrap(), CheckpointerEvent::Unchanged(held) if held.number == 1)
        );
        let same = checkpointer.capture(Trigger::Turn).unwrap();
        assert!(matches!(same, CheckpointOutcome::Unchanged(held) if held.number == 1));
        let now = lab.store.view(&SessionRef::Id(lab.id)).unwrap().acknowledged().unwrap();
        assert_eq!(now, end, "the session is not even opened");
        lab.write("2");
        assert_eq!(checkpointer.stop().unwrap().total, 2);
        // A label names a place, whatever the files.
        let session = lab.open();
        let unnamed = session.checkpoint_changes(&CheckpointRequest::default()).unwrap();
        assert!(matches!(unnamed, CheckpointOutcome::Unchanged(held) if held.number == 2));
        let label = Some("here".to_owned());
        let named = CheckpointRequest { label, ..CheckpointRequest::default() };
        let named = session.checkpoint_changes(&named).unwrap();
        assert!(matches!(named, CheckpointOutcome::Recorded(made) if made.number == 3));
        session.close().unwrap();
    }

    #[test]
    fn files_that_a_rewind_moves_meanwhile_are_captured_anew() {
        let lab = Lab::new();
        let session = lab.open();
        let old = session.checkpoint(&CheckpointRequest::default()).unwrap();
        session.close().unwrap();
        lab.write("2");
        let (store, id, done) = (lab.store.clone(), lab.id, AtomicBool::new(false));
        // The first capture has seen everything: now comes the rewind.
        let rewind = move |_| {
            if done.swap(true, Ordering::Relaxed) {
                return;
            }
            let session = store.open_session(&SessionRef::Id(id)).unwrap();
            let watch = crate::checkpoint::RewindWatch::default();
            let to = session.view().resolve("1").unwrap();
            let request = crate::RewindRequest { files: true, ..Default::default() };
            let plan = session.plan_rewind(&to, &request, &watch).unwrap();
            session.rewind(plan, &watch).unwrap();
            session.close().unwrap();
        };
        let watch = Watch { progress: Some(Arc::new(rewind)), ..Watch::default() };
        let (checkpointer, events) = lab.start(watch);
        let made = first_made(&events);
        assert_eq!(made.number, 3, "the second is that of the rewind");
        assert_eq!(made.snapshot.unwrap().tree, old.snapshot.unwrap().tree);
        drop(checkpointer);
    }

    #[test]
    fn files_that_are_half_way_are_not_captured() {
        let lab = Lab::new();
        let put = |event: abide_model::NewEvent| {
            let session = lab.open();
            let done = session.append_all(vec![event]).unwrap().wait().unwrap();
            session.close().unwrap();
            done.last().unwrap().seq
        };
        let rewind = Rewind { files: true, to: abide_model::Seq(1), ..Rewind::default() };
        let rewind = put(rewind.try_into().unwrap());
        let (checkpointer, events) = lab.start(Watch::default());
        let error = failure(&events);
        assert!(error.to_string().ends_with(HALF_WAY), "{error}");
        assert_eq!(checkpointer.list().unwrap().len(), 0);
        put(FilesRestored { rewind, ..FilesRestored::default() }.try_into().unwrap());
        assert_eq!(first_made(&events).number, 1);
    }
}
