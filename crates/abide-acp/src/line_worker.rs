//! A thread that handles lines one after the other, from a bounded queue.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The most bytes queued.
const MOST_BYTES: usize = 64 << 20;

/// Handles lines one after the other. Its thread runs only while there is work.
pub(crate) struct LineWorker {
    queue: Mutex<LineQueue>,
    idle: Condvar,
}

#[derive(Default)]
struct LineQueue {
    lines: VecDeque<String>,
    bytes: usize,
    running: bool,
    /// A line is being handled.
    busy: bool,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueFull;

impl LineWorker {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { queue: Mutex::default(), idle: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, LineQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is queued, and nothing is being handled.
    pub(crate) fn is_idle(&self) -> bool {
        let queue = self.lock();
        queue.lines.is_empty() && !queue.busy
    }

    /// Queues a line for `take`, after all earlier ones.
    pub(crate) fn push(
        self: &Arc<Self>,
        line: String,
        take: impl Fn(&str) + Send + 'static,
    ) -> Result<(), QueueFull> {
        let mut queue = self.lock();
        let bytes = queue.bytes + line.len();
        if bytes > MOST_BYTES && !queue.lines.is_empty() {
            return Err(QueueFull);
        }
        queue.bytes = bytes;
        queue.lines.push_back(line);
        if !queue.running {
            let worker = Arc::clone(self);
            let started =
                std::thread::Builder::new().name("session".into()).spawn(move || worker.run(&take));
            if started.is_err() {
                queue.lines.pop_back();
                return Err(QueueFull);
            }
            queue.running = true;
        }
        drop(queue);
        self.idle.notify_all();
        Ok(())
    }

    fn run(&self, take: &dyn Fn(&str)) {
        /// How long a thread waits for more work before it ends.
        const IDLE: std::time::Duration = std::time::Duration::from_secs(30);
        loop {
            let mut queue = self.lock();
            while queue.lines.is_empty() {
                let (again, waited) =
                    self.idle.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
                queue = again;
                if waited.timed_out() && queue.lines.is_empty() {
                    queue.running = false;
                    return;
                }
            }
            let line = queue.lines.pop_front();
            queue.busy = true;
            drop(queue);
            if let Some(line) = line {
                take(&line);
                let mut queue = self.lock();
                queue.bytes = queue.bytes.saturating_sub(line.len());
                queue.busy = false;
            }
        }
    }
}
