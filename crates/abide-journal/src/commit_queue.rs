//! Group commit: the first waiter commits for all.
//!
//! There is no committer thread on the blocking path: the first waiter writes and syncs what
//! everybody has staged and wakes the others. A thread is started only for callers that poll.
//!
//! Invariant: `committing` is true exactly while one thread is in [`CommitQueue::commit`], and
//! `ended` changes after it has become false. A thread that reads `ended`, then finds `committing`
//! true, then sleeps until `ended` differs from what it read, never misses the end of a commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use abide_model::{AppendError, Durability, Seq, TicketAcknowledger};

use crate::JournalError;
use crate::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, SleepCount, thread,
    wait_a_while,
};

/// Where a queue commits to.
pub trait Commit: Send + 'static {
    /// What is staged while a commit runs.
    type Staging: Send;
    /// What one commit writes.
    type Batch: Send;

    /// Drains everything staged, to be committed with this durability.
    fn take(staging: &mut Self::Staging, durability: Durability) -> Self::Batch;

    /// Writes a batch and syncs it if asked to. After an error nothing more is committed.
    fn commit(&mut self, batch: Self::Batch, durability: Durability) -> Result<(), JournalError>;
}

#[derive(Debug)]
struct CommitQueueState<S> {
    staging: S,
    /// The last staged event.
    staged: Seq,
    /// The highest durability requested for what is staged.
    wanted: Durability,
    /// How often something was staged since the last drain.
    calls: usize,
    /// How many callers the last commit released. Each may soon stage again.
    expected: usize,
    written: Seq,
    synced: Seq,
    failure: Option<Arc<JournalError>>,
    closed: bool,
    /// Tasks waiting for an event.
    waiting: Vec<(Seq, Durability, Waker)>,
    has_thread: bool,
}

impl<S> CommitQueueState<S> {
    const fn reached(&self, durability: Durability) -> Seq {
        match durability {
            Durability::Buffered => self.written,
            Durability::Synced => self.synced,
        }
    }

    fn outcome(&self, seq: Seq, durability: Durability) -> Option<Result<(), AppendError>> {
        if self.reached(durability) >= seq {
            return Some(Ok(()));
        }
        let source = self.failure.clone()?;
        Some(Err(AppendError::Stopped { safe: self.synced, source }))
    }
}

/// How often the committing thread yields first, so that others can join its commit.
const GATHER: usize = 64;

/// A queue of staged events in front of a [`Commit`].
pub struct CommitQueue<C: Commit> {
    inner: Mutex<CommitQueueState<C::Staging>>,
    /// Copies of `written` and `synced`, so that woken threads need not lock.
    written: AtomicU64,
    synced: AtomicU64,
    committing: AtomicBool,
    /// Counts finished commits; threads sleep on it.
    ended: SleepCount,
    /// The number of sleeping threads.
    sleeping: AtomicUsize,
    /// Notifies the thread that commits for tasks.
    polled: Condvar,
    /// `None` once the queue is closed.
    committer: Mutex<Option<C>>,
    this: Weak<Self>,
}

impl<C: Commit> CommitQueue<C> {
    /// A queue whose journal ends at `end` and is durable up to `durable`.
    pub fn new(staging: C::Staging, committer: C, end: Seq, durable: Seq) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            inner: Mutex::new(CommitQueueState {
                staging,
                staged: end,
                wanted: Durability::Buffered,
                calls: 0,
                expected: 0,
                written: end,
                synced: durable,
                failure: None,
                closed: false,
                waiting: Vec::new(),
                has_thread: false,
            }),
            written: AtomicU64::new(end.0),
            synced: AtomicU64::new(durable.0),
            committing: AtomicBool::new(false),
            ended: SleepCount::default(),
            sleeping: AtomicUsize::new(0),
            polled: Condvar::new(),
            committer: Mutex::new(Some(committer)),
            this: this.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, CommitQueueState<C::Staging>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until a commit has ended since `ended` was read.
    fn sleep(&self, ended: u32) {
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        self.ended.sleep(ended);
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
    }

