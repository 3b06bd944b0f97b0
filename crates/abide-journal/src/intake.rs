//! Stages events: gives each its seq and time, folds it into the state and writes its line, chained
//! to the previous one.
//!
//! Every store uses it before it writes lines. It does no I/O and never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use abide_model::{
    AcknowledgedEvent, Anomaly, AnomalyPolicy, AppendError, Event, Fact, Kind, NewEvent, Payload,
    Savepoint, Seq, SessionState, StoreError, Timestamp, rewind_target,
};

use crate::environment::Environment;
use crate::{JournalError, JournalLine, LineBody, LineObjectRef, Salt, Sum};

/// Initial capacity for the lines of a batch.
const LINES: usize = 4096;

/// An event without a seq, and the body of its line.
pub type PreparedEvent = (Event, LineBody);

/// Generates an unpredictable salt for each event.
pub struct IntakeSalts {
    secret: [u8; 32],
    count: AtomicU64,
}

impl IntakeSalts {
    /// With a fresh random secret.
    #[must_use]
    pub fn new(env: &Environment) -> Self {
        let mut secret = [0; 32];
        (env.random)(&mut secret);
        Self { secret, count: AtomicU64::new(0) }
    }

    fn next(&self) -> Salt {
        Salt::derive(&self.secret, self.count.fetch_add(1, Ordering::Relaxed))
    }

    /// Prepares the part of an event's line that does not depend on its seq.
    #[must_use]
    pub fn prepare(&self, new: NewEvent, objects: &[LineObjectRef]) -> PreparedEvent {
        let event = new.into_event(Seq::ZERO, Timestamp::default());
        let body = LineBody::prepare(&event, objects, self.next());
        (event, body)
    }

    /// The same for an event that the store writes itself.
    pub fn prepare_fact<T: serde::Serialize>(
        &self,
        kind: Kind,
        fact: &T,
    ) -> Result<PreparedEvent, StoreError> {
        let data = Payload::of(fact).map_err(|source| {
            StoreError::Append(AppendError::Input { index: 0, source: Arc::new(source) })
        })?;
        Ok(self.prepare(NewEvent::new(kind, data), &[]))
    }

    /// The event a writer closes with.
    #[must_use]
    pub fn closing(&self) -> PreparedEvent {
        let closing = NewEvent::new(Kind::WRITER_CLOSED, Payload::from_stored("{}".into()));
        self.prepare(closing, &[])
    }
}

/// Gives an intake access to what is already stored.
pub trait IntakeStateSource: Send {
    /// Loads the parts of the state that an event needs; `false` if one is unreadable.
    fn fetch(&mut self, state: &mut SessionState, event: &Event) -> bool;

    /// The state after a rewind, given the state just before it.
    fn rewound(&self, before: SessionState, event: &Event) -> Result<SessionState, JournalError>;

    /// Called for each staged event.
    fn taken(&mut self, _event: &Event) {}
}

/// The outcome of staging events.
pub enum IntakeOutcome {
    /// They are staged. The seq is the last that must be durable for them.
    Done(Vec<AcknowledgedEvent>, Seq),
    /// None is staged: a part of the state is unreadable and must be rebuilt.
    Unreadable,
    /// None is staged: a rewind goes back to an event that is not stored yet.
    Unwritten,
}

/// When `writer.opened` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpeningTiming {
    /// At once.
    Now,
    /// Together with the first event.
    WithFirst,
}

/// Staged lines, to be stored.
#[derive(Debug)]
pub struct IntakeLines {
    /// The lines, each with a line break.
    pub bytes: Vec<u8>,
    /// The sum of each line, and where it ends in `bytes`.
    pub ends: Vec<(Sum, usize)>,
    /// The last event and its sum.
    pub last: (Seq, Sum),
    /// When the last event was staged.
    pub at: Timestamp,
    /// The length of its line.
    pub last_line: u64,
    /// Whether any of them refers to an object.
    pub objects: bool,
}

impl IntakeLines {
    /// The seq, the sum and the bytes (without the line break) of each line.
    pub fn rows(&self) -> impl Iterator<Item = (Seq, Sum, &[u8])> {
        let first = self.last.0.0 + 1 - self.ends.len() as u64;
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        (first..).zip(starts.zip(&self.ends)).map(|(seq, (start, (sum, end)))| {
            let line = self.bytes.get(start..end.saturating_sub(1)).unwrap_or_default();
            (Seq(seq), *sum, line)
        })
    }
}

