//! The only writer of a session: accepts events, folds them into the state, and commits them in
//! groups.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use abide_journal::{
    Appender, Commit, CommitQueue, Environment, Intake, IntakeLines, IntakeOutcome, IntakeSalts,
    IntakeStateSource, JournalEnd, JournalError, LineObjectRef, OpeningTiming, PackWriter, Packs,
    PreparedEvent, Storage,
};
use abide_model::{
    AnomalyPolicy, AppendError, Digest, Durability, Epoch, Erasure, Event, EventFactory,
    EventLimits, Kind, LaneId, LaneState, NewEvent, ReadFinding, Recovery, Seq, SessionCore,
    SessionState, SessionWriter, StoreError, Ticket, Timestamp, WriterOpened, check_batch,
    made_behind,
};

use crate::derived::changed_sessions::ChangedMark;
use crate::derived::state_cache::{CachedJournalEnd, StagedStateCache, StateCache, StatePages};
use crate::derived::transcript_worker::TranscriptWorker;
use crate::error::store_error;
use crate::sessions::heartbeat::Heartbeat;
use crate::sessions::local_reader::LocalReader;
use crate::sessions::recovery;
use crate::sessions::sealer::Sealer;
use crate::sessions::session_ancestry::MissingParentPolicy;

/// If no more pages than this are missing, they are all loaded at once, and none is looked for
/// later.
const FEW_PAGES: usize = 32;

/// The files that the intake reads from.
struct WriterFiles {
    pages: StatePages,
    reader: LocalReader,
    /// A section of the transcript ends in the staged events.
    ends_part: bool,
    snapshot_every: u64,
    snapshot_bytes: usize,
}

impl IntakeStateSource for WriterFiles {
    fn fetch(&mut self, state: &mut SessionState, event: &Event) -> bool {
        if state.is_whole() {
            return true;
        }
        if state.away().len() <= FEW_PAGES {
            return self.pages.bring_all(state);
        }
        self.pages.bring(state, event)
    }

    fn rewound(&self, before: SessionState, event: &Event) -> Result<SessionState, JournalError> {
        recovery::apply_rewind(&self.reader, before, event, None)
    }

    fn taken(&mut self, event: &Event) {
        self.ends_part |= TranscriptWorker::is_due(&event.kind);
    }
}

/// The staged events, and the state that they lead to.
type LocalIntake = Intake<WriterFiles>;

fn stage_state_cache(staging: &mut LocalIntake) -> Option<StagedStateCache> {
    staging.since_snapshot = 0;
    let taken = staging.stored.pages.take(&mut staging.state)?;
    (taken.page_bytes() <= staging.stored.snapshot_bytes).then_some(taken)
}

/// Folds the state again, because a page of the state cache cannot be read. Everything staged must
/// have been written.
fn heal_writer_state(staging: &mut LocalIntake) -> Result<(), JournalError> {
    staging.state = recovery::recovered_state_at(
        &staging.stored.reader,
        staging.seq,
        None,
        MissingParentPolicy::Refuse,
    )?;
    staging.stored.pages.discard();
    Ok(())
}

struct JournalBatch {
    lines: IntakeLines,
    snapshot: Option<StagedStateCache>,
    /// A section of the transcript ends in it.
    ends_part: bool,
}

/// Writes batches: objects first, then lines, then derived data.
struct LocalCommitter {
    /// Declared first so that they are dropped first: both must end before the lock is released.
    sealer: Option<Sealer>,
    scribe: Option<TranscriptWorker>,
    storage: Arc<dyn Storage>,
    appender: Appender,
    packs: Arc<Mutex<Option<PackWriter>>>,
    snapshots: StateCache,
    journal_dir: PathBuf,
    stand: Option<CachedJournalEnd>,
    changed: ChangedMark,
    heartbeat: Option<Heartbeat>,
}

impl Commit for LocalCommitter {
    type Staging = LocalIntake;
    type Batch = JournalBatch;

    fn take(staging: &mut LocalIntake, durability: Durability) -> JournalBatch {
        // A cached state vouches for every line before its own, so it is taken only if all of them
        // are durable.
        let due = staging.since_snapshot >= staging.stored.snapshot_every;
        let take = due && durability == Durability::Synced;
        let snapshot = take.then(|| stage_state_cache(staging)).flatten();
        let ends_part = std::mem::take(&mut staging.stored.ends_part);
        JournalBatch { lines: staging.take_lines(), snapshot, ends_part }
    }

