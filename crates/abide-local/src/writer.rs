//! The one writer of a session: takes events in, folds them, and commits them in groups.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use abide_journal::{
    Appender, Commit, CommitQueue, JournalError, Line, LineBody, ObjectRef, PackWriter, Packs,
    Position, Salt, Storage, Sum,
};
use abide_model::{
    Acknowledged, Acknowledger, Anomaly, AppendError, Core, Digest, Durability, Epoch, Erasure,
    Event, Fact, InputError, Kind, LaneId, LaneState, Limits, NewEvent, OddEvents, Payload,
    Pending, ReadNote, Recovery, Seq, SessionState, SessionWriter, StoreError, Ticket, Timestamp,
    WriterOpened,
};

use crate::changed::ChangedMark;
use crate::environment::Environment;
use crate::error::store_error;
use crate::heartbeat::Heartbeat;
use crate::past::Gone;
use crate::reader::LocalReader;
use crate::recovery;
use crate::sealer::Sealer;
use crate::snapshot::{Pages, Snapshots, Stand, Taken};
use crate::transcript::Scribe;

/// So few pages are brought in at once, and none is looked for from then on.
const FEW_PAGES: usize = 32;
/// Room for the lines of a batch.
const LINES: usize = 4096;

/// An event that has no place yet, and the body of its line.
type Prepared = (Event, LineBody);

/// Gives each event a salt that nobody can guess.
struct Salts {
    secret: [u8; 32],
    count: AtomicU64,
}

impl Salts {
    fn next(&self) -> Salt {
        Salt::derive(&self.secret, self.count.fetch_add(1, Ordering::Relaxed))
    }

    fn prepare(&self, new: NewEvent, objects: &[ObjectRef]) -> Prepared {
        let event = new.into_event(Seq::ZERO, Timestamp::default());
        let body = LineBody::prepare(&event, objects, self.next());
        (event, body)
    }

    fn system_event<T: serde::Serialize>(
        &self,
        kind: Kind,
        fact: &T,
    ) -> Result<Prepared, StoreError> {
        let data = Payload::of(fact).map_err(|source| {
            StoreError::Append(AppendError::Input { index: 0, source: Arc::new(source) })
        })?;
        Ok(self.prepare(NewEvent::new(kind, data), &[]))
    }
}

/// What is taken in and not committed yet, and the state that it leads to.
struct Staging {
    state: SessionState,
    pages: Pages,
    reader: LocalReader,
    env: Environment,
    lines: Vec<u8>,
    seq: Seq,
    sum: Sum,
    at: Timestamp,
    last_line: u64,
    /// Something in `lines` names an object.
    objects: bool,
    /// A part of the transcript ends in `lines`.
    ends_part: bool,
    since_snapshot: u64,
    snapshot_every: u64,
    snapshot_bytes: usize,
    /// Written before the first event, so that a writer that writes nothing leaves no trace.
    opening: Vec<Prepared>,
    /// `writer.opened` was written.
    announced: bool,
}

struct Batch {
    lines: Vec<u8>,
    last: (Seq, Sum),
    /// When its last event was taken in.
    at: Timestamp,
    last_line: u64,
    objects: bool,
    snapshot: Option<Taken>,
    /// A part of the transcript ends in it.
    ends_part: bool,
}

/// Writes batches: objects first, then lines, then what is derived.
struct Committer {
    /// These two first, so that they are dropped first: they must have ended before the lock is
    /// let go.
    sealer: Option<Sealer>,
    scribe: Option<Scribe>,
    storage: Arc<dyn Storage>,
    appender: Appender,
    packs: Arc<Mutex<Option<PackWriter>>>,
    snapshots: Snapshots,
    journal_dir: PathBuf,
    stand: Option<Stand>,
    changed: ChangedMark,
    heartbeat: Option<Heartbeat>,
}

impl Commit for Committer {
    type Staging = Staging;
    type Batch = Batch;