/// The events that are staged but not stored yet, and the state after them.
pub struct Intake<S> {
    /// The state after every staged event.
    pub state: SessionState,
    /// What is stored already.
    pub stored: S,
    /// Events since the state was last cached.
    pub since_snapshot: u64,
    /// The last staged event.
    pub seq: Seq,
    /// Whether `writer.opened` was written.
    pub announced: bool,
    env: Environment,
    lines: Vec<u8>,
    ends: Vec<(Sum, usize)>,
    sum: Sum,
    at: Timestamp,
    objects: bool,
    /// Written before the first event, so a writer that writes nothing leaves no trace.
    opening: Vec<PreparedEvent>,
}

/// A point in the intake to roll back to.
struct IntakeSavepoint {
    state: Savepoint,
    lines: usize,
    ends: usize,
    seq: Seq,
    sum: Sum,
    objects: bool,
    since_snapshot: u64,
    opening: Vec<PreparedEvent>,
    announced: bool,
}

impl<S: IntakeStateSource> Intake<S> {
    /// An intake after the last stored event, with the state and time of that event. `opening` is
    /// written before the first new event.
    pub fn new(
        env: Environment,
        state: SessionState,
        stored: S,
        (seq, sum): (Seq, Sum),
        at: Timestamp,
        opening: Vec<PreparedEvent>,
    ) -> Self {
        Self {
            state,
            stored,
            since_snapshot: 0,
            seq,
            announced: false,
            env,
            lines: Vec::new(),
            ends: Vec::new(),
            sum,
            at,
            objects: false,
            opening,
        }
    }

    /// Drops the opening events.
    pub fn without_opening(&mut self) {
        self.opening.clear();
    }

    /// Are there no staged lines?
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The last staged event and its sum.
    pub const fn end(&self) -> (Seq, Sum) {
        (self.seq, self.sum)
    }

    /// Drains the lines staged since the last call.
    pub fn take_lines(&mut self) -> IntakeLines {
        let bytes = std::mem::replace(&mut self.lines, Vec::with_capacity(LINES));
        let ends = std::mem::take(&mut self.ends);
        let before = ends.len().checked_sub(2).and_then(|at| ends.get(at)).map_or(0, |end| end.1);
        IntakeLines {
            last_line: (bytes.len() - before) as u64,
            bytes,
            ends,
            last: (self.seq, self.sum),
            at: self.at,
            objects: std::mem::take(&mut self.objects),
        }
    }

    /// Stages one event: assigns its seq and time, applies it and writes its line.
    fn push(
        &mut self,
        (event, body): &mut PreparedEvent,
        durable: Seq,
    ) -> Result<AcknowledgedEvent, JournalError> {
        let seq = self.seq.next();
        self.at = self.at.max((self.env.now)());
        (event.seq, event.at) = (seq, self.at);
        let anomaly = self.fold(event)?;
        let lag = seq.0 - durable.0.min(seq.0 - 1);
        self.sum = JournalLine::write_prepared(&mut self.lines, event, body, lag, self.sum.link());
        self.ends.push((self.sum, self.lines.len()));
        self.seq = seq;
        self.objects |= body.has_objects();
        self.stored.taken(event);
        self.since_snapshot += 1;
        Ok(AcknowledgedEvent { seq, anomaly, repeated: false })
    }

    fn fold(&mut self, event: &Event) -> Result<Option<Anomaly>, JournalError> {
        if rewind_target(event).is_some() {
            self.state = self.stored.rewound(self.state.clone(), event)?;
            return Ok(None);
        }
        Ok(self.state.apply(event))
    }

    fn open(&mut self, durable: Seq) -> Result<(), JournalError> {
        for mut event in std::mem::take(&mut self.opening) {
            self.push(&mut event, durable)?;
            self.announced = true;
        }
        Ok(())
    }

