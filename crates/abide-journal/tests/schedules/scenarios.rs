//! What is run under many schedules. What varies besides the schedule is drawn from shuttle, so
//! that a replay draws the same.

use std::future::poll_fn;
use std::sync::Arc;

use abide_model::{AppendError, Durability, Seq};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{self, JoinHandle};

use crate::JournalError;
use crate::journal::{Journal, Shared};
use crate::queue::CommitQueue;

type Queue = Arc<CommitQueue<Journal>>;

fn any_durability() -> Durability {
    if thread_rng().gen_bool(0.5) { Durability::Synced } else { Durability::Buffered }
}

/// Stages one or two events.
fn stage(queue: &Queue, durability: Durability) -> Result<Seq, AppendError> {
    let count = thread_rng().gen_range(1..=2);
    queue.stage(durability, |staging, _| {
        let last = staging.push(count);
        Ok((last, last))
    })
}

/// Appends so many times and waits each time, until the queue refuses. Says how often it was
/// acknowledged.
fn append(queue: &Queue, history: &Shared, times: usize) -> usize {
    let mut acknowledged = 0;
    for _ in 0..times {
        let durability = any_durability();
        let seq = match stage(queue, durability) {
            Ok(seq) => seq,
            Err(error) => {
                history.refused(&error);
                break;
            }
        };
        let answer = queue.wait(seq, durability);
        history.answered(seq, durability, &answer);
        if answer.is_err() {
            break;
        }
        acknowledged += 1;
    }
    acknowledged
}

fn appender(queue: &Queue, history: &Shared, times: usize) -> JoinHandle<usize> {
    let (queue, history) = (queue.clone(), history.clone());
    thread::spawn(move || append(&queue, &history, times))
}

/// Appends once, as a task.
fn poller(queue: &Queue, history: &Shared) -> JoinHandle<bool> {
    let (queue, history) = (queue.clone(), history.clone());
    thread::spawn(move || {
        let durability = any_durability();
        let seq = match stage(&queue, durability) {
            Ok(seq) => seq,
            Err(error) => {
                history.refused(&error);
                return false;
            }
        };
        let wait = poll_fn(|context| queue.poll(seq, durability, context));
        let answer = shuttle::future::block_on(wait);
        history.answered(seq, durability, &answer);
        answer.is_ok()
    })
}

/// Several threads append and wait, with both durabilities. Nobody is refused.
pub(crate) fn appenders() {
    let history = Shared::default();
    let queue = Journal::queue(&history, None);
    let threads: Vec<_> = (0..3).map(|_| appender(&queue, &history, 2)).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 2);
    }
    queue.flush().unwrap();
    history.is_sound();
    let staged = queue.look(|staging| staging.last);
    let history = history.look();
    assert_eq!((history.written.len() as u64, history.synced as u64), (staged, staged));
}

/// A commit fails, or what is staged breaks in the middle: everybody who waits is told the last
/// safe event, and nothing is committed after.
pub(crate) fn a_failing_commit() {
    let history = Shared::default();
    let breaks = thread_rng().gen_bool(0.3);
    let fails_at = if breaks { None } else { Some(thread_rng().gen_range(1..=4)) };
    let queue = Journal::queue(&history, fails_at);
    let mut threads: Vec<_> = (0..2).map(|_| appender(&queue, &history, 2)).collect();
    if thread_rng().gen_bool(0.5) {
        let polled = poller(&queue, &history);
        threads.push(thread::spawn(move || usize::from(polled.join().unwrap())));
    } else {
        threads.push(appender(&queue, &history, 2));
    }
    if breaks {
        let broken = queue.stage(Durability::Synced, |staging, safe| {
            // A part of a batch, which must not be written.
            staging.events.push(u64::MAX);
            let source = Arc::new(JournalError::Closed);
            Err::<((), Seq), _>(AppendError::Stopped { safe, source })
        });
        assert!(broken.is_err());
    }
    for thread in threads {
        thread.join().unwrap();
    }
    history.is_sound();
    // The queue's own thread may still be in the commit that fails.
    let quiet = queue.when_quiet(|_| ());
    let failed = history.look().failed;
    assert_eq!(quiet.is_err(), failed || breaks);
    if let Err(error) = quiet {
        history.refused(&error);
        history.refused(&stage(&queue, Durability::Buffered).unwrap_err());
        let end = history.look().written.len() as u64;
        let behind = queue.wait(Seq(end + 1), Durability::Buffered);
        history.refused(&behind.unwrap_err());
    }
}

/// Tasks and threads side by side. The queue's own thread ends with the queue.
pub(crate) fn pollers() {
    let history = Shared::default();
    let queue = Journal::queue(&history, None);
    let tasks: Vec<_> = (0..2).map(|_| poller(&queue, &history)).collect();
    let thread = appender(&queue, &history, 1);
    for task in tasks {
        assert!(task.join().unwrap());
    }
    assert_eq!(thread.join().unwrap(), 1);
    history.is_sound();
}

/// Two close while others append: one of them gets the committer, everybody is answered, and
/// nothing is committed from then on.
pub(crate) fn closing() {
    let history = Shared::default();
    let queue = Journal::queue(&history, None);
    let threads = [appender(&queue, &history, 2), appender(&queue, &history, 1)];
    let task = poller(&queue, &history);
    let close = |queue: &Queue| {
        let (queue, history) = (queue.clone(), history.clone());
        thread::spawn(move || {
            let closed = queue.close().is_some();
            history.look().closed |= closed;
            closed
        })
    };
    let closers = [close(&queue), close(&queue)];
    let closed: usize = closers.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum();
    assert_eq!(closed, 1, "the committer is given back once");
    for thread in threads {
        thread.join().unwrap();
    }
    task.join().unwrap();
    history.is_sound();
    history.refused(&stage(&queue, Durability::Buffered).unwrap_err());
}

/// One looks when it is quiet and others flush, while events are appended.
pub(crate) fn quiet() {
    let history = Shared::default();
    let queue = Journal::queue(&history, None);
    let threads = [appender(&queue, &history, 2), appender(&queue, &history, 1)];
    let looker = {
        let (queue, history) = (queue.clone(), history.clone());
        thread::spawn(move || {
            let seen = queue.when_quiet(|staging| {
                let history = history.look();
                assert!(!history.committing, "somebody commits");
                assert!(staging.events.is_empty(), "something is not written");
                assert_eq!(history.written.len() as u64, staging.last);
            });
            seen.unwrap();
        })
    };
    // Staged, and left for a flush to write.
    let staged = stage(&queue, Durability::Buffered).unwrap();
    queue.flush_staged().unwrap();
    history.acknowledged(staged, Durability::Buffered);
    let staged = stage(&queue, Durability::Buffered).unwrap();
    queue.flush().unwrap();
    history.acknowledged(staged, Durability::Synced);
    for thread in threads {
        thread.join().unwrap();
    }
    looker.join().unwrap();
    history.is_sound();
}
