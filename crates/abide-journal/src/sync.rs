//! What the commit queue synchronises with.
//!
//! Two sets: these, of the standard library, and those of `tests/schedules`, which has the same
//! queue run under a scheduler of its own that tries one interleaving after the other. So the
//! queue takes locks, atomics and threads from here and from nowhere else.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread;

use std::sync::PoisonError;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// A number that counts up, and that threads sleep on until it does.
#[derive(Debug, Default)]
pub(crate) struct SleepCount(AtomicU32);

impl SleepCount {
    /// The number now.
    pub(crate) fn read(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Counts. Wakes nobody.
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Sleeps while the number is `seen`; may return earlier.
    pub(crate) fn sleep(&self, seen: u32) {
        atomic_wait::wait(&self.0, seen);
    }

    /// Wakes whoever sleeps.
    pub(crate) fn wake_all(&self) {
        atomic_wait::wake_all(&self.0);
    }
}

/// Waits to be told, for a while at most.
pub(crate) fn wait_a_while<T>(told: &Condvar, guard: MutexGuard<'_, T>, at_most: Duration) {
    drop(told.wait_timeout(guard, at_most).unwrap_or_else(PoisonError::into_inner));
}
