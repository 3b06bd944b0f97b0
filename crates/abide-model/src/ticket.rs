//! The ticket of an append: it can be waited on or awaited.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::{Anomaly, Durability, InputError, Seq};

/// Why events were not recorded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// An event does not fit the limits. None of the batch was taken.
    #[error("event {index} of the batch was refused")]
    Input {
        /// Which event of the batch, from 0.
        index: usize,
        /// Why.
        #[source]
        source: Arc<InputError>,
    },
    /// An odd event, and the caller asked to refuse those. None of the batch was taken.
    #[error("event {index} of the batch does not fit what came before it: {anomaly}")]
    Odd {
        /// Which event of the batch, from 0.
        index: usize,
        /// What is odd.
        anomaly: Anomaly,
    },
    /// The writer stopped: a write or a sync failed, or it was closed or fenced off. Everything
    /// up to `safe` is durable; what came after is not acknowledged and must be sent again to
    /// a newly opened session.
    #[error("the writer has stopped; everything up to event {safe} is safe")]
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
pub struct Acknowledged {
    /// Its place.
    pub seq: Seq,
    /// What is odd about it.
    pub anomaly: Option<Anomaly>,
    /// Its key was known: `seq` is that of the first event, and nothing was written.
    pub repeated: bool,
}

/// What a ticket waits on: the writer's commits.
pub trait Acknowledger: Send + Sync {
    /// Blocks until `seq` is as safe as `durability` says.
    fn wait(&self, seq: Seq, durability: Durability) -> Result<(), AppendError>;

    /// Like [`Acknowledger::wait`], without blocking.
    fn poll(
        &self,
        seq: Seq,
        durability: Durability,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), AppendError>>;
}

/// Events that were taken in and are not acknowledged yet. Wait on it, or await it.
#[must_use = "an event is acknowledged only when its ticket was waited on"]
pub struct Ticket {
    events: Vec<Acknowledged>,
    last: Seq,
    durability: Durability,
    by: Arc<dyn Acknowledger>,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("events", &self.events).finish_non_exhaustive()
    }
}

impl Ticket {
    /// A ticket for events whose last newly written one is `last`.
    pub fn new(
        events: Vec<Acknowledged>,
        last: Seq,
        durability: Durability,
        by: Arc<dyn Acknowledger>,
    ) -> Self {
        Self { events, last, durability, by }
    }

    /// The seq of the last event of the batch.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.events.last().map_or(self.last, |event| event.seq)
    }

    /// Blocks until the events are acknowledged.
    pub fn wait(self) -> Result<Vec<Acknowledged>, AppendError> {
        self.by.wait(self.last, self.durability)?;
        Ok(self.events)
    }
}

impl Future for Ticket {
    type Output = Result<Vec<Acknowledged>, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.by.poll(self.last, self.durability, context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(Ok(std::mem::take(&mut self.events))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}
