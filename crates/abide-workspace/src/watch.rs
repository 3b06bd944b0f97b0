//! Progress reports and cancellation for a running snapshot.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Minimum time between two progress reports.
const PAUSE: Duration = Duration::from_millis(50);

/// Progress of a running snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotProgress {
    /// Files and links seen so far.
    pub files_seen: u64,
    /// Files read so far because they are new or changed.
    pub files_read: u64,
    /// Bytes read so far.
    pub bytes_read: u64,
}

/// Progress callback and cancellation flag for a running snapshot.
#[derive(Clone, Default)]
pub struct Watch {
    /// Set it to true to cancel the snapshot soon.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Called from time to time, from any thread, and once more at the end.
    pub progress: Option<Arc<dyn Fn(SnapshotProgress) + Send + Sync>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

impl Watch {
    /// Returns true if the snapshot should stop.
    pub(crate) fn cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }
}

/// Counters shared by the workers; reports to the watch from time to time.
pub(crate) struct WatchMeter<'a> {
    watch: &'a Watch,
    began: Instant,
    told: AtomicU64,
    seen: AtomicU64,
    read: AtomicU64,
    bytes: AtomicU64,
}

impl<'a> WatchMeter<'a> {
    pub(crate) fn new(watch: &'a Watch) -> Self {
        let zero = || AtomicU64::new(0);
        let (told, seen, read, bytes) = (zero(), zero(), zero(), zero());
        Self { watch, began: Instant::now(), told, seen, read, bytes }
    }

    pub(crate) fn add(&self, more: SnapshotProgress) {
        let Some(progress) = &self.watch.progress else { return };
        self.seen.fetch_add(more.files_seen, Ordering::Relaxed);
        self.read.fetch_add(more.files_read, Ordering::Relaxed);
        self.bytes.fetch_add(more.bytes_read, Ordering::Relaxed);
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let told = self.told.load(Ordering::Relaxed);
        let pause = PAUSE.as_millis() as u64;
        if now < told + pause {
            return;
        }
        let mine = self.told.compare_exchange(told, now, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_ok() {
            progress(self.now());
        }
    }

    /// Reports the final counts.
    pub(crate) fn finish(&self) {
        if let Some(progress) = &self.watch.progress {
            progress(self.now());
        }
    }

    fn now(&self) -> SnapshotProgress {
        SnapshotProgress {
            files_seen: self.seen.load(Ordering::Relaxed),
            files_read: self.read.load(Ordering::Relaxed),
            bytes_read: self.bytes.load(Ordering::Relaxed),
        }
    }
}
