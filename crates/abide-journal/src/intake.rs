//! Taking events in: each gets its place and its time, is folded into the state, and becomes a
//! line that is chained to the one before.
//!
//! Whatever the lines go to, this comes before: it writes nothing and waits for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use abide_model::{
    Acknowledged, Anomaly, AppendError, Event, Fact, Kind, NewEvent, OddEvents, Payload, Savepoint,
    Seq, SessionState, StoreError, Timestamp, rewind_target,
};

use crate::environment::Environment;
use crate::{JournalError, Line, LineBody, ObjectRef, Salt, Sum};

/// Room for the lines of a batch.
const LINES: usize = 4096;

/// An event that has no place yet, and the body of its line.
pub type Prepared = (Event, LineBody);

/// Gives each event a salt that nobody can guess.
pub struct Salts {
    secret: [u8; 32],
    count: AtomicU64,
}

impl Salts {
    /// With a secret of its own.
    #[must_use]
    pub fn new(env: &Environment) -> Self {
        let mut secret = [0; 32];
        (env.random)(&mut secret);
        Self { secret, count: AtomicU64::new(0) }
    }

    fn next(&self) -> Salt {
        Salt::derive(&self.secret, self.count.fetch_add(1, Ordering::Relaxed))
    }

    /// The line of an event, as far as it does not depend on its place.
    #[must_use]
    pub fn prepare(&self, new: NewEvent, objects: &[ObjectRef]) -> Prepared {
        let event = new.into_event(Seq::ZERO, Timestamp::default());
        let body = LineBody::prepare(&event, objects, self.next());
        (event, body)
    }

    /// The same of an event that the store writes by itself.
    pub fn prepare_fact<T: serde::Serialize>(
        &self,
        kind: Kind,
        fact: &T,
    ) -> Result<Prepared, StoreError> {
        let data = Payload::of(fact).map_err(|source| {
            StoreError::Append(AppendError::Input { index: 0, source: Arc::new(source) })
        })?;
        Ok(self.prepare(NewEvent::new(kind, data), &[]))
    }

    /// The event that a writer ends with.
    #[must_use]
    pub fn closing(&self) -> Prepared {
        let closing = NewEvent::new(Kind::WRITER_CLOSED, Payload::from_stored("{}".into()));
        self.prepare(closing, &[])
    }
}

/// What an intake asks of what is stored already.
pub trait Stored: Send {
    /// Brings in the parts of the state that an event needs; `false` when one is not readable.
    fn fetch(&mut self, state: &mut SessionState, event: &Event) -> bool;

    /// The state behind a rewind, from the state just before it.
    fn rewound(&self, before: SessionState, event: &Event) -> Result<SessionState, JournalError>;

    /// An event was taken in.
    fn taken(&mut self, _event: &Event) {}
}

/// What became of events that were to be taken in.
pub enum Intaken {
    /// They are in; the last that must be durable for them.
    Done(Vec<Acknowledged>, Seq),
    /// None of them is: a part of the state is not readable, and it must be folded anew.
    Unreadable,
    /// None of them is: a rewind goes back to what is not stored yet.
    Unwritten,
}

/// When `writer.opened` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// At once.
    Now,
    /// Before the first event.
    WithFirst,
}

/// Lines on their way to where they are stored.
#[derive(Debug)]
pub struct Lines {
    /// The lines, each with its line break.
    pub bytes: Vec<u8>,
    /// Sum and end of each in `bytes`.
    pub ends: Vec<(Sum, usize)>,
    /// The last event …
    pub last: (Seq, Sum),
    /// … when it was taken in …
    pub at: Timestamp,
    /// … and how long its line is.
    pub last_line: u64,
    /// One of them names an object.
    pub objects: bool,
}

impl Lines {
    /// Place, sum and bytes of each, its line break left out.
    pub fn rows(&self) -> impl Iterator<Item = (Seq, Sum, &[u8])> {
        let first = self.last.0.0 + 1 - self.ends.len() as u64;
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        (first..).zip(starts.zip(&self.ends)).map(|(seq, (start, (sum, end)))| {
            let line = self.bytes.get(start..end.saturating_sub(1)).unwrap_or_default();
            (Seq(seq), *sum, line)
        })
    }
}

/// What is taken in and not stored yet, and the state that it leads to.
pub struct Intake<S> {
    /// The state after every event taken in.
    pub state: SessionState,
    /// What is stored already.
    pub stored: S,
    /// Events since the last snapshot of the state.
    pub since_snapshot: u64,
    /// The last event.
    pub seq: Seq,
    /// `writer.opened` was written.
    pub announced: bool,
    env: Environment,
    lines: Vec<u8>,
    ends: Vec<(Sum, usize)>,
    sum: Sum,
    at: Timestamp,
    objects: bool,
    /// Written before the first event, so that a writer that writes nothing leaves no trace.
    opening: Vec<Prepared>,
}

/// A place in the intake to go back to.
struct Saved {
    state: Savepoint,
    lines: usize,
    ends: usize,
    seq: Seq,
    sum: Sum,
    objects: bool,
    since_snapshot: u64,
    opening: Vec<Prepared>,
    announced: bool,
}

