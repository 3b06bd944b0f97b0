//! Shares work among threads. Each thread has its own stack and gives work away only when another
//! one is waiting: the oldest half, which covers the largest subtrees.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) struct WorkQueue<W> {
    stack: Mutex<Vec<W>>,
    wake: Condvar,
    hungry: AtomicUsize,
    over: AtomicBool,
}

impl<W> WorkQueue<W> {
    pub(crate) fn new(first: W) -> Self {
        Self {
            stack: Mutex::new(vec![first]),
            wake: Condvar::new(),
            hungry: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Waits for the next piece of work. `None` once the queue has ended.
    pub(crate) fn next(&self, own: &mut Vec<W>) -> Option<W> {
        if self.is_over() {
            return None;
        }
        if own.len() > 1 && self.hungry.load(Ordering::Relaxed) > 0 {
            self.lock().extend(own.drain(..own.len() / 2));
            self.wake.notify_all();
        }
        own.pop().or_else(|| self.wait())
    }

    /// Ends the queue for all threads.
    pub(crate) fn end(&self) {
        // Under the lock, so that a thread about to sleep does not miss it.
        let _stack = self.lock();
        self.over.store(true, Ordering::Relaxed);
        self.wake.notify_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn wait(&self) -> Option<W> {
        self.hungry.fetch_add(1, Ordering::Relaxed);
        let mut stack = self.lock();
        let work = loop {
            if self.is_over() {
                break None;
            }
            if let Some(work) = stack.pop() {
                break Some(work);
            }
            stack = self.wake.wait(stack).unwrap_or_else(PoisonError::into_inner);
        };
        self.hungry.fetch_sub(1, Ordering::Relaxed);
        work
    }

    fn lock(&self) -> MutexGuard<'_, Vec<W>> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