    /// Locks once nobody commits.
    fn lock_quiet(&self) -> MutexGuard<'_, CommitQueueState<C::Staging>> {
        loop {
            let ended = self.ended.read();
            let inner = self.lock();
            if !self.committing.load(Ordering::Acquire) {
                return inner;
            }
            drop(inner);
            self.sleep(ended);
        }
    }

    /// Stages events. `stage` gets the staging area and the last durable event, and returns the new
    /// last event.
    pub fn stage<T>(
        &self,
        durability: Durability,
        stage: impl FnOnce(&mut C::Staging, Seq) -> Result<(T, Seq), AppendError>,
    ) -> Result<T, AppendError> {
        let mut inner = self.lock();
        if let Some(source) = &inner.failure {
            return Err(AppendError::Stopped { safe: inner.synced, source: source.clone() });
        }
        if inner.closed {
            let source = Arc::new(JournalError::Closed);
            return Err(AppendError::Stopped { safe: inner.synced, source });
        }
        let synced = inner.synced;
        let (value, last) = match stage(&mut inner.staging, synced) {
            // The staging area may hold part of a batch, none of which may be written.
            Err(AppendError::Stopped { safe, source }) => {
                inner.failure =
                    Some(Arc::new(JournalError::Stopped { reason: source.to_string() }));
                inner.waiting.drain(..).for_each(|(_, _, waker)| waker.wake());
                return Err(AppendError::Stopped { safe, source });
            }
            staged => staged?,
        };
        if last > inner.staged {
            inner.calls += 1;
            inner.staged = last;
            inner.wanted = inner.wanted.max(durability);
        }
        Ok(value)
    }

    /// Runs `look` on the staging area.
    pub fn look<T>(&self, look: impl FnOnce(&mut C::Staging) -> T) -> T {
        look(&mut self.lock().staging)
    }

    /// Runs `look` on the staging area once everything staged is written and nobody commits.
    pub fn when_quiet<T>(&self, look: impl FnOnce(&mut C::Staging) -> T) -> Result<T, AppendError> {
        loop {
            let mut inner = self.lock_quiet();
            if let Some(source) = inner.failure.clone() {
                return Err(AppendError::Stopped { safe: inner.synced, source });
            }
            if inner.written >= inner.staged {
                return Ok(look(&mut inner.staging));
            }
            drop(self.commit(inner));
        }
    }

    /// The last durable event.
    pub fn synced(&self) -> Seq {
        self.lock().synced
    }

    /// Blocks until `seq` is as durable as requested, committing if nobody else does.
    pub fn wait(&self, seq: Seq, durability: Durability) -> Result<(), AppendError> {
        let reached = match durability {
            Durability::Buffered => &self.written,
            Durability::Synced => &self.synced,
        };
        loop {
            let ended = self.ended.read();
            if reached.load(Ordering::Acquire) >= seq.0 {
                return Ok(());
            }
            if self.committing.load(Ordering::Acquire) {
                self.sleep(ended);
                continue;
            }
            let mut inner = self.lock();
            if let Some(outcome) = inner.outcome(seq, durability) {
                return outcome;
            }
            // Something staged as buffered may be waited for as synced (a flush).
            inner.wanted = inner.wanted.max(durability);
            if !self.committing.load(Ordering::Acquire) {
                drop(self.commit(inner));
            }
        }
    }

    /// Makes everything staged durable.
    pub fn flush(&self) -> Result<(), AppendError> {
        let staged = self.lock().staged;
        self.wait(staged, Durability::Synced)
    }

    /// Makes everything durable that was staged as synced, and writes what was staged as buffered.
    pub fn flush_staged(&self) -> Result<(), AppendError> {
        let (staged, wanted) = {
            let inner = self.lock();
            (inner.staged, inner.wanted)
        };
        self.wait(staged, wanted)
    }

    /// Like [`CommitQueue::wait`], but without blocking: a thread of the queue commits.
    pub fn poll(
        &self,
        seq: Seq,
        durability: Durability,
        context: &Context<'_>,
    ) -> Poll<Result<(), AppendError>> {
        let mut inner = self.lock();
        if let Some(outcome) = inner.outcome(seq, durability) {
            return Poll::Ready(outcome);
        }
        if inner.closed {
            let source = Arc::new(JournalError::Closed);
            return Poll::Ready(Err(AppendError::Stopped { safe: inner.synced, source }));
        }
        inner.wanted = inner.wanted.max(durability);
        let waker = context.waker();
        if !inner.waiting.iter().any(|(at, _, other)| *at == seq && other.will_wake(waker)) {
            inner.waiting.push((seq, durability, waker.clone()));
        }
        if inner.has_thread {
            self.polled.notify_one();
            return Poll::Pending;
        }
        let this = self.this.clone();
        let thread = thread::Builder::new().name("abide-commit".to_owned());
        if thread.spawn(move || commit_queue_for_pollers(&this)).is_ok() {
            inner.has_thread = true;
            return Poll::Pending;
        }
        drop(inner);
        // No thread could be started: commit here rather than never.
        inner = self.commit(self.lock_quiet());
        if let Some(outcome) = inner.outcome(seq, durability) {
            return Poll::Ready(outcome);
        }
        Poll::Pending
    }

    /// Commits what is staged. Only one thread does so at a time; others stage meanwhile.
    fn commit<'a>(
        &'a self,
        mut inner: MutexGuard<'a, CommitQueueState<C::Staging>>,
    ) -> MutexGuard<'a, CommitQueueState<C::Staging>> {
        self.committing.store(true, Ordering::Release);
        inner = self.gather(inner);
        let durability = std::mem::replace(&mut inner.wanted, Durability::Buffered);
        let staged = inner.failure.is_none().then(|| C::take(&mut inner.staging, durability));
        let last = inner.staged;
        inner.calls = 0;
        drop(inner);
        // A panic below must not leave the others asleep.
        let committed = staged.map(|batch| {
            let work = || {
                let mut committer = self.committer.lock().unwrap_or_else(PoisonError::into_inner);
                committer.as_mut().map_or(Err(JournalError::Closed), |committer| {
                    committer.commit(batch, durability)
                })
            };
            let panicked = |_| Err(JournalError::Stopped { reason: "it panicked".to_owned() });
            catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked)
        });
        let mut inner = self.lock();
        match committed {
            // Staging failed meanwhile: what is staged may be part of a batch.
            None => {}
            Some(Ok(())) => {
                inner.written = last;
                self.written.store(last.0, Ordering::Release);
                if durability == Durability::Synced {
                    inner.synced = last;
                    self.synced.store(last.0, Ordering::Release);
                }
            }
            Some(Err(error)) => inner.failure = Some(Arc::new(error)),
        }
        let failed = inner.failure.is_some();
        let (written, synced) = (inner.written, inner.synced);
        inner.waiting.retain(|(seq, durability, waker)| {
            let reached = match durability {
                Durability::Buffered => written,
                Durability::Synced => synced,
            };
            let done = failed || reached >= *seq;
            if done {
                waker.wake_by_ref();
            }
            !done
        });
        inner.expected = self.sleeping.load(Ordering::Relaxed);
        // Set under the lock: whoever locks next sees that nobody commits.
        self.committing.store(false, Ordering::Release);
        drop(inner);
        self.wake();
        self.lock()
    }

    /// Wakes all sleepers.
    fn wake(&self) {
        self.ended.count();
        if self.sleeping.load(Ordering::SeqCst) > 0 {
            self.ended.wake_all();
        }
    }

    /// Lets the threads that the last commit woke stage again, so that they share this sync. With a
    /// single appender nobody is expected and there is no wait.
    fn gather<'a>(
        &'a self,
        mut inner: MutexGuard<'a, CommitQueueState<C::Staging>>,
    ) -> MutexGuard<'a, CommitQueueState<C::Staging>> {
        let mut idle = 0;
        for _ in 0..GATHER {
            if inner.calls > inner.expected || idle > 2 {
                break;
            }
            let before = inner.calls;
            drop(inner);
            thread::yield_now();
            inner = self.lock();
            idle = if inner.calls == before { idle + 1 } else { 0 };
        }
        inner
    }

    /// Closes the queue and returns the committer once nobody commits; `None` the second time.
    /// Staged events that were not flushed before are lost.
    pub fn close(&self) -> Option<C> {
        self.lock_quiet().closed = true;
        self.wake();
        self.committer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<C: Commit> TicketAcknowledger for CommitQueue<C> {
    fn wait(&self, seq: Seq, durability: Durability) -> Result<(), AppendError> {
        Self::wait(self, seq, durability)
    }

    fn poll(
        &self,
        seq: Seq,
        durability: Durability,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), AppendError>> {
        Self::poll(self, seq, durability, context)
    }
}

/// Commits while somebody polls; ends with the queue.
fn commit_queue_for_pollers<C: Commit>(queue: &Weak<CommitQueue<C>>) {
    while let Some(queue) = queue.upgrade() {
        let mut inner = queue.lock();
        if inner.closed {
            // Remaining waiters poll again and get the outcome.
            inner.has_thread = false;
            inner.waiting.drain(..).for_each(|(_, _, waker)| waker.wake());
            return;
        }
        if inner.failure.is_some() {
            inner.waiting.drain(..).for_each(|(_, _, waker)| waker.wake());
        }
        if inner.waiting.is_empty() {
            // With a timeout, so that the queue can end.
            wait_a_while(&queue.polled, inner, Duration::from_millis(100));
            continue;
        }
        if queue.committing.load(Ordering::Acquire) {
            drop(inner);
            inner = queue.lock_quiet();
        }
        let wanted = inner.waiting.iter().map(|(_, durability, _)| *durability).max();
        inner.wanted = inner.wanted.max(wanted.unwrap_or_default());
        drop(queue.commit(inner));
    }
}
