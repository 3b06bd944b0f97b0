//! Synchronisation primitives of the commit queue.
//!
//! There are two sets: these, from the standard library, and those of `tests/schedules`, which runs
//! the same queue under its own scheduler and tries one interleaving after another. So the queue
//! must take locks, atomics and threads from here only.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread;

use std::sync::PoisonError;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// A counter that threads can sleep on until it changes.
#[derive(Debug, Default)]
pub(crate) struct SleepCount(AtomicU32);

impl SleepCount {
    /// The current count.
    pub(crate) fn read(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Increments the count. Wakes nobody.
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Sleeps while the count is `seen`; may return early.
    pub(crate) fn sleep(&self, seen: u32) {
        atomic_wait::wait(&self.0, seen);
    }

    /// Wakes all sleepers.
    pub(crate) fn wake_all(&self) {
        atomic_wait::wake_all(&self.0);
    }
}

/// Waits for a notification, for at most this long.
pub(crate) fn wait_a_while<T>(told: &Condvar, guard: MutexGuard<'_, T>, at_most: Duration) {
    drop(told.wait_timeout(guard, at_most).unwrap_or_else(PoisonError::into_inner));
}
