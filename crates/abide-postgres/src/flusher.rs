//! Group commit across the sessions of a process: the first thread sends what all have staged.
//!
//! A session has one batch under way at a time, so that its lines arrive in order. Several
//! statements may be under way on the one connection, each its own transaction.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use abide_journal::IntakeLines;
use abide_model::{SessionId, StoreError, block_on};
use deadpool_postgres::{ClientWrapper as Client, Object};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::error::ServerError;
use crate::lease::{Lease, LeaseStatus, lease_epoch_number};
use crate::notify::GrowthNotifier;
use crate::server_connection::{ConnectionRetries, ServerConnection};
use crate::storing_lock::collected_meanwhile;

/// The most statements under way at once.
const FLIGHTS: usize = 2;
/// The most bytes of lines in one statement; a larger batch goes alone.
const STATEMENT: usize = 4 << 20;

/// The statement for one line.
fn append_one(mark: Option<Uuid>) -> String {
    format!(
        "WITH {} held AS MATERIALIZED (
            SELECT lease.sid FROM lease {} WHERE sid = $1 AND epoch = $2 FOR SHARE OF lease)
        INSERT INTO event (sid, seq, sum, line)
        SELECT held.sid, $3, $4, $5 FROM held ON CONFLICT (sid, seq) DO NOTHING",
        marked_append(mark, 6),
        marked_join(mark)
    )
}

/// The statement for the lines of one session.
fn append_some(mark: Option<Uuid>) -> String {
    format!(
        "WITH {} held AS MATERIALIZED (
            SELECT lease.sid FROM lease {} WHERE sid = $1 AND epoch = $2 FOR SHARE OF lease)
        INSERT INTO event (sid, seq, sum, line)
        SELECT held.sid, given.seq, given.sum, given.line
        FROM held, unnest($3::bigint[], $4::bytea[], $5::bytea[]) AS given (seq, sum, line)
        ON CONFLICT (sid, seq) DO NOTHING",
        marked_append(mark, 6),
        marked_join(mark)
    )
}

/// The statement for the lines of many sessions.
fn append_many(mark: Option<Uuid>) -> String {
    format!(
        "WITH {} held AS MATERIALIZED (
            SELECT lease.sid FROM lease
            JOIN unnest($1::bigint[], $2::bigint[]) AS mine (sid, epoch)
                ON lease.sid = mine.sid AND lease.epoch = mine.epoch {}
            ORDER BY lease.sid FOR SHARE OF lease),
        put AS (
            INSERT INTO event (sid, seq, sum, line)
            SELECT given.sid, given.seq, given.sum, given.line
            FROM unnest($3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[])
                AS given (sid, seq, sum, line) JOIN held ON held.sid = given.sid
            ON CONFLICT (sid, seq) DO NOTHING RETURNING sid)
        SELECT sid, count(*) FROM put GROUP BY sid",
        marked_append(mark, 7),
        marked_join(mark)
    )
}

/// Finds the mark that the lines need, and keeps it until they are in the table: a collection
/// changes it before it looks which objects are named.
fn marked_append(mark: Option<Uuid>, place: u8) -> String {
    match mark {
        None => String::new(),
        Some(_) => format!(
            "kept AS MATERIALIZED (SELECT mark FROM collection WHERE mark = ${place} FOR SHARE),"
        ),
    }
}

const fn marked_join(mark: Option<Uuid>) -> &'static str {
    if mark.is_some() { "CROSS JOIN kept" } else { "" }
}

const THERE: &str = "SELECT count(*) FROM event
    JOIN unnest($2::bigint[], $3::bytea[]) AS given (seq, sum)
        ON event.seq = given.seq AND event.sum = given.sum
    WHERE event.sid = $1";

/// A batch of one session.
#[derive(Debug)]
struct FlushEntry {
    session: SessionId,
    lease: Lease,
    lines: IntakeLines,
    /// The mark that must not have changed, if objects are named that were stored under it.
    mark: Option<Uuid>,
    slot: Arc<FlushSlot>,
}

