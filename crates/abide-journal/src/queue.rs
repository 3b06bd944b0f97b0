//! Group commit: whoever comes first commits for all that wait.
//!
//! There is no committer thread on the blocking path: the first that waits writes and syncs
//! what everybody has staged, and wakes the rest. A thread is started only for those that poll.
//!
//! Invariant: `committing` is true exactly while one thread is in [`CommitQueue::commit`]; whoever
//! finds it true under the lock and leaves its handle in `sleepers` is woken when it ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use abide_model::{AppendError, Durability, Seq};

use crate::JournalError;

/// What a queue commits to.
pub trait Commit: Send + 'static {
    /// What is staged while a commit runs.
    type Staging: Send;
    /// What one commit writes.
    type Batch: Send;

    /// Takes everything that is staged.
    fn take(staging: &mut Self::Staging) -> Self::Batch;

    /// Writes a batch, and syncs it when asked to. After an error nothing more is committed.
    fn commit(&mut self, batch: Self::Batch, durability: Durability) -> Result<(), JournalError>;
}

#[derive(Debug)]
struct Inner<S> {
    staging: S,
    /// The last event that is staged.
    staged: Seq,
    /// What those that are staged and not taken asked for.
    wanted: Durability,
    /// How many times something was staged since the last batch was taken.
    calls: usize,
    /// How many callers the last commit let go on, each of which may soon stage again.
    expected: usize,
    written: Seq,
    synced: Seq,
    committing: bool,
    failure: Option<Arc<JournalError>>,
    closed: bool,
    /// Threads that wait for a commit to end.
    sleepers: Vec<Thread>,
    /// Tasks that wait for an event.
    waiting: Vec<(Seq, Durability, Waker)>,
    has_thread: bool,
}

