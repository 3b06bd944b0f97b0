//! Keeps the file of a plan up to date while its tasks are run. A thread of its own follows the
//! session, so that a change by anybody is written, and nothing waits for the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use abide::{Kind, Session, tasks::PlanFile};

/// The longest time between two checks for the end of the run.
const PAUSE: Duration = Duration::from_millis(50);

/// Keeps the file of a plan up to date.
#[derive(Debug)]
pub(crate) struct PlanKeeper {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), abide::Error>>,
}

impl PlanKeeper {
    /// Brings the file up to date, and keeps it so.
    pub(crate) fn start(session: &Arc<Session>) -> Result<Self, abide::Error> {
        let file = PlanFile::open(session.clone())?;
        let ended = Arc::new(AtomicBool::new(false));
        let (session, asked) = (session.clone(), ended.clone());
        let thread = std::thread::spawn(move || keep_plan(&session, file, &asked));
        Ok(Self { ended, thread })
    }

    /// Writes the last changes, and returns why the file is not up to date.
    pub(crate) fn finish(self) -> Result<(), String> {
        self.ended.store(true, Ordering::Release);
        match self.thread.join() {
            Ok(kept) => kept.map_err(|error| told_error(&error)),
            Err(_) => Err("its thread ended early".to_owned()),
        }
    }
}

/// An error with its causes, in one line.
pub(crate) fn told_error(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn keep_plan(
    session: &Session,
    mut file: PlanFile,
    ended: &AtomicBool,
) -> Result<(), abide::Error> {
    let mut events = session.view().follow(session.view().acknowledged()?.next());
    // A file that cannot be written now may be writable at the next change.
    let _ = file.update();
    loop {
        let is_last = ended.load(Ordering::Acquire);
        match events.next_within(if is_last { Duration::ZERO } else { PAUSE })? {
            Some(event) if changes_status(&event.kind) => {
                let _ = file.update();
            }
            Some(_) => {}
            None if is_last => return file.update(),
            None => {}
        }
    }
}

fn changes_status(kind: &Kind) -> bool {
    [Kind::TASK_CREATED, Kind::TASK_CHANGED, Kind::TASK_STATUS].contains(kind)
}