    /// Stages a batch, all or nothing. Everything up to `durable` is durable.
    pub fn take_in(
        &mut self,
        events: &mut [PreparedEvent],
        odd: AnomalyPolicy,
        opening: OpeningTiming,
        durable: Seq,
    ) -> Result<IntakeOutcome, AppendError> {
        // Needed only if something can still undo what is already staged.
        let undoable = odd == AnomalyPolicy::Refuse || !self.state.is_whole();
        let saved = undoable.then(|| self.mark(events));
        let taken = self.take_each(events, odd, opening, durable);
        match (saved, &taken) {
            (Some(saved), Ok(IntakeOutcome::Unreadable) | Err(AppendError::Odd { .. })) => {
                self.back_to(saved);
            }
            (Some(saved), _) => self.state.release(saved.state),
            (None, _) => {}
        }
        taken
    }

    /// Stages one event that names the one right before it.
    pub fn take_in_behind(
        &mut self,
        make: impl FnOnce(Seq) -> Result<PreparedEvent, AppendError>,
        durable: Seq,
    ) -> Result<IntakeOutcome, AppendError> {
        self.take_in(&mut [], AnomalyPolicy::Keep, OpeningTiming::Now, durable)?;
        let mut event = [make(self.seq)?];
        self.take_in(&mut event, AnomalyPolicy::Keep, OpeningTiming::WithFirst, durable)
    }

    /// On a refusal the caller rolls back what was staged.
    fn take_each(
        &mut self,
        events: &mut [PreparedEvent],
        odd: AnomalyPolicy,
        opening: OpeningTiming,
        durable: Seq,
    ) -> Result<IntakeOutcome, AppendError> {
        let stopped =
            |error: JournalError| AppendError::Stopped { safe: durable, source: Arc::new(error) };
        let mut acknowledged = Vec::with_capacity(events.len());
        let mut last = Seq::ZERO;
        if opening == OpeningTiming::Now {
            self.open(durable).map_err(stopped)?;
            last = self.seq;
        }
        for (index, prepared) in events.iter_mut().enumerate() {
            // Asked just before the event is applied: what it needs depends on the events before
            // it.
            if !self.stored.fetch(&mut self.state, &prepared.0) {
                return Ok(IntakeOutcome::Unreadable);
            }
            if let Some(seq) = prepared.0.key.as_ref().and_then(|key| self.state.key(key)) {
                // It is acknowledged when the first one is.
                last = last.max(seq);
                acknowledged.push(AcknowledgedEvent { seq, anomaly: None, repeated: true });
                continue;
            }
            // A rewind is alone in its batch, so nothing is staged yet. A rewind to the event right
            // before it leaves the state unchanged.
            let next = if self.opening.is_empty() { self.seq } else { self.seq.next() };
            if intake_rewind_beyond(&prepared.0, next, durable) {
                return Ok(IntakeOutcome::Unwritten);
            }
            self.open(durable).map_err(stopped)?;
            let done = self.push(prepared, durable).map_err(stopped)?;
            if let (AnomalyPolicy::Refuse, Some(anomaly)) = (odd, done.anomaly) {
                return Err(AppendError::Odd { index, anomaly });
            }
            last = done.seq;
            acknowledged.push(done);
        }
        Ok(IntakeOutcome::Done(acknowledged, last))
    }

    fn mark(&mut self, events: &[PreparedEvent]) -> IntakeSavepoint {
        IntakeSavepoint {
            state: self.state.savepoint(events.iter().map(|(event, _)| event)),
            lines: self.lines.len(),
            ends: self.ends.len(),
            seq: self.seq,
            sum: self.sum,
            objects: self.objects,
            since_snapshot: self.since_snapshot,
            opening: self.opening.clone(),
            announced: self.announced,
        }
    }

    fn back_to(&mut self, saved: IntakeSavepoint) {
        self.state.roll_back(saved.state);
        self.lines.truncate(saved.lines);
        self.ends.truncate(saved.ends);
        self.seq = saved.seq;
        self.sum = saved.sum;
        self.objects = saved.objects;
        self.since_snapshot = saved.since_snapshot;
        self.opening = saved.opening;
        self.announced = saved.announced;
    }
}

/// Does a rewind go back to an event before `next` that is staged but not durable yet? The state
/// there is read from storage.
fn intake_rewind_beyond(event: &Event, next: Seq, durable: Seq) -> bool {
    if event.kind != Kind::SESSION_REWOUND {
        return false;
    }
    match event.fact() {
        Ok(Fact::Rewind(rewind)) => rewind.to < next && rewind.to > durable,
        _ => false,
    }
}
