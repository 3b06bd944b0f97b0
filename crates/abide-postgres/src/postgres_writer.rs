//! The one writer of a session: stages events, folds them, and has them sent in groups.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use abide_journal::{
    Commit, CommitQueue, Environment, Intake, IntakeLines, IntakeOutcome, IntakeSalts,
    IntakeStateSource, JournalError, LineObjectRef, OpeningTiming, PreparedEvent, Sum,
};
use abide_maintain::object_names_in;
use abide_model::{
    AnomalyPolicy, AppendError, Digest, Durability, Epoch, Erasure, Event, EventFactory,
    EventLimits, HeldMark, HeldMarks, Kind, LaneId, LaneState, NewEvent, ObjectBatch, ObjectHash,
    Objects, ReadFinding, Recovery, Seq, SessionCore, SessionState, SessionWriter, StoreError,
    Ticket, WriterOpened, check_batch, made_behind,
};
use uuid::Uuid;

use crate::flusher::Flusher;
use crate::history::{self, HistoryChanges};
use crate::lease::{self, Lease, Leases};
use crate::postgres_reader::{PostgresReader, StateAtEnd};
use crate::state_cache::{PendingStateCache, StatePageLayout};
use crate::storing_lock::{COLLECTION, StoringLock, StoringMark};
use crate::storing_objects::StoringObjects;

/// Strings larger than this are stored as objects.
const OBJECT_BYTES: usize = 16 << 10;
/// The state cache is written after this many events, and when a writer closes.
const SNAPSHOT_EVERY: u64 = 4096;

/// How long to wait for a collection while another process waits for an event to be appended.
const RELAYED: Duration = Duration::from_secs(15);
/// How long a closing writer may take to update the index.
const INDEXING: Duration = Duration::from_secs(2);

/// What the intake reads from the server.
struct WriterLookup {
    reader: PostgresReader,
    pages: StatePageLayout,
}

impl IntakeStateSource for WriterLookup {
    fn fetch(&mut self, _: &mut SessionState, _: &Event) -> bool {
        // The whole state was loaded.
        true
    }

    fn rewound(&self, before: SessionState, event: &Event) -> Result<SessionState, JournalError> {
        let Some(to) = abide_model::rewind_target(event) else { return Ok(before) };
        let reader = self.reader.clone();
        let base = self.reader.server.block(async move { reader.state_at(to).await })?;
        let mut state = SessionState::rewound(base, before);
        state.apply(event);
        Ok(state)
    }
}

type PostgresIntake = Intake<WriterLookup>;

struct PostgresBatch {
    lines: IntakeLines,
    snapshot: Option<PendingStateCache>,
}

/// Sends batches.
struct PostgresCommitter {
    flusher: Arc<Flusher>,
    reader: PostgresReader,
    lease: Lease,
    changed: Arc<HistoryChanges>,
    storing: Arc<StoringLock>,
    unnamed: Arc<UnnamedObjects>,
    /// The marks under which other processes have stored what is being appended for them.
    held: Arc<HeldMarks>,
}

/// What was stored for events that are not acknowledged yet: each keeps a window open.
#[derive(Debug, Default)]
struct UnnamedObjects(Mutex<UnnamedState>);

#[derive(Debug, Default)]
struct UnnamedState {
    stored: Vec<(Seq, Arc<StoringObjects>)>,
    /// The last event that is in the table.
    sent: Seq,
}

impl UnnamedObjects {
    fn lock(&self) -> MutexGuard<'_, UnnamedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps something until it is told which event names it.
    fn keep(&self, stored: Arc<StoringObjects>) {
        self.lock().stored.push((Seq(u64::MAX), stored));
    }

    /// Drops what was stored for events up to this one.
    fn named(&self, last: Seq) {
        let mut state = self.lock();
        state.sent = state.sent.max(last);
        state.stored.retain(|(seq, _)| *seq > last);
    }

    /// Tells which event names something; `None` if none does. It may have been sent already.
    fn name(&self, stored: &Arc<StoringObjects>, event: Option<Seq>) {
        let mut state = self.lock();
        let event = event.filter(|event| *event > state.sent);
        match event {
            None => state.stored.retain(|(_, it)| !Arc::ptr_eq(it, stored)),
            Some(event) => {
                for (seq, _) in state.stored.iter_mut().filter(|(_, it)| Arc::ptr_eq(it, stored)) {
                    *seq = event;
                }
            }
        }
    }
}

