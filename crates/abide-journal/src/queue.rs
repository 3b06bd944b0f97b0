//! Group commit: whoever comes first commits for all that wait.
//!
//! There is no committer thread on the blocking path: the first that waits writes and syncs
//! what everybody has staged, and wakes the rest. A thread is started only for those that poll.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

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
    written: Seq,
    synced: Seq,
    committing: bool,
    failure: Option<Arc<JournalError>>,
    closed: bool,
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

/// A queue of staged events in front of a [`Commit`].
pub struct CommitQueue<C: Commit> {
    inner: Mutex<Inner<C::Staging>>,
    changed: Condvar,
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
                written: end,
                synced: durable,
                committing: false,
                failure: None,
                closed: false,
                waiting: Vec::new(),
                has_thread: false,
            }),
            changed: Condvar::new(),
            committer: Mutex::new(Some(committer)),
            this: this.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner<C::Staging>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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
                self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner)
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
        let mut inner = self.lock();
        loop {
            if let Some(outcome) = inner.outcome(seq, durability) {
                return outcome;
            }
            // What was staged as buffered may be waited for as synced (a flush).
            inner.wanted = inner.wanted.max(durability);
            inner = if inner.committing {
                self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.commit(inner)
            };
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
            self.changed.notify_all();
        } else {
            let this = self.this.clone();
            let started = std::thread::Builder::new()
                .name("abide-commit".to_owned())
                .spawn(move || commit_for_pollers(&this));
            match started {
                Ok(_) => inner.has_thread = true,
                Err(_) => {
                    // No thread to be had: commit here rather than never.
                    while inner.committing {
                        inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
                    }
                    let inner = self.commit(inner);
                    return inner.outcome(seq, durability).map_or(Poll::Pending, Poll::Ready);
                }
            }
        }
        Poll::Pending
    }

    /// Commits what is staged. Only one does at a time; others stage meanwhile.
    fn commit<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner<C::Staging>>,
    ) -> MutexGuard<'a, Inner<C::Staging>> {
        inner.committing = true;
        let batch = C::take(&mut inner.staging);
        let last = inner.staged;
        let durability = std::mem::replace(&mut inner.wanted, Durability::Buffered);
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
                if durability == Durability::Synced {
                    inner.synced = last;
                }
            }
            Err(error) => inner.failure = Some(Arc::new(error)),
        }
        self.changed.notify_all();
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
        inner
    }

    /// Takes nothing more in and gives the committer back once nobody commits; `None` the second
    /// time. What is staged and not flushed before is lost.
    pub fn close(&self) -> Option<C> {
        let mut inner = self.lock();
        inner.closed = true;
        while inner.committing {
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        drop(inner);
        self.changed.notify_all();
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
            // Let the queue go while there is nothing to do, so that it can end.
            let timeout = std::time::Duration::from_millis(100);
            let _ =
                queue.changed.wait_timeout(inner, timeout).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let wanted = inner.waiting.iter().map(|(_, durability, _)| *durability).max();
        inner.wanted = inner.wanted.max(wanted.unwrap_or_default());
        drop(queue.commit(inner));
    }
}