/// Receives the outcome of a batch, and wakes the thread that waits for it.
#[derive(Debug)]
struct FlushSlot {
    outcome: Mutex<Option<FlushOutcome>>,
    thread: Thread,
}

#[derive(Debug)]
enum FlushOutcome {
    Done(Result<(), StoreError>),
    /// Nobody is sending what is queued: this thread should.
    Lead,
}

impl FlushSlot {
    fn put(&self, outcome: FlushOutcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.thread.unpark();
    }

    fn take(&self) -> Option<FlushOutcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[derive(Debug, Default)]
struct FlushQueue {
    waiting: Vec<FlushEntry>,
    flying: usize,
}

/// Sends lines to the server.
#[derive(Debug)]
pub(crate) struct Flusher {
    server: Arc<ServerConnection>,
    queue: Mutex<FlushQueue>,
    /// The connection for appends; `None` before the first and after an error.
    line: Mutex<Option<Arc<FlushConnection>>>,
    teller: Arc<GrowthNotifier>,
}

impl Flusher {
    pub(crate) fn new(server: Arc<ServerConnection>, teller: Arc<GrowthNotifier>) -> Self {
        Self { server, queue: Mutex::default(), line: Mutex::default(), teller }
    }

    fn lock(&self) -> MutexGuard<'_, FlushQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a batch of a session durable. Blocks until it is, or has failed.
    pub(crate) fn append(
        &self,
        session: SessionId,
        lease: Lease,
        lines: IntakeLines,
        mark: Option<Uuid>,
    ) -> Result<(), StoreError> {
        if lines.ends.is_empty() {
            return Ok(());
        }
        let slot = Arc::new(FlushSlot { outcome: Mutex::default(), thread: thread::current() });
        let entry = FlushEntry { session, lease, lines, mark, slot: slot.clone() };
        let mut queue = self.lock();
        queue.waiting.push(entry);
        let lead = queue.flying < FLIGHTS;
        if lead {
            self.fly(queue);
        } else {
            drop(queue);
        }
        loop {
            match slot.take() {
                Some(FlushOutcome::Done(result)) => return result,
                Some(FlushOutcome::Lead) => self.fly(self.lock()),
                None => thread::park(),
            }
        }
    }

    /// Sends what is queued, and wakes everyone who waits for it.
    fn fly(&self, mut queue: MutexGuard<'_, FlushQueue>) {
        let batch =
            if queue.flying < FLIGHTS { take_flush_batch(&mut queue.waiting) } else { Vec::new() };
        if batch.is_empty() {
            return;
        }
        queue.flying += 1;
        drop(queue);
        // A panic must not leave the other threads asleep.
        let sent = catch_unwind(AssertUnwindSafe(|| self.send(&batch)));
        let mut outcomes = sent.unwrap_or_default().into_iter();
        for entry in &batch {
            let outcome = outcomes.next().unwrap_or_else(|| {
                let error = ServerError::Silent(0);
                Err(error.into_store("write to", &self.server.place()))
            });
            if outcome.is_ok() {
                self.teller.add(std::iter::once(entry.lease.sid));
            }
            entry.slot.put(FlushOutcome::Done(outcome));
        }
        let mut queue = self.lock();
        queue.flying -= 1;
        if let Some(next) = queue.waiting.first() {
            next.slot.put(FlushOutcome::Lead);
        }
    }

    /// Sends a batch until the server has answered. After an error it is sent session by session,
    /// so that one does not fail because of another.
    fn send(&self, batch: &[FlushEntry]) -> Vec<Result<(), StoreError>> {
        let mut again = ConnectionRetries::new(self.server.patience());
        loop {
            match self.send_once(batch) {
                Ok(outcomes) => return outcomes,
                Err(trouble) if batch.len() > 1 => {
                    self.pause(&trouble, &mut again);
                    return batch.chunks(1).flat_map(|one| self.send(one)).collect();
                }
                Err(trouble) if trouble.may_pass() && again.has_time() => {
                    self.pause(&trouble, &mut again);
                }
                Err(trouble) => {
                    let error = trouble.into_store("write to", &self.server.place());
                    return batch.iter().map(|_| Err(error.clone())).collect();
                }
            }
        }
    }