impl PostgresCommitter {
    /// The mark that these lines need.
    fn mark(&self, lines: &IntakeLines) -> Result<Option<Uuid>, StoreError> {
        let (ours, theirs) = (self.storing.mark(), self.held.mark());
        if (ours == StoringMark::Any && theirs.is_none())
            || object_names_in(&lines.bytes).next().is_none()
        {
            return Ok(None);
        }
        let theirs = theirs.map(|mark| mark.parse().map_err(|_| self.storing.collected()));
        match (ours, theirs.transpose()?) {
            (StoringMark::Any, theirs) => Ok(theirs),
            (StoringMark::Of(mark), None) => Ok(Some(mark)),
            (StoringMark::Of(mark), Some(theirs)) if mark == theirs => Ok(Some(mark)),
            _ => Err(self.storing.collected()),
        }
    }

    fn send(&self, lines: IntakeLines) -> Result<(), StoreError> {
        let (mark, last) = (self.mark(&lines)?, lines.last.0);
        self.flusher.append(self.reader.session, self.lease, lines, mark)?;
        self.unnamed.named(last);
        Ok(())
    }
}

impl Commit for PostgresCommitter {
    type Staging = PostgresIntake;
    type Batch = PostgresBatch;

    fn take(staging: &mut PostgresIntake, _: Durability) -> PostgresBatch {
        let lines = staging.take_lines();
        let due = staging.since_snapshot >= SNAPSHOT_EVERY;
        let snapshot = due.then(|| stage_state_cache(staging, lines.last));
        PostgresBatch { lines, snapshot }
    }

    fn commit(&mut self, batch: PostgresBatch, _: Durability) -> Result<(), JournalError> {
        if let Err(error) = self.send(batch.lines) {
            // The writer stops.
            self.unnamed.named(Seq(u64::MAX));
            return Err(error.into());
        }
        self.changed.mark(&self.reader);
        if let Some(taken) = batch.snapshot {
            // Only speeds up the next open, so nobody waits for it.
            let (server, sid) = (self.reader.server.clone(), self.lease.sid);
            if let Some(handle) = self.reader.server.runtime() {
                handle.spawn(async move { write_staged_state_cache(&server, taken, sid).await });
            }
        }
        Ok(())
    }
}

async fn write_staged_state_cache(
    server: &crate::server_connection::ServerConnection,
    taken: PendingStateCache,
    sid: i64,
) -> Result<(), StoreError> {
    let taken = Arc::new(taken);
    let written = server.once(|client| {
        let taken = taken.clone();
        Box::pin(async move { taken.write(client, sid).await })
    });
    written.await.map_err(|trouble| {
        taken.failed();
        trouble.into_store("write a snapshot to", &server.place())
    })
}

fn stage_state_cache(staging: &mut PostgresIntake, last: (Seq, Sum)) -> PendingStateCache {
    staging.since_snapshot = 0;
    staging.stored.pages.take(&mut staging.state, last)
}

/// The writer of a session of a [`PostgresStore`](crate::PostgresStore).
pub(crate) struct PostgresWriter {
    queue: Arc<CommitQueue<PostgresCommitter>>,
    reader: PostgresReader,
    lease: Lease,
    leases: Arc<Leases>,
    changed: Arc<HistoryChanges>,
    limits: EventLimits,
    closed: AtomicBool,
    salts: IntakeSalts,
    storing: Arc<StoringLock>,
    unnamed: Arc<UnnamedObjects>,
    held: Arc<HeldMarks>,
}

impl PostgresWriter {
    pub(crate) fn new(
        env: &Environment,
        reader: PostgresReader,
        flusher: Arc<Flusher>,
        storing: Arc<StoringLock>,
        (lease, leases, changed): (Lease, Arc<Leases>, Arc<HistoryChanges>),
        end: StateAtEnd,
    ) -> Result<Self, StoreError> {
        let salts = IntakeSalts::new(env);
        let fact =
            WriterOpened { epoch: lease.epoch, by: env.holder.to_string(), who: env.holder.who() };
        let opening = vec![salts.prepare_fact(Kind::WRITER_OPENED, &fact)?];
        let at = end.state.core.at;
        let past = WriterLookup { reader: reader.clone(), pages: end.pages.of_writer(lease.epoch) };
        let staging =
            PostgresIntake::new(env.clone(), end.state, past, (end.seq, end.sum), at, opening);
        let unnamed = Arc::new(UnnamedObjects::default());
        let held = Arc::<HeldMarks>::default();
        let committer = PostgresCommitter {
            flusher,
            reader: reader.clone(),
            lease,
            changed: changed.clone(),
            storing: storing.clone(),
            unnamed: unnamed.clone(),
            held: held.clone(),
        };
        let queue = CommitQueue::new(staging, committer, end.seq, end.seq);
        leases.add(lease);
        Ok(Self {
            queue,
            reader,
            lease,
            leases,
            changed,
            limits: EventLimits::default(),
            closed: AtomicBool::new(false),
            salts,
            storing,
            unnamed,
            held,
        })
    }

