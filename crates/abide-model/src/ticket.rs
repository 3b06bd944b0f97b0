//! The ticket of an append, to wait on or to await.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::{Anomaly, Durability, InputError, Seq};

/// Why an append failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// An event exceeds a limit. Nothing was appended.
    #[error("event {index} of the batch was refused")]
    Input {
        /// Index of the event in the batch, from 0.
        index: usize,
        /// Why.
        #[source]
        source: Arc<InputError>,
    },
    /// An event has an anomaly, and the caller asked to refuse those. Nothing was appended.
    #[error("event {index} of the batch does not fit what came before it: {anomaly}")]
    Odd {
        /// Index of the event in the batch, from 0.
        index: usize,
        /// The anomaly.
        anomaly: Anomaly,
    },
    /// The batch is too large. Nothing was appended; a smaller batch may pass.
    #[error("the batch is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The writer stopped: a write or a sync failed, or it was closed or fenced off. Everything up
    /// to `safe` is durable. Later events are not acknowledged and must be appended again after the
    /// session is reopened.
    #[error("the writer has stopped; events up to {safe} are acknowledged")]
    Stopped {
        /// The last acknowledged event.
        safe: Seq,
        /// Why.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

/// One event of an acknowledged append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcknowledgedEvent {
    /// Its seq.
    pub seq: Seq,
    /// Its anomaly, if any.
    pub anomaly: Option<Anomaly>,
    /// A live event already has this key: `seq` is the seq of that event, and nothing was written.
    pub repeated: bool,
}

/// Acknowledges events for a ticket: the writer's commits.
pub trait TicketAcknowledger: Send + Sync {
    /// Blocks until `seq` has reached `durability`.
    fn wait(&self, seq: Seq, durability: Durability) -> Result<(), AppendError>;

    /// Like [`TicketAcknowledger::wait`], without blocking.
    fn poll(
        &self,
        seq: Seq,
        durability: Durability,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), AppendError>>;
}

/// The outcome of a batch.
type AppendOutcome = Result<Vec<AcknowledgedEvent>, AppendError>;

/// A batch that is appended but not acknowledged yet. Wait on it, or await it.
#[must_use = "an event is acknowledged only when its ticket was waited on"]
pub struct Ticket(TicketState);

/// What a ticket waits for.
enum TicketState {
    /// Events that have their seq and are not durable yet.
    Safe {
        events: Vec<AcknowledgedEvent>,
        last: Seq,
        durability: Durability,
        by: Arc<dyn TicketAcknowledger>,
    },
    /// The answer of another writer, which assigns the seqs.
    Answer(Pin<Box<dyn Future<Output = AppendOutcome> + Send + Sync>>),
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut ticket = f.debug_struct("Ticket");
        if let TicketState::Safe { events, .. } = &self.0 {
            ticket.field("events", events);
        }
        ticket.finish_non_exhaustive()
    }
}

impl Ticket {
    /// A ticket for events of which `last` is the last newly written one.
    pub fn new(
        events: Vec<AcknowledgedEvent>,
        last: Seq,
        durability: Durability,
        by: Arc<dyn TicketAcknowledger>,
    ) -> Self {
        Self(TicketState::Safe { events, last, durability, by })
    }

    /// A ticket for events that were sent to another writer.
    pub fn answered_by(
        answer: impl Future<Output = Result<Vec<AcknowledgedEvent>, AppendError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(TicketState::Answer(Box::pin(answer)))
    }

    /// The seq of the last event of the batch; `None` if only the answer tells it.
    #[must_use]
    pub fn seq(&self) -> Option<Seq> {
        match &self.0 {
            TicketState::Safe { events, last, .. } => {
                Some(events.last().map_or(*last, |event| event.seq))
            }
            TicketState::Answer(_) => None,
        }
    }

    /// Blocks until the events are acknowledged.
    pub fn wait(self) -> Result<Vec<AcknowledgedEvent>, AppendError> {
        match self.0 {
            TicketState::Safe { events, last, durability, by } => {
                by.wait(last, durability)?;
                Ok(events)
            }
            TicketState::Answer(answer) => block_on(answer),
        }
    }
}

impl Future for Ticket {
    type Output = Result<Vec<AcknowledgedEvent>, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            TicketState::Safe { events, last, durability, by } => {
                by.poll(*last, *durability, context).map_ok(|()| std::mem::take(events))
            }
            TicketState::Answer(answer) => answer.as_mut().poll(context),
        }
    }
}

/// Wakes a parked thread.
struct TicketWaker {
    thread: Thread,
    /// Separate from the thread's own token, which what is polled may use up.
    woken: AtomicBool,
}

impl Wake for TicketWaker {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Polls a future on this thread until it is ready. Any thread may do so, one of a runtime too; it
/// is blocked meanwhile.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let unpark =
        Arc::new(TicketWaker { thread: std::thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(unpark.clone());
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        while !unpark.woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// An answer that another thread gives.
    #[derive(Default)]
    struct Later(Mutex<(Option<AppendOutcome>, Option<Waker>)>);

    struct Waiting(Arc<Later>);

    impl Future for Waiting {
        type Output = AppendOutcome;

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<AppendOutcome> {
            let mut later = self.0.0.lock().unwrap();
            later.1 = Some(context.waker().clone());
            later.0.take().map_or(Poll::Pending, Poll::Ready)
        }
    }

    #[test]
    fn a_ticket_waits_for_the_answer_of_another_thread() {
        let later = Arc::new(Later::default());
        let ticket = Ticket::answered_by(Waiting(later.clone()));
        assert_eq!(ticket.seq(), None);
        let answering = std::thread::spawn(move || {
            // Once it is asked for, so that it is waited on.
            let waker = loop {
                if let Some(waker) = later.0.lock().unwrap().1.take() {
                    break waker;
                }
                std::thread::yield_now();
            };
            let event = AcknowledgedEvent { seq: Seq(7), anomaly: None, repeated: false };
            later.0.lock().unwrap().0 = Some(Ok(vec![event]));
            waker.wake();
        });
        assert_eq!(ticket.wait().unwrap()[0].seq, Seq(7));
        answering.join().unwrap();
    }
}