    fn pause(&self, trouble: &ServerError, again: &mut ConnectionRetries) {
        self.server.forget_idle();
        if trouble.may_pass() {
            thread::sleep(again.pause());
        }
    }

    fn send_once(&self, batch: &[FlushEntry]) -> Result<Vec<Result<(), StoreError>>, ServerError> {
        let Some(handle) = self.server.runtime() else {
            return Err(ServerError::Silent(0));
        };
        // On this thread: one less to be woken. Only the timers are the runtime's. Unconstrained: a
        // task of another runtime that waits here has a number of polls, and then none is ready.
        let _entered = handle.enter();
        let limit: Duration = self.server.answer();
        block_on(tokio::task::unconstrained(async {
            match tokio::time::timeout(limit, self.put(batch)).await {
                Ok(sent) => sent,
                Err(_) => {
                    // Whichever connection it was, it does not answer.
                    self.line.lock().unwrap_or_else(PoisonError::into_inner).take();
                    Err(ServerError::Silent(limit.as_secs()))
                }
            }
        }))
    }

    async fn line(&self) -> Result<Arc<FlushConnection>, ServerError> {
        let known = self.line.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(line) = known.filter(|line| !line.0.is_closed()) {
            return Ok(line);
        }
        let line = Arc::new(FlushConnection(Object::take(self.server.connection().await?)));
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = Some(line.clone());
        Ok(line)
    }

    /// Drops a connection after an error. Whatever was under way on it is given up: the server ends
    /// the transaction when the connection is gone.
    fn drop_line(&self, failed: &Arc<FlushConnection>) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.as_ref().is_some_and(|line| Arc::ptr_eq(line, failed)) {
            *line = None;
        }
    }

    async fn put(&self, batch: &[FlushEntry]) -> Result<Vec<Result<(), StoreError>>, ServerError> {
        let line = self.line().await?;
        let put = put_flush_on(&line.0, batch).await;
        if !matches!(put, Ok(_) | Err(ServerError::Refused(_))) {
            self.drop_line(&line);
        }
        put
    }
}

/// A connection outside the pool; closed after an error.
#[derive(Debug)]
struct FlushConnection(Client);

async fn put_flush_on(
    client: &Client,
    batch: &[FlushEntry],
) -> Result<Vec<Result<(), StoreError>>, ServerError> {
    let counts = insert_flush_batch(client, batch).await?;
    let mut outcomes = Vec::with_capacity(batch.len());
    for (entry, count) in batch.iter().zip(counts) {
        let whole = count == entry.lines.ends.len() as u64;
        outcomes.push(match whole {
            true => Ok(()),
            // An error of one session says nothing about the others.
            false => match find_flushed_lines(client, entry).await {
                Err(ServerError::Refused(error)) => Err(error),
                there => there?,
            },
        });
    }
    Ok(outcomes)
}

/// As many queued batches as fit into one statement.
fn take_flush_batch(waiting: &mut Vec<FlushEntry>) -> Vec<FlushEntry> {
    let mut bytes = 0;
    let mark = waiting.first().and_then(|entry| entry.mark);
    let fits = waiting.iter().take_while(|entry| {
        bytes += entry.lines.bytes.len();
        bytes <= STATEMENT && entry.mark == mark
    });
    let count = fits.count().max(1).min(waiting.len());
    waiting.drain(..count).collect()
}

