//! Erases payloads in the rows of a session.
//!
//! Lines keep their heads and their sums, as in a store of files. What is derived from the session,
//! and from sessions that share its events, is deleted and rebuilt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use abide_journal::{JournalLine, LinePayload};
use abide_maintain::PendingErasure;
use abide_model::{Fact, SessionId, StoreError};
use deadpool_postgres::{Object, Transaction};
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::erased_record::record_erased_rows;
use crate::error::ServerError;
use crate::flusher::place;
use crate::lease;
use crate::postgres_store::{PostgresStore, session_id};

/// Tables derived from events.
const DERIVED: [&str; 7] = ["snapshot", "page", "said", "turn", "touched", "spent", "overview"];

impl PostgresStore {
    /// Erases the data of the events of an erasure, all of which must be the session's own, and
    /// records the erasure. Waits up to `wait` for a writer of the session or of a fork, which
    /// would write back what it remembers. Returns how many payloads were erased.
    pub(crate) fn erase_rows(
        &self,
        pending: &PendingErasure,
        id: Uuid,
        wait: Duration,
    ) -> Result<u64, StoreError> {
        let session = pending.session;
        let reader = self.reader(session)?;
        let (server, env) = (self.server().clone(), self.options().env.clone());
        let (take_over, sid) = (self.options().take_over, reader.known.sid);
        let family = family_of(self, sid)?;
        let pending = Arc::new(pending.clone());
        self.server().block(async move {
            let mut held = Vec::new();
            let until = Instant::now().checked_add(wait);
            let done = async {
                for one in family {
                    let left = |until: Instant| until.saturating_duration_since(Instant::now());
                    let left = until.map_or(wait, left);
                    held.push(lease::acquire_lease(&server, &env, one, left, take_over).await?);
                }
                let epochs =
                    held.iter().map(|held| (held.sid, lease::lease_epoch_number(held.epoch)));
                let held: Arc<(Vec<i64>, Vec<i64>)> = Arc::new(epochs.unzip());
                server
                    .ask_much("erase in", |client| {
                        let (held, pending) = (held.clone(), pending.clone());
                        Box::pin(async move {
                            carry_out_erasure(client, (session, sid), &held, (id, &pending)).await
                        })
                    })
                    .await
            };
            let done = done.await;
            let mut released = Ok(());
            for lease in held {
                released = lease::release_lease(&server, lease).await.and(released);
            }
            let done = done?;
            released.map(|()| done)
        })
    }
}

/// A session and its forks.
const FAMILY: &str = "WITH RECURSIVE family AS (
        SELECT $1::bigint AS sid
        UNION SELECT session.sid FROM session JOIN family ON session.parent = family.sid)
    SELECT session.id, session.sid FROM session JOIN family USING (sid) ORDER BY session.sid";

/// A session and its forks.
pub(crate) fn family_of(
    store: &PostgresStore,
    sid: i64,
) -> Result<Vec<(SessionId, i64)>, StoreError> {
    let server = store.server().clone();
    store.server().block(async move {
        server
            .ask("erase in", |client| {
                Box::pin(async move { erasure_family(&client.query(FAMILY, &[&sid]).await?) })
            })
            .await
    })
}

fn erasure_family(rows: &[Row]) -> Result<Vec<(SessionId, i64)>, ServerError> {
    let one = |row: &Row| Ok((session_id(row.try_get::<_, Uuid>(0)?), row.try_get(1)?));
    rows.iter().map(one).collect()
}

