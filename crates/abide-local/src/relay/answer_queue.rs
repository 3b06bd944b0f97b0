//! Batches that a child has sent and that are not answered yet, in order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use abide_model::{AcknowledgedEvent, AppendError, Durability, Seq};

/// The most unanswered batches; sending more blocks.
const UNDER_WAY: usize = 1024;

type RelayOutcome = Result<Vec<AcknowledgedEvent>, AppendError>;

/// Why no more answers come.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum RelayError {
    /// The holder ended or closed the connection.
    #[error("the process that held the session ended or closed the connection")]
    Gone,
    /// The connection failed.
    #[error("the connection to the process that holds the session failed")]
    Failed(#[source] Arc<std::io::Error>),
    /// The holder is connected but does not answer.
    #[error(
        "the process that holds the session does not answer; the outcome of the last events sent to it is unknown"
    )]
    Silent,
    /// An answer could not be parsed.
    #[error("the process that holds the session gave an invalid answer")]
    Senseless,
    /// The writer was closed.
    #[error("the session was closed")]
    Closed,
}

/// Where one answer is delivered.
#[derive(Default)]
struct AnswerSlot {
    answer: Option<RelayOutcome>,
    waker: Option<Waker>,
}

/// A future answer.
pub(super) struct ExpectedAnswer(Arc<Mutex<AnswerSlot>>);

impl Future for ExpectedAnswer {
    type Output = RelayOutcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<RelayOutcome> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = place.answer.take() {
            return Poll::Ready(answer);
        }
        place.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The outstanding answers.
#[derive(Default)]
pub(super) struct AnswerQueue {
    state: Mutex<AnswerQueueState>,
    /// Signalled when an answer arrives, or none will.
    changed: Condvar,
}

#[derive(Default)]
struct AnswerQueueState {
    waiting: VecDeque<(Arc<Mutex<AnswerSlot>>, Durability)>,
    /// Since when the first of them has been next in line.
    since: Option<Instant>,
    ended: Option<RelayError>,
    /// The last event that is known to be durable.
    safe: Seq,
}

impl AnswerQueueState {
    fn stopped(&self, ended: &RelayError) -> AppendError {
        AppendError::Stopped { safe: self.safe, source: Arc::new(ended.clone()) }
    }
}

impl AnswerQueue {
    fn state(&self) -> MutexGuard<'_, AnswerQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a place for the answer to the next batch. Must be called in the order of sending.
    pub(super) fn expect(&self, durability: Durability) -> Result<ExpectedAnswer, AppendError> {
        let mut state = self.state();
        loop {
            if let Some(ended) = &state.ended {
                return Err(state.stopped(ended));
            }
            if state.waiting.len() < UNDER_WAY {
                break;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let place = Arc::<Mutex<AnswerSlot>>::default();
        state.waiting.push_back((place.clone(), durability));
        state.since.get_or_insert_with(Instant::now);
        Ok(ExpectedAnswer(place))
    }

    /// Delivers the next answer. Returns whether one was expected.
    pub(super) fn give(&self, answer: RelayOutcome) -> bool {
        let mut state = self.state();
        let Some((place, durability)) = state.waiting.pop_front() else { return false };
        state.since = (!state.waiting.is_empty()).then(Instant::now);
        let safe = match &answer {
            Ok(events) if durability == Durability::Synced => {
                events.iter().map(|one| one.seq).max()
            }
            Err(AppendError::Stopped { safe, .. }) => Some(*safe),
            _ => None,
        };
        state.safe = state.safe.max(safe.unwrap_or_default());
        drop(state);
        fill_answer_slot(&place, answer);
        self.changed.notify_all();
        true
    }

    /// Whether the next answer has been outstanding for this long.
    pub(super) fn overdue(&self, patience: Duration) -> bool {
        self.state().since.is_some_and(|since| since.elapsed() >= patience)
    }

    /// Fails everything outstanding: no more answers come. The first reason is kept.
    pub(super) fn end(&self, ended: RelayError) {
        let mut state = self.state();
        state.ended.get_or_insert(ended);
        let waiting = std::mem::take(&mut state.waiting);
        state.since = None;
        let stopped = state.ended.as_ref().map(|ended| state.stopped(ended));
        drop(state);
        if let Some(stopped) = stopped {
            for (place, _) in waiting {
                fill_answer_slot(&place, Err(stopped.clone()));
            }
        }
        self.changed.notify_all();
    }

    /// Blocks until nothing is outstanding.
    pub(super) fn settle(&self) {
        let mut state = self.state();
        while !state.waiting.is_empty() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn fill_answer_slot(place: &Mutex<AnswerSlot>, answer: RelayOutcome) {
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    place.answer = Some(answer);
    if let Some(waker) = place.waker.take() {
        drop(place);
        waker.wake();
    }
}