    fn take(staging: &mut Staging, durability: Durability) -> Batch {
        // A snapshot vouches for every line before its own, so it is taken only where all of them
        // are durable.
        let due = staging.since_snapshot >= staging.snapshot_every;
        let take = due && durability == Durability::Synced;
        let snapshot = take.then(|| staging.take_snapshot()).flatten();
        Batch {
            lines: std::mem::replace(&mut staging.lines, Vec::with_capacity(LINES)),
            last: (staging.seq, staging.sum),
            at: staging.at,
            last_line: staging.last_line,
            objects: std::mem::take(&mut staging.objects),
            snapshot,
            ends_part: std::mem::take(&mut staging.ends_part),
        }
    }

    fn commit(&mut self, batch: Batch, durability: Durability) -> Result<(), JournalError> {
        if batch.objects {
            let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(packs) = packs.as_mut() {
                packs.sync()?;
            }
        }
        let before = self.appender.end().segment;
        self.changed.before();
        self.appender.commit(&batch.lines, batch.last, durability)?;
        self.changed.after();
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.beat(batch.at);
        }
        if let Some(scribe) = &mut self.scribe {
            scribe.committed(batch.ends_part);
        }
        let end = self.appender.end();
        if batch.last_line > 0 {
            self.stand = Some(Stand { end, line: end.offset.saturating_sub(batch.last_line) });
        }
        if let (Some(taken), Some(stand)) = (&batch.snapshot, self.stand) {
            // A help to the next open, nothing more: a failure here costs that one a longer read.
            let _ = self.snapshots.write(taken, stand);
        }
        if let Some(sealer) = &self.sealer {
            sealer.note_activity();
        }
        if end.segment != before
            && let Some(sealer) = &mut self.sealer
        {
            sealer.start(&self.storage, &self.journal_dir);
        }
        Ok(())
    }
}

impl Staging {
    fn take_snapshot(&mut self) -> Option<Taken> {
        self.since_snapshot = 0;
        let taken = self.pages.take(&mut self.state)?;
        (taken.page_bytes() <= self.snapshot_bytes).then_some(taken)
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
        let start = self.lines.len();
        let lag = seq.0 - durable.0.min(seq.0 - 1);
        self.sum = Line::write_prepared(&mut self.lines, event, body, lag, self.sum.link());
        self.last_line = (self.lines.len() - start) as u64;
        self.seq = seq;
        self.objects |= body.has_objects();
        self.ends_part |= Scribe::is_due(&event.kind);
        self.since_snapshot += 1;
        Ok(Acknowledged { seq, anomaly, repeated: false })
    }

    fn fold(&mut self, event: &Event) -> Result<Option<Anomaly>, JournalError> {
        if recovery::rewind_target(event).is_some() {
            let before = self.state.clone();
            self.state = recovery::apply_rewind(&self.reader, before, event, None)?;
            return Ok(None);
        }
        Ok(self.state.apply(event))
    }

    /// Brings in the pages that an event needs; `false` when one is not readable. Asked right
    /// before the event is applied: what it needs depends on those before it.
    fn fetch(&mut self, event: &Event) -> bool {
        if self.state.is_whole() {
            return true;
        }
        if self.state.away().len() <= FEW_PAGES {
            return self.pages.bring_all(&mut self.state);
        }
        self.pages.bring(&mut self.state, event)
    }

    /// Folds the state anew, since a page of its snapshot is not readable. Everything staged must
    /// be written.
    fn heal(&mut self) -> Result<(), JournalError> {
        self.state = recovery::state_at(&self.reader, self.seq, None, Gone::Refuse)?;
        self.pages.discard();
        Ok(())
    }
}