async fn carry_out_erasure(
    mut client: Object,
    (session, sid): (SessionId, i64),
    (sids, epochs): &(Vec<i64>, Vec<i64>),
    (id, pending): (Uuid, &PendingErasure),
) -> Result<u64, ServerError> {
    let transaction = client.transaction().await?;
    let taken_over = |by: &str| StoreError::TakenOver { session, by: by.to_owned() };
    let sql = "SELECT 1 FROM lease
        JOIN unnest($1::bigint[], $2::bigint[]) AS held (sid, epoch)
            ON lease.sid = held.sid AND lease.epoch = held.epoch
        ORDER BY lease.sid FOR UPDATE OF lease";
    if transaction.query(sql, &[sids, epochs]).await?.len() != sids.len() {
        return Err(taken_over("another writer").into());
    }
    // Making a fork references one of these rows, so it waits from here on.
    let sql = "SELECT 1 FROM session WHERE sid = ANY($1) ORDER BY sid FOR UPDATE";
    transaction.query(sql, &[sids]).await?;
    let family = erasure_family(&transaction.query(FAMILY, &[&sid]).await?)?;
    if family.iter().any(|(_, sid)| !sids.contains(sid)) {
        return Err(StoreError::Storage {
            action: "erase in",
            place: format!("session {session}"),
            source: Arc::new(std::io::Error::other("a fork was just made; try again")),
        }
        .into());
    }
    // In this transaction: it is recorded if and only if it has begun.
    let sql = "INSERT INTO erasure (id, plan) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";
    transaction.execute(sql, &[&id, &Json(pending)]).await?;
    let sql = "SELECT seq, line FROM event WHERE sid = $1 AND seq = ANY($2)";
    let seqs: Vec<i64> = pending.events.iter().map(|seq| place(seq.0)).collect();
    let (mut places, mut lines) = (Vec::new(), Vec::new());
    for row in transaction.query(sql, &[&sid, &seqs]).await? {
        let (seq, raw): (i64, Vec<u8>) = (row.try_get(0)?, row.try_get(1)?);
        let refused = |reason: String| StoreError::Damaged {
            place: format!("event {seq} of session {session}"),
            reason,
        };
        let line = JournalLine::read(&raw).map_err(|error| refused(error.to_string()))?;
        if matches!(line.body(), LinePayload::Erased { .. }) {
            continue;
        }
        if erasure_is_refused(&line) {
            let reason = "it is needed to read the session and cannot be erased";
            return Err(refused(reason.to_owned()).into());
        }
        let mut erased = line.erased();
        // A row has no line break.
        erased.pop();
        places.push(seq);
        lines.push(erased);
    }
    let sql = "UPDATE event SET line = given.line
        FROM unnest($2::bigint[], $3::bytea[]) AS given (seq, line)
        WHERE event.sid = $1 AND event.seq = given.seq";
    transaction.execute(sql, &[&sid, &places, &lines]).await?;
    // What a repair has set aside may hold the same.
    let sql = "UPDATE quarantine SET sum = '', line = '' WHERE sid = $1";
    transaction.execute(sql, &[&sid]).await?;
    record_erased_rows(&transaction, sid, &seqs).await?;
    forget_derived_rows(&transaction, sids).await?;
    transaction.commit().await?;
    Ok(places.len() as u64)
}

/// Whether the session could not be read without it.
fn erasure_is_refused(line: &JournalLine<'_>) -> bool {
    let fork = || match line.event().map(|event| event.fact()) {
        Some(Ok(Fact::SessionCreated(created))) => created.fields.parent.is_some(),
        _ => false,
    };
    line.head().is_none_or(|head| head.kind.is_structural()) || fork()
}

/// Deletes what is derived from these sessions.
pub(crate) async fn forget_derived_rows(
    transaction: &Transaction<'_>,
    sids: &[i64],
) -> Result<(), ServerError> {
    let sql = "SELECT DISTINCT pid FROM touched WHERE sid = ANY($1)";
    let rows = transaction.query(sql, &[&sids]).await?;
    let paths: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    for table in DERIVED {
        let sql = format!("DELETE FROM {table} WHERE sid = ANY($1)");
        transaction.execute(&sql, &[&sids]).await?;
    }
    let sql = "DELETE FROM path WHERE pid = ANY($1)
        AND NOT EXISTS (SELECT FROM touched WHERE touched.pid = path.pid)";
    transaction.execute(sql, &[&paths]).await?;
    let sql = "UPDATE lease SET at_rest = false WHERE sid = ANY($1)";
    transaction.execute(sql, &[&sids]).await?;
    Ok(())
}
