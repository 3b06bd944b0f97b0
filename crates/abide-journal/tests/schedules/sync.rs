//! What the commit queue synchronises with here: the same names as in `src/sync.rs`, and behind
//! them shuttle, which decides after each step which thread goes on.
//!
//! Atomics are sequentially consistent here, whatever ordering is asked for: interleavings are
//! tried, not the reorderings of a weak memory.

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use shuttle::thread;

use std::time::Duration;

use shuttle::sync::atomic::AtomicU32;

/// A number that threads sleep on, as a futex: whether to sleep is decided and done at once, and
/// nobody but [`SleepCount::wake_all`] wakes. So a wake that comes too early, or not at all, is
/// lost here too, and shuttle reports the deadlock.
#[derive(Default)]
pub(crate) struct SleepCount {
    number: AtomicU32,
    asleep: Mutex<()>,
    woken: Condvar,
}

impl SleepCount {
    pub(crate) fn read(&self) -> u32 {
        self.number.load(Ordering::SeqCst)
    }

    pub(crate) fn count(&self) {
        self.number.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn sleep(&self, seen: u32) {
        let asleep = self.asleep.lock().unwrap();
        if self.number.load(Ordering::SeqCst) == seen {
            drop(self.woken.wait(asleep).unwrap());
        }
    }

    pub(crate) fn wake_all(&self) {
        let _asleep = self.asleep.lock().unwrap();
        self.woken.notify_all();
    }
}

/// Shuttle knows no time: the while is over whenever this thread has its turn again.
pub(crate) fn wait_a_while<T>(_told: &Condvar, guard: MutexGuard<'_, T>, _at_most: Duration) {
    drop(guard);
    thread::yield_now();
}