impl<S> Inner<S> {
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

/// How often the one that commits lets others run first, so that they come along.
const GATHER: usize = 64;

/// A queue of staged events in front of a [`Commit`].
pub struct CommitQueue<C: Commit> {
    inner: Mutex<Inner<C::Staging>>,
    /// Copies of `written` and `synced`, so that whoever is woken need not take the lock.
    written: AtomicU64,
    synced: AtomicU64,
    /// Gone once the queue is closed.
    committer: Mutex<Option<C>>,
    this: Weak<Self>,
}

impl<C: Commit> CommitQueue<C> {
    /// A queue whose journal ends at `end` and is durable up to `durable`.
    pub fn new(staging: C::Staging, committer: C, end: Seq, durable: Seq) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            inner: Mutex::new(Inner {
                staging,
                staged: end,
                wanted: Durability::Buffered,
                calls: 0,
                expected: 0,
                written: end,
                synced: durable,
                committing: false,
                failure: None,
                closed: false,
                sleepers: Vec::new(),
                waiting: Vec::new(),
                has_thread: false,
            }),
            written: AtomicU64::new(end.0),
            synced: AtomicU64::new(durable.0),
            committer: Mutex::new(Some(committer)),
            this: this.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner<C::Staging>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until the commit that runs has ended.
    fn sleep<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner<C::Staging>>,
    ) -> MutexGuard<'a, Inner<C::Staging>> {
        inner.sleepers.push(thread::current());
        drop(inner);
        thread::park();
        self.lock()
    }

    /// Stages events: `stage` is given the staging area and the last durable event, and says
    /// which event is now the last.
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
            // The staging area may hold a part of what was to be staged: nothing of it may be
            // written.
            Err(AppendError::Stopped { safe, source }) => {
                inner.failure =
                    Some(Arc::new(JournalError::Stopped { reason: source.to_string() }));
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

    /// Looks at the staging area.
    pub fn look<T>(&self, look: impl FnOnce(&mut C::Staging) -> T) -> T {
        look(&mut self.lock().staging)
    }

    /// Looks at the staging area when everything staged is written and nobody commits.
    pub fn when_quiet<T>(&self, look: impl FnOnce(&mut C::Staging) -> T) -> Result<T, AppendError> {
        let mut inner = self.lock();
        loop {
            if let Some(source) = inner.failure.clone() {
                return Err(AppendError::Stopped { safe: inner.synced, source });
            }
            inner = if inner.committing {
                self.sleep(inner)
            } else if inner.written < inner.staged {
                self.commit(inner)
            } else {
                return Ok(look(&mut inner.staging));
            };
        }
    }

    /// The last durable event.
    pub fn synced(&self) -> Seq {
        self.lock().synced
    }

    /// Blocks until `seq` is as safe as asked for, committing where nobody else does.
    pub fn wait(&self, seq: Seq, durability: Durability) -> Result<(), AppendError> {
        let reached = match durability {
            Durability::Buffered => &self.written,
            Durability::Synced => &self.synced,
        };
        loop {
            if reached.load(Ordering::Acquire) >= seq.0 {
                return Ok(());
            }
            let mut inner = self.lock();
            if let Some(outcome) = inner.outcome(seq, durability) {
                return outcome;
            }
            // What was staged as buffered may be waited for as synced (a flush).
            inner.wanted = inner.wanted.max(durability);
            if inner.committing {
                inner.sleepers.push(thread::current());
                drop(inner);
                thread::park();
            } else {
                drop(self.commit(inner));
            }
        }
    }

    /// Makes everything that is staged durable.
    pub fn flush(&self) -> Result<(), AppendError> {
        let staged = self.lock().staged;
        self.wait(staged, Durability::Synced)
    }

    /// Makes everything durable that was staged and asked to be; what was staged as buffered is
    /// written.
    pub fn flush_staged(&self) -> Result<(), AppendError> {
        let (staged, wanted) = {
            let inner = self.lock();
            (inner.staged, inner.wanted)
        };
        self.wait(staged, wanted)
    }

    /// Like [`CommitQueue::wait`], without blocking: a thread of the queue commits.
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
        let waker = context.waker();
        if !inner.waiting.iter().any(|(at, _, other)| *at == seq && other.will_wake(waker)) {
            inner.waiting.push((seq, durability, waker.clone()));
        }
        if inner.has_thread {
            inner.sleepers.drain(..).for_each(|thread| thread.unpark());
            return Poll::Pending;
        }
        let this = self.this.clone();
        let thread = thread::Builder::new().name("abide-commit".to_owned());
        if thread.spawn(move || commit_for_pollers(&this)).is_ok() {
            inner.has_thread = true;
            return Poll::Pending;
        }
        // No thread to be had: commit here rather than never.
        while inner.committing {
            inner = self.sleep(inner);
        }
        inner = self.commit(inner);
        if let Some(outcome) = inner.outcome(seq, durability) {
            return Poll::Ready(outcome);
        }
        Poll::Pending
    }

    /// Commits what is staged. Only one does at a time; others stage meanwhile.
    fn commit<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner<C::Staging>>,
    ) -> MutexGuard<'a, Inner<C::Staging>> {
        inner.committing = true;
        inner = self.gather(inner);
        let batch = C::take(&mut inner.staging);
        let last = inner.staged;
        let durability = std::mem::replace(&mut inner.wanted, Durability::Buffered);
        inner.calls = 0;
        drop(inner);
        let committed = {
            let mut committer = self.committer.lock().unwrap_or_else(PoisonError::into_inner);
            committer
                .as_mut()
                .map_or(Err(JournalError::Closed), |committer| committer.commit(batch, durability))
        };
        let mut inner = self.lock();
        inner.committing = false;
        match committed {
            Ok(()) => {
                inner.written = last;
                self.written.store(last.0, Ordering::Release);
                if durability == Durability::Synced {
                    inner.synced = last;
                    self.synced.store(last.0, Ordering::Release);
                }
            }
            Err(error) => inner.failure = Some(Arc::new(error)),
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
        let sleepers = std::mem::take(&mut inner.sleepers);
        inner.expected = sleepers.len();
        if sleepers.is_empty() {
            return inner;
        }
        drop(inner);
        sleepers.iter().for_each(Thread::unpark);
        self.lock()
    }

    /// Lets those that the last commit woke stage again, so that they share this one's sync. With
    /// one appender nobody is expected, and nothing is waited for.
    fn gather<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner<C::Staging>>,
    ) -> MutexGuard<'a, Inner<C::Staging>> {
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

    /// Takes nothing more in and gives the committer back once nobody commits; `None` the second
    /// time. What is staged and not flushed before is lost.
    pub fn close(&self) -> Option<C> {
        let mut inner = self.lock();
        inner.closed = true;
        while inner.committing {
            inner = self.sleep(inner);
        }
        inner.sleepers.drain(..).for_each(|thread| thread.unpark());
        drop(inner);
        self.committer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Commits as long as somebody polls; ends with the queue.
fn commit_for_pollers<C: Commit>(queue: &Weak<CommitQueue<C>>) {
    while let Some(queue) = queue.upgrade() {
        let mut inner = queue.lock();
        if inner.closed && inner.waiting.is_empty() {
            return;
        }
        if inner.committing || inner.waiting.is_empty() || inner.failure.is_some() {
            inner.sleepers.push(thread::current());
            // Let the queue go while there is nothing to do, so that it can end.
            drop(inner);
            drop(queue);
            thread::park_timeout(Duration::from_millis(100));
            continue;
        }
        let wanted = inner.waiting.iter().map(|(_, durability, _)| *durability).max();
        inner.wanted = inner.wanted.max(wanted.unwrap_or_default());
        drop(queue.commit(inner));
    }
}