    /// Moves the large strings of payloads into objects, durably. Nothing removes them until an
    /// event names them.
    fn prepare(
        &self,
        events: Vec<NewEvent>,
    ) -> Result<(Vec<PreparedEvent>, Option<Arc<StoringObjects>>), StoreError> {
        let mut objects = ObjectBatch::default();
        let mut prepared = Vec::with_capacity(events.len());
        let stored = StoringObjects::new(self.reader.objects.clone(), self.storing.clone());
        let is_condemned = |hash| -> Result<bool, StoreError> {
            // Whoever waits for us may be who a collection waits for.
            let limit = if self.held.mark().is_some() { RELAYED } else { COLLECTION };
            Ok(stored.open_within(limit)?.is_condemned(hash))
        };
        for new in events {
            let whole = (new.data.as_str().len() > OBJECT_BYTES).then(|| new.data.clone());
            let (data, leaves) = new.data.take_leaves(OBJECT_BYTES);
            let hashes: Vec<ObjectHash> =
                leaves.iter().map(|leaf| ObjectHash::of(&leaf.bytes)).collect();
            let mut condemned = false;
            for hash in &hashes {
                condemned |= is_condemned(*hash)?;
            }
            if let Some(data) = whole.filter(|_| condemned) {
                // What is being removed is not stored again: it stays in the line.
                prepared.push(self.salts.prepare(NewEvent { data, ..new }, &[]));
                continue;
            }
            for (hash, leaf) in hashes.iter().zip(&leaves) {
                objects.push(*hash, &leaf.bytes);
            }
            let refs: Vec<LineObjectRef> = leaves.iter().map(LineObjectRef::to).collect();
            prepared.push(self.salts.prepare(NewEvent { data, ..new }, &refs));
        }
        if objects.is_empty() {
            return Ok((prepared, None));
        }
        stored.put_batch(&objects)?;
        stored.sync()?;
        Ok((prepared, Some(Arc::new(stored))))
    }

    fn stage(
        &self,
        mut events: Vec<PreparedEvent>,
        durability: Durability,
        odd: AnomalyPolicy,
    ) -> Result<Ticket, AppendError> {
        self.staged(durability, |staging, durable| {
            staging.take_in(&mut events, odd, OpeningTiming::WithFirst, durable)
        })
    }

    /// Stages events, repeating until it succeeds.
    fn staged(
        &self,
        durability: Durability,
        mut take_in: impl FnMut(&mut PostgresIntake, Seq) -> Result<IntakeOutcome, AppendError>,
    ) -> Result<Ticket, AppendError> {
        let queue = &self.queue;
        loop {
            let staged = queue.stage(durability, |staging, durable| {
                let staged = take_in(staging, durable)?;
                Ok((staged, staging.seq))
            })?;
            match staged {
                IntakeOutcome::Done(acknowledged, last) => {
                    return Ok(Ticket::new(acknowledged, last, durability, self.queue.clone()));
                }
                // No page is ever missing; but staged events must be sent before they are read
                // back.
                IntakeOutcome::Unreadable | IntakeOutcome::Unwritten => queue.flush()?,
            }
        }
    }

    /// Records that payloads were erased.
    pub(crate) fn note_erased(&self, erasures: &[Erasure]) -> Result<(), StoreError> {
        let noted: Result<Vec<_>, _> = erasures
            .iter()
            .map(|erasure| self.salts.prepare_fact(Kind::PAYLOAD_ERASED, erasure))
            .collect();
        self.stage(noted?, Durability::Synced, AnomalyPolicy::Keep)?.wait()?;
        Ok(())
    }

    /// The lease that it holds.
    pub(crate) const fn lease(&self) -> Lease {
        self.lease
    }

    /// Records what a recovery found and did.
    pub(crate) fn note_recovered(&self, recovery: &Recovery) -> Result<(), StoreError> {
        let noted = self.salts.prepare_fact(Kind::RECOVERY_PERFORMED, recovery)?;
        self.stage(vec![noted], Durability::Synced, AnomalyPolicy::Keep)?.wait()?;
        Ok(())
    }

