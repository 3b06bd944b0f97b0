//! Sealing: compresses segments that nobody appends to any more.
//!
//! Full segments are sealed while their writer is idle, when it closes, and by `cleanup`; the last
//! one too when a writer closes and it is large, and by `cleanup` when it has not been written for
//! a day. All of it happens under the session's lock, after everything was acknowledged. What
//! cannot be sealed stays plain, which does no harm.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use abide_journal::{
    Access, Journal, JournalError, SealPlan, SegmentForm, SegmentName, Storage, filling_start,
};
use abide_maintain::SealOutcome;

/// Seals full segments while the writer is idle.
#[derive(Debug, Default)]
pub(crate) struct Sealer {
    stop: Arc<AtomicBool>,
    /// Counts commits, to detect activity.
    activity: Arc<AtomicU64>,
    running: Option<JoinHandle<()>>,
}

/// A writer that has not committed for this long is idle.
const IDLE: Duration = Duration::from_millis(200);
/// A writer that closes seals no more plain bytes than this: others may be waiting for the session.
const AT_CLOSE: u64 = 64 << 20;
/// Nor for longer than this.
const AT_CLOSE_TIME: Duration = Duration::from_secs(1);
/// A writer that closes seals the last segment if it has at least this part of a full one.
const LARGE_PART: u64 = 4;
/// A smaller segment takes no less room when it is sealed: files are stored in blocks.
pub(crate) const SMALL: u64 = 4 << 10;

impl Sealer {
    /// Called after a commit.
    pub(crate) fn note_activity(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
    }

    /// Starts the thread that seals the full segments.
    pub(crate) fn start(&mut self, storage: &Arc<dyn Storage>, dir: &Path) {
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
                if !busy() {
                    let sealing = Sealing { stop: &busy, ..Sealing::of(&storage, &dir) };
                    match sealing.seal(SealScope::Full) {
                        Ok(done) if done.stopped => {}
                        _ => return,
                    }
                }
            }
        };
        self.running = std::thread::Builder::new().name("abide-seal".to_owned()).spawn(work).ok();
    }

    /// Seals what a writer that closes leaves behind, and ends. `settled` makes the last segment
    /// durable, and is called before that one is sealed; `full` is the size of a full segment.
    pub(crate) fn finish(
        self,
        storage: &Arc<dyn Storage>,
        dir: &Path,
        full: u64,
        settled: impl FnOnce() -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        drop(self);
        let begun = Instant::now();
        let late = || begun.elapsed() > AT_CLOSE_TIME;
        let sealing = Sealing { most: AT_CLOSE, stop: &late, ..Sealing::of(storage, dir) };
        let Some(last) = sealing.plain_last()? else { return Ok(()) };
        let scope = if last >= full / LARGE_PART && last > SMALL {
            settled()?;
            SealScope::Whole
        } else {
            SealScope::Full
        };
        sealing.seal(scope).map(drop)
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

/// Which segments are sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealScope {
    /// All but the last.
    Full,
    /// The last one too. All of it must be durable, and the lock held.
    Whole,
}

/// A journal to be sealed. The session's lock must be held.
pub(crate) struct Sealing<'a> {
    pub(crate) storage: &'a Arc<dyn Storage>,
    pub(crate) dir: &'a Path,
    /// Polled now and then; `true` stops it.
    pub(crate) stop: &'a dyn Fn() -> bool,
    /// No segment is begun once this many plain bytes are sealed.
    pub(crate) most: u64,
}

impl<'a> Sealing<'a> {
    pub(crate) fn of(storage: &'a Arc<dyn Storage>, dir: &'a Path) -> Self {
        Self { storage, dir, stop: &|| false, most: u64::MAX }
    }

    fn segments(&self) -> Result<Vec<SegmentName>, JournalError> {
        Journal::new(self.storage.clone(), self.dir.to_owned()).segments()
    }

    fn len(&self, name: SegmentName) -> Result<u64, JournalError> {
        let path = self.dir.join(name.file_name());
        let length = self.storage.open(&path, Access::Read).and_then(|file| match name.form {
            SegmentForm::Plain => filling_start(&*file),
            SegmentForm::Sealed => file.len(),
        });
        length.map_err(JournalError::io("read", &path))
    }

    /// The bytes of the last segment; `None` if it is sealed, or there is none.
    fn plain_last(&self) -> Result<Option<u64>, JournalError> {
        let last = self.segments()?.last().copied();
        let plain = last.filter(|name| name.form == SegmentForm::Plain);
        plain.map(|name| self.len(name)).transpose()
    }

    /// Seals the plain segments in scope, the oldest first.
    pub(crate) fn seal(&self, scope: SealScope) -> Result<SealOutcome, JournalError> {
        let mut segments = self.segments()?;
        if scope == SealScope::Full {
            segments.pop();
        }
        let mut done = SealOutcome::default();
        for plain in segments.into_iter().filter(|name| name.form == SegmentForm::Plain) {
            done.stopped = (self.stop)() || done.plain_bytes >= self.most;
            if done.stopped {
                break;
            }
            let bytes = self.len(plain)?;
            let plan = SealPlan { dir: self.dir, number: plain.number };
            if !plan.apply(&**self.storage, self.stop)? {
                done.stopped = true;
                break;
            }
            done.segments += 1;
            done.plain_bytes += bytes;
            done.sealed_bytes += self.len(SegmentName { form: SegmentForm::Sealed, ..plain })?;
        }
        Ok(done)
    }
}