/// Inserts a batch; returns how many lines of each entry were inserted.
async fn insert_flush_batch(
    client: &Client,
    batch: &[FlushEntry],
) -> Result<Vec<u64>, ServerError> {
    if let [entry] = batch {
        return insert_flush_entry(client, entry).await.map(|count| vec![count]);
    }
    let rows = || batch.iter().flat_map(|e| e.lines.rows().map(move |row| (e.lease.sid, row)));
    let mine: Vec<i64> = batch.iter().map(|entry| entry.lease.sid).collect();
    let epochs: Vec<i64> =
        batch.iter().map(|entry| lease_epoch_number(entry.lease.epoch)).collect();
    let sids: Vec<i64> = rows().map(|(sid, _)| sid).collect();
    let seqs: Vec<i64> = rows().map(|(_, (seq, _, _))| place(seq.0)).collect();
    let sums: Vec<Vec<u8>> = rows().map(|(_, (_, sum, _))| sum.as_ascii().to_vec()).collect();
    let lines: Vec<&[u8]> = rows().map(|(_, (_, _, line))| line).collect();
    let mark = batch.first().and_then(|entry| entry.mark);
    let statement = client.prepare_cached(&append_many(mark)).await?;
    let mut given: Vec<&(dyn ToSql + Sync)> = vec![&mine, &epochs, &sids, &seqs, &sums, &lines];
    given.extend(mark.as_ref().map(|mark| mark as &(dyn ToSql + Sync)));
    let mut put = HashMap::new();
    for row in client.query(&statement, &given).await? {
        put.insert(row.try_get::<_, i64>(0)?, row.try_get::<_, i64>(1)?);
    }
    let count = |entry: &FlushEntry| put.get(&entry.lease.sid).copied().unwrap_or(0);
    Ok(batch.iter().map(|entry| u64::try_from(count(entry)).unwrap_or(0)).collect())
}

async fn insert_flush_entry(client: &Client, entry: &FlushEntry) -> Result<u64, ServerError> {
    let (sid, epoch) = (entry.lease.sid, lease_epoch_number(entry.lease.epoch));
    let mark = entry.mark.as_ref().map(|mark| mark as &(dyn ToSql + Sync));
    let mut rows = entry.lines.rows();
    if let (Some((seq, sum, line)), None) = (rows.next(), rows.next()) {
        let statement = client.prepare_cached(&append_one(entry.mark)).await?;
        let (sum, seq) = (&sum.as_ascii()[..], place(seq.0));
        let mut given: Vec<&(dyn ToSql + Sync)> = vec![&sid, &epoch, &seq, &sum, &line];
        given.extend(mark);
        return Ok(client.execute(&statement, &given).await?);
    }
    let seqs: Vec<i64> = entry.lines.rows().map(|(seq, _, _)| place(seq.0)).collect();
    let sums: Vec<Vec<u8>> = entry.lines.rows().map(|(_, s, _)| s.as_ascii().to_vec()).collect();
    let lines: Vec<&[u8]> = entry.lines.rows().map(|(_, _, line)| line).collect();
    let statement = client.prepare_cached(&append_some(entry.mark)).await?;
    let mut given: Vec<&(dyn ToSql + Sync)> = vec![&sid, &epoch, &seqs, &sums, &lines];
    given.extend(mark);
    Ok(client.execute(&statement, &given).await?)
}

/// Finds out why lines were not inserted: they are there already, from a statement whose answer was
/// lost, or another writer has the session.
async fn find_flushed_lines(
    client: &Client,
    entry: &FlushEntry,
) -> Result<Result<(), StoreError>, ServerError> {
    let seqs: Vec<i64> = entry.lines.rows().map(|(seq, _, _)| place(seq.0)).collect();
    let sums: Vec<Vec<u8>> = entry.lines.rows().map(|(_, s, _)| s.as_ascii().to_vec()).collect();
    let statement = client.prepare_cached(THERE).await?;
    let row = client.query_one(&statement, &[&entry.lease.sid, &seqs, &sums]).await?;
    let count: i64 = row.try_get(0)?;
    if usize::try_from(count).is_ok_and(|count| count == seqs.len()) {
        return Ok(Ok(()));
    }
    let seen = LeaseStatus::look(client, entry.lease.sid).await?;
    if seen.epoch == lease_epoch_number(entry.lease.epoch) && entry.mark.is_some() {
        return Ok(Err(collected_meanwhile("the store")));
    }
    let by = seen.holder.map_or_else(
        || "a writer that has released it since".to_owned(),
        |holder| holder.to_string(),
    );
    Ok(Err(StoreError::TakenOver { session: entry.session, by }))
}

/// A sequence number as stored in the table.
pub(crate) fn place(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}