/// What a writer starts from.
pub(crate) struct Opened {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) env: Environment,
    pub(crate) reader: LocalReader,
    /// A snapshot with more bytes of pages than this is not written.
    pub(crate) snapshot_bytes: usize,
    pub(crate) appender: Appender,
    pub(crate) packs: Arc<Packs>,
    pub(crate) snapshots: Snapshots,
    pub(crate) state: SessionState,
    pub(crate) pages: Pages,
    pub(crate) at: Timestamp,
    pub(crate) durable: Seq,
    pub(crate) stand: Option<Stand>,
    pub(crate) recovered: Option<Recovery>,
    pub(crate) notes: Vec<ReadNote>,
    pub(crate) object_bytes: usize,
    pub(crate) snapshot_every: u64,
    pub(crate) sealer: Option<Sealer>,
    pub(crate) changed: ChangedMark,
    pub(crate) scribe: Option<Scribe>,
    /// None for one that writes a moment only.
    pub(crate) heartbeat: Option<Heartbeat>,
}

struct Shared {
    queue: Arc<CommitQueue<Committer>>,
}

impl Acknowledger for Shared {
    fn wait(&self, seq: Seq, durability: Durability) -> Result<(), AppendError> {
        self.queue.wait(seq, durability)
    }

    fn poll(
        &self,
        seq: Seq,
        durability: Durability,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), AppendError>> {
        self.queue.poll(seq, durability, context)
    }
}

/// The writer of a session of a [`LocalStore`](crate::LocalStore).
pub struct LocalWriter {
    shared: Arc<Shared>,
    packs: Arc<Packs>,
    pack_writer: Arc<Mutex<Option<PackWriter>>>,
    object_bytes: usize,
    epoch: Epoch,
    notes: Vec<ReadNote>,
    limits: Limits,
    closed: AtomicBool,
    salts: Salts,
}

impl LocalWriter {
    pub(crate) fn new(opened: Opened) -> Result<Self, StoreError> {
        let epoch = opened.state.core.epoch.next();
        let end: Position = opened.appender.end();
        let mut secret = [0; 32];
        (opened.env.random)(&mut secret);
        let salts = Salts { secret, count: AtomicU64::new(0) };
        let holder = opened.env.holder.to_string();
        let mut opening =
            vec![salts.system_event(Kind::WRITER_OPENED, &WriterOpened { epoch, by: holder })?];
        let mend_now = opened.recovered.is_some();
        if let Some(recovered) = &opened.recovered {
            opening.push(salts.system_event(Kind::RECOVERY_PERFORMED, recovered)?);
        }
        let pack_writer = Arc::new(Mutex::new(None));
        let journal_dir = opened.reader.journal().dir().to_owned();
        let staging = Staging {
            state: opened.state,
            pages: opened.pages,
            reader: opened.reader,
            snapshot_bytes: opened.snapshot_bytes,
            env: opened.env,
            lines: Vec::new(),
            seq: end.seq,
            sum: end.sum,
            at: opened.at,
            last_line: 0,
            objects: false,
            ends_part: false,
            since_snapshot: 0,
            snapshot_every: opened.snapshot_every,
            opening,
            announced: false,
        };
        let committer = Committer {
            storage: opened.storage,
            appender: opened.appender,
            packs: pack_writer.clone(),
            snapshots: opened.snapshots,
            journal_dir,
            sealer: opened.sealer,
            stand: opened.stand,
            changed: opened.changed,
            scribe: opened.scribe,
            heartbeat: opened.heartbeat,
        };
        let queue = CommitQueue::new(staging, committer, end.seq, opened.durable);
        let writer = Self {
            shared: Arc::new(Shared { queue }),
            packs: opened.packs,
            pack_writer,
            object_bytes: opened.object_bytes,
            epoch,
            notes: opened.notes,
            limits: Limits::default(),
            closed: AtomicBool::new(false),
            salts,
        };
        if mend_now {
            writer.stage(Vec::new(), Durability::Synced, OddEvents::Keep, Opening::Now)?.wait()?;
        }
        Ok(writer)
    }