    fn commit(&mut self, batch: JournalBatch, durability: Durability) -> Result<(), JournalError> {
        if batch.lines.objects {
            let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(packs) = packs.as_mut() {
                packs.sync()?;
            }
        }
        let before = self.appender.end().segment;
        self.changed.before();
        self.appender.commit(&batch.lines.bytes, batch.lines.last, durability)?;
        self.changed.after();
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.beat(batch.lines.at);
        }
        if let Some(scribe) = &mut self.scribe {
            scribe.committed(batch.ends_part);
        }
        let end = self.appender.end();
        let last_line = batch.lines.last_line;
        if last_line > 0 {
            self.stand = Some(CachedJournalEnd { end, line: end.offset.saturating_sub(last_line) });
        }
        if let (Some(taken), Some(stand)) = (&batch.snapshot, self.stand) {
            // Only speeds up the next open: ignore a failure.
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

impl LocalCommitter {
    /// Seals what a writer that closes leaves behind. Nobody waits for an acknowledgement any more.
    fn seal(&mut self) -> Result<(), JournalError> {
        let Some(sealer) = self.sealer.take() else { return Ok(()) };
        let limit = self.appender.limit();
        let appender = &mut self.appender;
        // The closing event is not synced on its own account.
        let settled = || appender.settle();
        sealer.finish(&self.storage, &self.journal_dir, limit, settled)
    }
}

/// What a writer starts from.
pub(crate) struct WriterStart {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) env: Environment,
    pub(crate) reader: LocalReader,
    /// A state cache with more bytes of pages than this is not written.
    pub(crate) snapshot_bytes: usize,
    pub(crate) appender: Appender,
    pub(crate) packs: Arc<Packs>,
    pub(crate) snapshots: StateCache,
    pub(crate) state: SessionState,
    pub(crate) pages: StatePages,
    pub(crate) at: Timestamp,
    pub(crate) durable: Seq,
    pub(crate) stand: Option<CachedJournalEnd>,
    pub(crate) recovered: Option<Recovery>,
    pub(crate) notes: Vec<ReadFinding>,
    pub(crate) object_bytes: usize,
    pub(crate) snapshot_every: u64,
    pub(crate) sealer: Option<Sealer>,
    pub(crate) changed: ChangedMark,
    pub(crate) scribe: Option<TranscriptWorker>,
    /// `None` for a short-lived writer.
    pub(crate) heartbeat: Option<Heartbeat>,
}

/// The writer of a session of a [`LocalStore`](crate::LocalStore).
pub struct LocalWriter {
    queue: Arc<CommitQueue<LocalCommitter>>,
    packs: Arc<Packs>,
    pack_writer: Arc<Mutex<Option<PackWriter>>>,
    object_bytes: usize,
    epoch: Epoch,
    notes: Vec<ReadFinding>,
    limits: EventLimits,
    closed: AtomicBool,
    salts: IntakeSalts,
}

impl LocalWriter {
    pub(crate) fn new(opened: WriterStart) -> Result<Self, StoreError> {
        let epoch = opened.state.core.epoch.next();
        let end: JournalEnd = opened.appender.end();
        let salts = IntakeSalts::new(&opened.env);
        let holder = &opened.env.holder;
        let fact = WriterOpened { epoch, by: holder.to_string(), who: holder.who() };
        let mut opening = vec![salts.prepare_fact(Kind::WRITER_OPENED, &fact)?];
        let mend_now = opened.recovered.is_some();
        if let Some(recovered) = &opened.recovered {
            opening.push(salts.prepare_fact(Kind::RECOVERY_PERFORMED, recovered)?);
        }
        let pack_writer = Arc::new(Mutex::new(None));
        let journal_dir = opened.reader.journal().dir().to_owned();
        let past = WriterFiles {
            pages: opened.pages,
            reader: opened.reader,
            ends_part: false,
            snapshot_every: opened.snapshot_every,
            snapshot_bytes: opened.snapshot_bytes,
        };
        let staging = LocalIntake::new(
            opened.env,
            opened.state,
            past,
            (end.seq, end.sum),
            opened.at,
            opening,
        );
        let committer = LocalCommitter {
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
            queue,
            packs: opened.packs,
            pack_writer,
            object_bytes: opened.object_bytes,
            epoch,
            notes: opened.notes,
            limits: EventLimits::default(),
            closed: AtomicBool::new(false),
            salts,
        };
        if mend_now {
            writer
                .stage(Vec::new(), Durability::Synced, AnomalyPolicy::Keep, OpeningTiming::Now)?
                .wait()?;
        }
        Ok(writer)
    }

    /// Writes `session.created`, the first event.
    pub(crate) fn begin(&self, created: NewEvent) -> Result<(), StoreError> {
        let prepared = vec![self.salts.prepare(created, &[])];
        self.queue.look(LocalIntake::without_opening);
        self.stage(prepared, Durability::Synced, AnomalyPolicy::Keep, OpeningTiming::WithFirst)?
            .wait()?;
        Ok(())
    }

    /// Records that payloads were erased.
    pub(crate) fn note_erased(&self, erasures: &[Erasure]) -> Result<(), StoreError> {
        let noted: Result<Vec<_>, _> = erasures
            .iter()
            .map(|erasure| self.salts.prepare_fact(Kind::PAYLOAD_ERASED, erasure))
            .collect();
        self.stage(noted?, Durability::Synced, AnomalyPolicy::Keep, OpeningTiming::WithFirst)?
            .wait()?;
        Ok(())
    }

