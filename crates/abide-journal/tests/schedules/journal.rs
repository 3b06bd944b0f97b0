//! A journal that is a list, and notes what must never happen to it.

use std::sync::{Arc, Mutex, MutexGuard};

use abide_journal::JournalError;
use abide_model::{AppendError, Durability, Seq};
use shuttle::thread;

use crate::queue::{Commit, CommitQueue};

/// What has happened.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Events in the order in which they were committed.
    pub(crate) written: Vec<u64>,
    /// How many of them were synced.
    pub(crate) synced: usize,
    pub(crate) commits: usize,
    /// Somebody is in a commit.
    pub(crate) committing: bool,
    pub(crate) failed: bool,
    /// The committer was given back.
    pub(crate) closed: bool,
    /// What went wrong inside a commit, where a panic would be caught by the queue.
    pub(crate) wrong: Option<&'static str>,
}

/// The history of one execution. Its lock is never held over a step of the scheduler.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<History>>);

impl Shared {
    pub(crate) fn look(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap()
    }

    /// An event was acknowledged: so it must be there, and synced where that was asked for.
    pub(crate) fn acknowledged(&self, seq: Seq, durability: Durability) {
        let history = self.look();
        let reach = match durability {
            Durability::Buffered => history.written.len(),
            Durability::Synced => history.synced,
        };
        assert!(reach as u64 >= seq.0, "event {seq} was acknowledged, {reach} are {durability:?}");
    }

    /// An event was refused: so the queue has failed or was closed. Behind a commit that failed
    /// nothing is synced, so that the safe event is the last that was. Where it stopped for another
    /// reason, a commit that was under way may still have gone on.
    pub(crate) fn refused(&self, error: &AppendError) {
        let AppendError::Stopped { safe, .. } = error else { panic!("{error:?}") };
        let history = self.look();
        let synced = history.synced as u64;
        let right = if history.failed { safe.0 == synced } else { safe.0 <= synced };
        assert!(right, "event {safe} is called safe, {synced} are synced");
    }

    /// Every answer is one of the two.
    pub(crate) fn answered(
        &self,
        seq: Seq,
        durability: Durability,
        answer: &Result<(), AppendError>,
    ) {
        match answer {
            Ok(()) => self.acknowledged(seq, durability),
            Err(error) => self.refused(error),
        }
    }

    /// Each event stands in exactly one batch, in order, and nothing was noted.
    pub(crate) fn is_sound(&self) {
        let history = self.look();
        assert_eq!(history.wrong, None);
        let expected: Vec<u64> = (1..=history.written.len() as u64).collect();
        assert_eq!(history.written, expected);
    }
}

/// What commits to the list.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) history: Shared,
    /// This commit fails.
    pub(crate) fails_at: Option<usize>,
}

impl Journal {
    /// A queue in front of an empty journal.
    pub(crate) fn queue(history: &Shared, fails_at: Option<usize>) -> Arc<CommitQueue<Self>> {
        let journal = Self { history: history.clone(), fails_at };
        CommitQueue::new(Staging::default(), journal, Seq::ZERO, Seq::ZERO)
    }
}

/// What is staged.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    pub(crate) events: Vec<u64>,
    pub(crate) last: u64,
}

impl Staging {
    /// Stages so many events; gives the last.
    pub(crate) fn push(&mut self, count: u64) -> Seq {
        for _ in 0..count {
            self.last += 1;
            self.events.push(self.last);
        }
        Seq(self.last)
    }
}

impl Commit for Journal {
    type Staging = Staging;
    type Batch = Vec<u64>;

    fn take(staging: &mut Staging, _: Durability) -> Vec<u64> {
        std::mem::take(&mut staging.events)
    }

    fn commit(&mut self, batch: Vec<u64>, durability: Durability) -> Result<(), JournalError> {
        let number = {
            let mut history = self.history.look();
            if history.committing {
                history.wrong = Some("two commit at once");
            }
            if history.failed {
                history.wrong = Some("a commit after one that failed");
            }
            if history.closed {
                history.wrong = Some("a commit after the committer was given back");
            }
            history.committing = true;
            history.commits += 1;
            history.commits
        };
        // Writing takes its time: others run meanwhile.
        thread::yield_now();
        let mut history = self.history.look();
        history.committing = false;
        if self.fails_at == Some(number) {
            history.failed = true;
            return Err(JournalError::Stopped { reason: "the disk is full".to_owned() });
        }
        history.written.extend(batch);
        if durability == Durability::Synced {
            history.synced = history.written.len();
        }
        Ok(())
    }
}