    /// Writes `session.created`, the first event of all.
    pub(crate) fn begin(&self, created: NewEvent) -> Result<(), StoreError> {
        let prepared = vec![self.salts.prepare(created, &[])];
        self.shared.queue.look(|staging| staging.opening.clear());
        self.stage(prepared, Durability::Synced, OddEvents::Keep, Opening::WithFirst)?.wait()?;
        Ok(())
    }

    /// Writes that payloads were erased.
    pub(crate) fn note_erased(&self, erasures: &[Erasure]) -> Result<(), StoreError> {
        let noted: Result<Vec<_>, _> = erasures
            .iter()
            .map(|erasure| self.salts.system_event(Kind::PAYLOAD_ERASED, erasure))
            .collect();
        self.stage(noted?, Durability::Synced, OddEvents::Keep, Opening::WithFirst)?.wait()?;
        Ok(())
    }

    /// Writes what a recovery found and did. Gives the event's seq.
    pub(crate) fn note_recovered(&self, recovery: &Recovery) -> Result<Seq, StoreError> {
        let noted = self.salts.system_event(Kind::RECOVERY_PERFORMED, recovery)?;
        let ticket =
            self.stage(vec![noted], Durability::Synced, OddEvents::Keep, Opening::WithFirst)?;
        let last = ticket.wait()?.last().map(|done| done.seq);
        Ok(last.unwrap_or_default())
    }

    /// Puts the large strings of an event's payload into objects.
    fn prepare(&self, new: NewEvent) -> Result<Prepared, JournalError> {
        let NewEvent { data, .. } = new;
        let (data, leaves) = data.take_leaves(self.object_bytes);
        let mut refs = Vec::with_capacity(leaves.len());
        if !leaves.is_empty() {
            let mut writer = self.pack_writer.lock().unwrap_or_else(PoisonError::into_inner);
            if writer.is_none() {
                *writer = Some(PackWriter::open(self.packs.clone())?);
            }
            for leaf in &leaves {
                if let Some(writer) = writer.as_mut() {
                    writer.put(&leaf.bytes)?;
                }
                refs.push(ObjectRef::to(leaf));
            }
        }
        Ok(self.salts.prepare(NewEvent { data, ..new }, &refs))
    }

    fn stage(
        &self,
        mut events: Vec<Prepared>,
        durability: Durability,
        odd: OddEvents,
        opening: Opening,
    ) -> Result<Ticket, AppendError> {
        let queue = &self.shared.queue;
        loop {
            let staged = queue.stage(durability, |staging, durable| {
                let staged = staging.take_in(&mut events, odd, opening, durable)?;
                Ok((staged, staging.seq))
            })?;
            match staged {
                Staged::Done(acknowledged, last) => {
                    return Ok(Ticket::new(acknowledged, last, durability, self.shared.clone()));
                }
                Staged::Unreadable => queue.when_quiet(Staging::heal)?.map_err(|error| {
                    AppendError::Stopped { safe: queue.synced(), source: Arc::new(error) }
                })?,
                Staged::Unwritten => queue.flush()?,
            }
        }
    }

    /// Makes everything durable that was taken in.
    pub(crate) fn flush(&self) -> Result<(), AppendError> {
        self.shared.queue.flush()
    }