    /// Records what a recovery found and did. Returns the event's seq.
    pub(crate) fn note_recovered(&self, recovery: &Recovery) -> Result<Seq, StoreError> {
        let noted = self.salts.prepare_fact(Kind::RECOVERY_PERFORMED, recovery)?;
        let ticket = self.stage(
            vec![noted],
            Durability::Synced,
            AnomalyPolicy::Keep,
            OpeningTiming::WithFirst,
        )?;
        let last = ticket.wait()?.last().map(|done| done.seq);
        Ok(last.unwrap_or_default())
    }

    /// Moves the large strings of an event's payload to objects.
    fn prepare(&self, new: NewEvent) -> Result<PreparedEvent, JournalError> {
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
                refs.push(LineObjectRef::to(leaf));
            }
        }
        Ok(self.salts.prepare(NewEvent { data, ..new }, &refs))
    }

    fn stage(
        &self,
        mut events: Vec<PreparedEvent>,
        durability: Durability,
        odd: AnomalyPolicy,
        opening: OpeningTiming,
    ) -> Result<Ticket, AppendError> {
        self.staged(durability, |staging, durable| {
            staging.take_in(&mut events, odd, opening, durable)
        })
    }

    /// Retries until the events are staged.
    fn staged(
        &self,
        durability: Durability,
        mut take_in: impl FnMut(&mut LocalIntake, Seq) -> Result<IntakeOutcome, AppendError>,
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
                IntakeOutcome::Unreadable => {
                    queue.when_quiet(heal_writer_state)?.map_err(|error| AppendError::Stopped {
                        safe: queue.synced(),
                        source: Arc::new(error),
                    })?
                }
                IntakeOutcome::Unwritten => queue.flush()?,
            }
        }
    }

    /// Makes everything durable and releases the session.
    pub(crate) fn finish(&self) -> Result<(), StoreError> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let queue = &self.queue;
        let announced = queue.look(|staging| staging.announced);
        // Makes everything durable, buffered events included: the state cache below vouches for all
        // but the last line.
        let mut closed = if announced { queue.flush() } else { queue.flush_staged() };
        if announced && closed.is_ok() {
            // Not worth a sync of its own: if a power cut loses it, the session looks interrupted,
            // and it was.
            let closing = vec![self.salts.closing()];
            closed = self
                .stage(closing, Durability::Buffered, AnomalyPolicy::Keep, OpeningTiming::WithFirst)
                .and_then(|ticket| ticket.wait().map(|_| ()));
        }
        let snapshot =
            queue.look(
                |staging| {
                    if staging.since_snapshot > 0 { stage_state_cache(staging) } else { None }
                },
            );
        if let Some(mut committer) = queue.close()
            && closed.is_ok()
        {
            if let (Some(taken), Some(stand)) = (&snapshot, committer.stand) {
                let _ = committer.snapshots.write(taken, stand);
            }
            // A segment that cannot be sealed stays plain.
            let _ = committer.seal();
        }
        self.pack_writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(closed?)
    }
}

impl SessionWriter for LocalWriter {
    fn append(
        &self,
        events: Vec<NewEvent>,
        durability: Durability,
        odd: AnomalyPolicy,
    ) -> Result<Ticket, AppendError> {
        check_batch(&events, &self.limits)?;
        let stopped = |error: JournalError| AppendError::Stopped {
            safe: self.queue.synced(),
            source: Arc::new(error),
        };
        let prepared: Result<Vec<_>, _> =
            events.into_iter().map(|event| self.prepare(event)).collect();
        self.stage(prepared.map_err(stopped)?, durability, odd, OpeningTiming::WithFirst)
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

    fn flush(&self) -> Result<(), AppendError> {
        self.queue.flush()
    }

    fn state(&self) -> Result<SessionState, StoreError> {
        let queue = &self.queue;
        let whole = queue.look(|staging| {
            staging.stored.pages.bring_all(&mut staging.state).then(|| staging.state.clone())
        });
        match whole {
            Some(state) => Ok(state),
            None => {
                let healed = queue.when_quiet(|staging| {
                    heal_writer_state(staging)?;
                    Ok(staging.state.clone())
                })?;
                healed.map_err(store_error)
            }
        }
    }

    fn core(&self) -> Result<(SessionCore, Digest), StoreError> {
        let queue = &self.queue;
        Ok(queue.look(|staging| (staging.state.core.clone(), staging.state.digest())))
    }

    fn lane(&self, lane: Option<&LaneId>) -> Result<(SessionCore, LaneState), StoreError> {
        let queue = &self.queue;
        let name = lane.map(LaneId::as_str).unwrap_or_default();
        let take = |state: &SessionState| {
            (state.core.clone(), state.lane(name).cloned().unwrap_or_default())
        };
        let found = queue.look(|staging| {
            let here = staging.stored.pages.bring_lane(&mut staging.state, name);
            here.then(|| take(&staging.state))
        });
        let found = match found {
            Some(found) => found,
            None => self.state().map(|state| take(&state))?,
        };
        // A reader that continues from here must find everything it refers to.
        queue.flush_staged()?;
        Ok(found)
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn notes(&self) -> Vec<ReadFinding> {
        self.notes.clone()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.finish()
    }
}

impl Drop for LocalWriter {
    fn drop(&mut self) {
        // Callers that want the error call `close`.
        let _ = self.finish();
    }
}