    fn finish(&self) -> Result<(), StoreError> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let queue = &self.queue;
        let mut closed = queue.flush();
        if closed.is_ok() && queue.look(|staging| staging.announced) {
            closed = self
                .stage(vec![self.salts.closing()], Durability::Synced, AnomalyPolicy::Keep)
                .and_then(|ticket| ticket.wait().map(|_| ()));
        }
        // From here on nothing is staged. Events staged during the close are not sent, and their
        // tickets fail.
        queue.close();
        self.unnamed.named(Seq(u64::MAX));
        let taken = queue.look(|staging| {
            let sent = closed.is_ok() && staging.since_snapshot > 0 && staging.is_empty();
            sent.then(|| stage_state_cache(staging, staging.end()))
        });
        self.leases.remove(self.lease);
        self.changed.remove(self.lease.sid);
        let whole = closed.is_ok();
        let (server, lease, reader) = (self.reader.server.clone(), self.lease, self.reader.clone());
        let released = self.reader.server.block(async move {
            if let Some(taken) = taken {
                let _ = write_staged_state_cache(&server, taken, lease.sid).await;
            }
            if whole {
                // So that a later query need not read it. If it takes longer, the query does the
                // rest.
                let _ = tokio::time::timeout(INDEXING, history::catch_up_history(&reader)).await;
            }
            lease::release_lease(&server, lease).await
        });
        closed?;
        released
    }
}

impl SessionWriter for PostgresWriter {
    fn append(
        &self,
        events: Vec<NewEvent>,
        durability: Durability,
        odd: AnomalyPolicy,
    ) -> Result<Ticket, AppendError> {
        check_batch(&events, &self.limits)?;
        let (prepared, stored) = self.prepare(events).map_err(|error| AppendError::Stopped {
            safe: self.queue.synced(),
            source: Arc::new(error),
        })?;
        let Some(stored) = stored else { return self.stage(prepared, durability, odd) };
        // Before it is staged: any thread may send it from then on.
        self.unnamed.keep(stored.clone());
        let staged = self.stage(prepared, durability, odd);
        let seq = staged.as_ref().ok().and_then(Ticket::seq);
        self.unnamed.name(&stored, seq);
        staged
    }

    fn append_behind(&self, make: &EventFactory<'_>) -> Result<Ticket, AppendError> {
        let prepared = |last| {
            let event = made_behind(make, last, &self.limits)?;
            Ok::<_, AppendError>(self.salts.prepare(event, &[]))
        };
        self.staged(Durability::Synced, |staging, durable| {
            staging.take_in_behind(prepared, durable)
        })
    }

    fn state(&self) -> Result<SessionState, StoreError> {
        Ok(self.queue.look(|staging| staging.state.clone()))
    }

    fn core(&self) -> Result<(SessionCore, Digest), StoreError> {
        let look =
            |staging: &mut PostgresIntake| (staging.state.core.clone(), staging.state.digest());
        Ok(self.queue.look(look))
    }

    fn lane(&self, lane: Option<&LaneId>) -> Result<(SessionCore, LaneState), StoreError> {
        let name = lane.map(LaneId::as_str).unwrap_or_default();
        let found = self.queue.look(|staging| {
            let lane = staging.state.lane(name).cloned().unwrap_or_default();
            (staging.state.core.clone(), lane)
        });
        // A reader that continues from here finds everything that it refers to.
        self.queue.flush()?;
        Ok(found)
    }

    fn flush(&self) -> Result<(), AppendError> {
        self.queue.flush()
    }

    fn epoch(&self) -> Epoch {
        self.lease.epoch
    }

    fn notes(&self) -> Vec<ReadFinding> {
        Vec::new()
    }

    fn hold_mark(&self, mark: &str) -> Result<HeldMark, StoreError> {
        let theirs: Uuid = mark.parse().map_err(|_| self.storing.collected())?;
        if let StoringMark::Of(ours) = self.storing.mark()
            && ours != theirs
        {
            return Err(self.storing.collected());
        }
        self.held.hold(mark).map_err(|_| self.storing.collected())
    }

    fn close(&self) -> Result<(), StoreError> {
        self.finish()
    }
}

impl Drop for PostgresWriter {
    fn drop(&mut self) {
        // Callers that need the result call `close`. A panic must not leave a drop.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.finish()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_before_its_event_was_told_is_not_kept() {
        let unnamed = UnnamedObjects::default();
        let server = crate::server_connection::ServerConnection::new(
            crate::ServerUrl::parse("postgres://nobody@127.0.0.1:1/nothing").unwrap(),
            Duration::ZERO,
            Duration::from_secs(1),
        );
        let server = Arc::new(server.unwrap());
        let objects = Arc::new(crate::table_objects::TableObjects::new(server.clone()));
        let storing = StoringLock::new(server, None);
        let stored = || Arc::new(StoringObjects::new(objects.clone(), storing.clone()));
        let (one, other) = (stored(), stored());
        unnamed.keep(one.clone());
        unnamed.keep(other.clone());
        unnamed.named(Seq(7));
        unnamed.name(&one, Some(Seq(7)));
        unnamed.name(&other, Some(Seq(8)));
        assert_eq!((Arc::strong_count(&one), Arc::strong_count(&other)), (1, 2));
        unnamed.named(Seq(8));
        assert_eq!(Arc::strong_count(&other), 1);
    }
}