    /// Makes everything durable and lets the session go.
    pub(crate) fn finish(&self) -> Result<(), StoreError> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let queue = &self.shared.queue;
        let announced = queue.look(|staging| staging.announced);
        // Everything is made durable, events that were only buffered too: the snapshot below
        // vouches for all but the last line.
        let mut closed = if announced { queue.flush() } else { queue.flush_staged() };
        if announced && closed.is_ok() {
            // Not worth a sync of its own: a power cut that loses it leaves a session that looks
            // interrupted, which it then is.
            let closing = NewEvent::new(Kind::WRITER_CLOSED, Payload::from_stored("{}".into()));
            let closing = vec![self.salts.prepare(closing, &[])];
            closed = self
                .stage(closing, Durability::Buffered, OddEvents::Keep, Opening::WithFirst)
                .and_then(|ticket| ticket.wait().map(|_| ()));
        }
        let snapshot =
            queue.look(
                |staging| {
                    if staging.since_snapshot > 0 { staging.take_snapshot() } else { None }
                },
            );
        if let Some(mut committer) = queue.close()
            && let (Ok(()), Some(taken), Some(stand)) = (&closed, &snapshot, committer.stand)
        {
            let _ = committer.snapshots.write(taken, stand);
        }
        self.pack_writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(closed?)
    }
}

/// What became of events that were to be staged.
enum Staged {
    /// They are staged; the last that must be durable for them.
    Done(Vec<Acknowledged>, Seq),
    /// Nothing was staged: a page of the state is not readable, and it must be folded anew.
    Unreadable,
    /// Nothing was staged: a rewind goes back to what is not in the file yet.
    Unwritten,
}

/// When `writer.opened` is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Now,
    WithFirst,
}

/// A place in the staging area to go back to.
struct Saved {
    state: SessionState,
    lines: usize,
    seq: Seq,
    sum: Sum,
    last_line: u64,
    objects: bool,
    ends_part: bool,
    since_snapshot: u64,
    opening: Vec<Prepared>,
    announced: bool,
}

impl Staging {
    fn open(&mut self, durable: Seq) -> Result<(), JournalError> {
        for mut event in std::mem::take(&mut self.opening) {
            self.push(&mut event, durable)?;
            self.announced = true;
        }
        Ok(())
    }

    /// Takes events in, all or none.
    fn take_in(
        &mut self,
        events: &mut [Prepared],
        odd: OddEvents,
        opening: Opening,
        durable: Seq,
    ) -> Result<Staged, AppendError> {
        let stopped =
            |error: JournalError| AppendError::Stopped { safe: durable, source: Arc::new(error) };
        // To go back to, when something may turn out that undoes what was taken in already.
        let saved = (odd == OddEvents::Refuse || !self.state.is_whole()).then(|| self.mark());
        let mut acknowledged = Vec::with_capacity(events.len());
        let mut last = Seq::ZERO;
        if opening == Opening::Now {
            self.open(durable).map_err(stopped)?;
            last = self.seq;
        }
        for (index, prepared) in events.iter_mut().enumerate() {
            if !self.fetch(&prepared.0) {
                if let Some(saved) = &saved {
                    self.back_to(saved);
                }
                return Ok(Staged::Unreadable);
            }
            if let Some(seq) = prepared.0.key.as_ref().and_then(|key| self.state.key(key)) {
                // Acknowledged when the first one is.
                last = last.max(seq);
                acknowledged.push(Acknowledged { seq, anomaly: None, repeated: true });
                continue;
            }
            // A rewind is alone in its batch, so that nothing was taken in yet.
            if rewind_beyond(&prepared.0, self.seq, durable) {
                return Ok(Staged::Unwritten);
            }
            self.open(durable).map_err(stopped)?;
            let done = self.push(prepared, durable).map_err(stopped)?;
            if let (OddEvents::Refuse, Some(saved), Some(anomaly)) = (odd, &saved, done.anomaly) {
                self.back_to(saved);
                return Err(AppendError::Odd { index, anomaly });
            }
            last = done.seq;
            acknowledged.push(done);
        }
        Ok(Staged::Done(acknowledged, last))
    }

    fn mark(&self) -> Saved {
        Saved {
            state: self.state.clone(),
            lines: self.lines.len(),
            seq: self.seq,
            sum: self.sum,
            last_line: self.last_line,
            objects: self.objects,
            ends_part: self.ends_part,
            since_snapshot: self.since_snapshot,
            opening: self.opening.clone(),
            announced: self.announced,
        }
    }

