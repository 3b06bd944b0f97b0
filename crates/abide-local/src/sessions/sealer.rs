//! Sealing: compresses finished segments while the writer is idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use abide_journal::{Journal, JournalError, SealPlan, SegmentForm, Storage};

/// Seals finished segments while the writer is idle.
#[derive(Debug, Default)]
pub(crate) struct Sealer {
    stop: Arc<AtomicBool>,
    /// Counts commits, to detect activity.
    activity: Arc<AtomicU64>,
    running: Option<JoinHandle<()>>,
}

/// A writer that has not committed for this long is idle.
const IDLE: Duration = Duration::from_millis(200);

impl Sealer {
    /// Called after a commit.
    pub(crate) fn note_activity(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
    }

    /// Starts the thread that seals what there is.
    pub(crate) fn start(&mut self, storage: &Arc<dyn Storage>, dir: &std::path::Path) {
        if self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return;
        }
        let (storage, dir) = (storage.clone(), dir.to_owned());
        let (stop, activity) = (self.stop.clone(), self.activity.clone());
        let work = move || {
            give_way();
            loop {
                let before = activity.load(Ordering::Relaxed);
                std::thread::park_timeout(IDLE);
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let busy =
                    || stop.load(Ordering::Relaxed) || activity.load(Ordering::Relaxed) != before;
                // A segment that cannot be sealed stays plain, which does no harm.
                if !busy()
                    && !matches!(seal_all(&storage, &dir, &busy), Ok(SealingOutcome::Stopped))
                {
                    return;
                }
            }
        };
        self.running = std::thread::Builder::new().name("abide-seal".to_owned()).spawn(work).ok();
    }
}

/// Lowers the priority: the writer and the agent go first.
fn give_way() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10);
}

impl Drop for Sealer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(running) = self.running.take() {
            running.thread().unpark();
            let _ = running.join();
        }
    }
}

/// How sealing ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealingOutcome {
    /// Nothing is left to seal; this many segments were sealed.
    Done(u64),
    /// It was stopped before.
    Stopped,
}

/// Seals every plain segment but the last.
pub(crate) fn seal_all(
    storage: &Arc<dyn Storage>,
    dir: &std::path::Path,
    stop: &dyn Fn() -> bool,
) -> Result<SealingOutcome, JournalError> {
    let segments = Journal::new(storage.clone(), dir.to_owned()).segments()?;
    let mut sealed = 0;
    let done_with = segments.iter().rev().skip(1).rev();
    for name in done_with.filter(|name| name.form == SegmentForm::Plain) {
        if stop() || !(SealPlan { dir, number: name.number }).apply(&**storage, stop)? {
            return Ok(SealingOutcome::Stopped);
        }
        sealed += 1;
    }
    Ok(SealingOutcome::Done(sealed))
}