impl<S: Stored> Intake<S> {
    /// An intake behind the last event, whose state and time these are. `opening` is written
    /// before the first event.
    pub fn new(
        env: Environment,
        state: SessionState,
        stored: S,
        (seq, sum): (Seq, Sum),
        at: Timestamp,
        opening: Vec<Prepared>,
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

    /// Nothing is written before the first event.
    pub fn without_opening(&mut self) {
        self.opening.clear();
    }

    /// Was everything that was taken in asked for?
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The last event that was taken in, and its sum.
    pub const fn end(&self) -> (Seq, Sum) {
        (self.seq, self.sum)
    }

    /// The lines of all that was taken in since this was last asked for.
    pub fn take_lines(&mut self) -> Lines {
        let bytes = std::mem::replace(&mut self.lines, Vec::with_capacity(LINES));
        let ends = std::mem::take(&mut self.ends);
        let before = ends.len().checked_sub(2).and_then(|at| ends.get(at)).map_or(0, |end| end.1);
        Lines {
            last_line: (bytes.len() - before) as u64,
            bytes,
            ends,
            last: (self.seq, self.sum),
            at: self.at,
            objects: std::mem::take(&mut self.objects),
        }
    }

    /// Takes one event in: gives it its place and time, applies it and writes its line.
    fn push(
        &mut self,
        (event, body): &mut Prepared,
        durable: Seq,
    ) -> Result<Acknowledged, JournalError> {
        let seq = self.seq.next();
        self.at = self.at.max((self.env.now)());
        (event.seq, event.at) = (seq, self.at);
        let anomaly = self.fold(event)?;
        let lag = seq.0 - durable.0.min(seq.0 - 1);
        self.sum = Line::write_prepared(&mut self.lines, event, body, lag, self.sum.link());
        self.ends.push((self.sum, self.lines.len()));
        self.seq = seq;
        self.objects |= body.has_objects();
        self.stored.taken(event);
        self.since_snapshot += 1;
        Ok(Acknowledged { seq, anomaly, repeated: false })
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

    /// Takes events in, all or none. Everything up to `durable` is.
    pub fn take_in(
        &mut self,
        events: &mut [Prepared],
        odd: OddEvents,
        opening: Opening,
        durable: Seq,
    ) -> Result<Intaken, AppendError> {
        // To go back to, when something may turn out that undoes what was taken in already.
        let undoable = odd == OddEvents::Refuse || !self.state.is_whole();
        let saved = undoable.then(|| self.mark(events));
        let taken = self.take_each(events, odd, opening, durable);
        match (saved, &taken) {
            (Some(saved), Ok(Intaken::Unreadable) | Err(AppendError::Odd { .. })) => {
                self.back_to(saved);
            }
            (Some(saved), _) => self.state.release(saved.state),
            (None, _) => {}
        }
        taken
    }

    /// Takes in one event that names the one right before it.
    pub fn take_in_behind(
        &mut self,
        make: impl FnOnce(Seq) -> Result<Prepared, AppendError>,
        durable: Seq,
    ) -> Result<Intaken, AppendError> {
        self.take_in(&mut [], OddEvents::Keep, Opening::Now, durable)?;
        let mut event = [make(self.seq)?];
        self.take_in(&mut event, OddEvents::Keep, Opening::WithFirst, durable)
    }

    /// What is taken in of events that are refused is undone by the caller.
    fn take_each(
        &mut self,
        events: &mut [Prepared],
        odd: OddEvents,
        opening: Opening,
        durable: Seq,
    ) -> Result<Intaken, AppendError> {
        let stopped =
            |error: JournalError| AppendError::Stopped { safe: durable, source: Arc::new(error) };
        let mut acknowledged = Vec::with_capacity(events.len());
        let mut last = Seq::ZERO;
        if opening == Opening::Now {
            self.open(durable).map_err(stopped)?;
            last = self.seq;
        }
        for (index, prepared) in events.iter_mut().enumerate() {
            // Asked right before the event is applied: what it needs depends on those before it.
            if !self.stored.fetch(&mut self.state, &prepared.0) {
                return Ok(Intaken::Unreadable);
            }
            if let Some(seq) = prepared.0.key.as_ref().and_then(|key| self.state.key(key)) {
                // Acknowledged when the first one is.
                last = last.max(seq);
                acknowledged.push(Acknowledged { seq, anomaly: None, repeated: true });
                continue;
            }
            // A rewind is alone in its batch, so that nothing was taken in yet.
            // One to the event right before it leaves the state as it is.
            let next = if self.opening.is_empty() { self.seq } else { self.seq.next() };
            if rewind_beyond(&prepared.0, next, durable) {
                return Ok(Intaken::Unwritten);
            }
            self.open(durable).map_err(stopped)?;
            let done = self.push(prepared, durable).map_err(stopped)?;
            if let (OddEvents::Refuse, Some(anomaly)) = (odd, done.anomaly) {
                return Err(AppendError::Odd { index, anomaly });
            }
            last = done.seq;
            acknowledged.push(done);
        }
        Ok(Intaken::Done(acknowledged, last))
    }

    fn mark(&mut self, events: &[Prepared]) -> Saved {
        Saved {
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

    fn back_to(&mut self, saved: Saved) {
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

/// Does a rewind go back to an event before `next` that is taken in and not durable yet? The state
/// there is read from what is stored.
fn rewind_beyond(event: &Event, next: Seq, durable: Seq) -> bool {
    if event.kind != Kind::SESSION_REWOUND {
        return false;
    }
    match event.fact() {
        Ok(Fact::Rewind(rewind)) => rewind.to < next && rewind.to > durable,
        _ => false,
    }
}