    fn back_to(&mut self, saved: &Saved) {
        self.state = saved.state.clone();
        self.lines.truncate(saved.lines);
        self.seq = saved.seq;
        self.sum = saved.sum;
        self.last_line = saved.last_line;
        self.objects = saved.objects;
        self.ends_part = saved.ends_part;
        self.since_snapshot = saved.since_snapshot;
        self.opening.clone_from(&saved.opening);
        self.announced = saved.announced;
    }
}

impl SessionWriter for LocalWriter {
    fn append(
        &self,
        events: Vec<NewEvent>,
        durability: Durability,
        odd: OddEvents,
    ) -> Result<Ticket, AppendError> {
        check_batch(&events, &self.limits)?;
        let stopped = |error: JournalError| AppendError::Stopped {
            safe: self.shared.queue.synced(),
            source: Arc::new(error),
        };
        let prepared: Result<Vec<_>, _> =
            events.into_iter().map(|event| self.prepare(event)).collect();
        self.stage(prepared.map_err(stopped)?, durability, odd, Opening::WithFirst)
    }

    fn state(&self) -> Result<SessionState, StoreError> {
        let queue = &self.shared.queue;
        let whole = queue.look(|staging| {
            staging.pages.bring_all(&mut staging.state).then(|| staging.state.clone())
        });
        match whole {
            Some(state) => Ok(state),
            None => {
                let healed = queue.when_quiet(|staging| {
                    staging.heal()?;
                    Ok(staging.state.clone())
                })?;
                healed.map_err(store_error)
            }
        }
    }

    fn core(&self) -> Result<(Core, Digest), StoreError> {
        let queue = &self.shared.queue;
        Ok(queue.look(|staging| (staging.state.core.clone(), staging.state.digest())))
    }

    fn lane(&self, lane: Option<&LaneId>) -> Result<(Core, LaneState), StoreError> {
        let queue = &self.shared.queue;
        let name = lane.map(LaneId::as_str).unwrap_or_default();
        let take = |state: &SessionState| {
            (state.core.clone(), state.lane(name).cloned().unwrap_or_default())
        };
        let found = queue.look(|staging| {
            let here = staging.pages.bring_lane(&mut staging.state, name);
            here.then(|| take(&staging.state))
        });
        let found = match found {
            Some(found) => found,
            None => self.state().map(|state| take(&state))?,
        };
        // Whoever reads on from here finds all that it speaks of.
        queue.flush_staged()?;
        Ok(found)
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn notes(&self) -> Vec<ReadNote> {
        self.notes.clone()
    }

    fn close(&self) -> Pending<'_, ()> {
        Box::pin(async move { self.finish() })
    }
}

impl Drop for LocalWriter {
    fn drop(&mut self) {
        // Those who want to know call `close`.
        let _ = self.finish();
    }
}

/// Is this what a caller may have recorded together?
pub(crate) fn check_batch(events: &[NewEvent], limits: &Limits) -> Result<(), AppendError> {
    let alone = events.len() == 1;
    for (index, event) in events.iter().enumerate() {
        let kind = || event.kind.to_string();
        let checked = if event.kind.is_reserved() {
            Err(InputError::Reserved { kind: kind() })
        } else if event.kind == Kind::SESSION_REWOUND && !alone {
            Err(InputError::NotAlone { kind: kind() })
        } else {
            event.check(limits)
        };
        checked.map_err(|source| AppendError::Input { index, source: Arc::new(source) })?;
    }
    Ok(())
}

/// Does a rewind go back to an event that is taken in and not durable yet? The state there is read
/// from the file.
fn rewind_beyond(event: &Event, end: Seq, durable: Seq) -> bool {
    if event.kind != Kind::SESSION_REWOUND {
        return false;
    }
    match event.fact() {
        Ok(Fact::Rewind(rewind)) => rewind.to <= end && rewind.to > durable,
        _ => false,
    }
}
