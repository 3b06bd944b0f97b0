//! Erasing payloads in a copy of a session whose original was erased.
//!
//! Lines keep their heads and their sums, as in a store of files. What is derived from the session,
//! and from those that share its events, goes with them and is made anew. Objects stay: nobody can
//! tell here what else names them.

use std::sync::Arc;
use std::time::Duration;

use abide_journal::{Body, Line};
use abide_model::{Fact, Seq, SessionId, StoreError};
use deadpool_postgres::{Object, Transaction};

use crate::error::Trouble;
use crate::flush::place;
use crate::lease;
use crate::store::PostgresStore;

/// What is derived from events.
const DERIVED: [&str; 6] = ["snapshot", "page", "said", "turn", "touched", "overview"];

/// What was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ErasedRows {
    /// Payloads.
    pub payloads: u64,
    /// The objects that they named, which stay: payloads, and snapshots with the files they lead to.
    pub objects: u64,
}

impl PostgresStore {
    /// Erases the data of these events, all of the session's own. A writer is waited for so long.
    pub fn erase_payloads(
        &self,
        session: SessionId,
        seqs: &[Seq],
        wait: Duration,
    ) -> Result<ErasedRows, StoreError> {
        let reader = self.reader(session)?;
        let (server, env) = (self.server().clone(), self.options().env.clone());
        let (take_over, sid) = (self.options().take_over, reader.known.sid);
        let seqs: Arc<Vec<i64>> = Arc::new(seqs.iter().map(|seq| place(seq.0)).collect());
        self.server().block(async move {
            let held = lease::acquire(&server, &env, (session, sid), wait, take_over).await?;
            let epoch = lease::number(held.epoch);
            let done = server
                .ask_much("erase in", |client| {
                    let seqs = seqs.clone();
                    Box::pin(async move { erase(client, (session, sid), epoch, &seqs).await })
                })
                .await;
            let released = lease::release(&server, held).await;
            let done = done?;
            released.map(|()| done)
        })
    }
}

async fn erase(
    mut client: Object,
    (session, sid): (SessionId, i64),
    epoch: i64,
    seqs: &[i64],
) -> Result<ErasedRows, Trouble> {
    let transaction = client.transaction().await?;
    let sql = "SELECT 1 FROM lease WHERE sid = $1 AND epoch = $2 FOR UPDATE";
    if transaction.query_opt(sql, &[&sid, &epoch]).await?.is_none() {
        let by = "another writer".to_owned();
        return Err(StoreError::TakenOver { session, by }.into());
    }
    let sql = "SELECT seq, line FROM event WHERE sid = $1 AND seq = ANY($2)";
    let mut done = ErasedRows::default();
    let (mut places, mut lines) = (Vec::new(), Vec::new());
    for row in transaction.query(sql, &[&sid, &seqs]).await? {
        let (seq, raw): (i64, Vec<u8>) = (row.try_get(0)?, row.try_get(1)?);
        let refused = |reason: String| StoreError::Damaged {
            place: format!("event {seq} of session {session}"),
            reason,
        };
        let line = Line::read(&raw).map_err(|error| refused(error.to_string()))?;
        if matches!(line.body(), Body::Erased { .. }) {
            continue;
        }
        if is_needed(&line) {
            let reason = "it says how the session is to be read, and cannot be erased";
            return Err(refused(reason.to_owned()).into());
        }
        done.payloads += 1;
        done.objects += line.objects().len() as u64 + u64::from(names_snapshot(&line));
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
    forget(&transaction, sid).await?;
    transaction.commit().await?;
    Ok(done)
}

/// Is it a checkpoint with files?
fn names_snapshot(line: &Line<'_>) -> bool {
    match line.event().map(|event| event.fact()) {
        Some(Ok(Fact::Checkpoint(checkpoint))) => checkpoint.snapshot.is_some(),
        _ => false,
    }
}

/// Would the session be another one without it?
fn is_needed(line: &Line<'_>) -> bool {
    let fork = || match line.event().map(|event| event.fact()) {
        Some(Ok(Fact::SessionCreated(created))) => created.fields.parent.is_some(),
        _ => false,
    };
    line.head().is_none_or(|head| head.kind.is_structural()) || fork()
}

/// Removes what is derived from a session and from those that were forked from it.
async fn forget(transaction: &Transaction<'_>, sid: i64) -> Result<(), Trouble> {
    let sql = "WITH RECURSIVE heirs AS (
            SELECT $1::bigint AS sid
            UNION SELECT session.sid FROM session JOIN heirs ON session.parent = heirs.sid)
        SELECT sid FROM heirs";
    let rows = transaction.query(sql, &[&sid]).await?;
    let heirs: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let sql = "SELECT DISTINCT pid FROM touched WHERE sid = ANY($1)";
    let rows = transaction.query(sql, &[&heirs]).await?;
    let paths: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    for table in DERIVED {
        let sql = format!("DELETE FROM {table} WHERE sid = ANY($1)");
        transaction.execute(&sql, &[&heirs]).await?;
    }
    let sql = "DELETE FROM path WHERE pid = ANY($1)
        AND NOT EXISTS (SELECT FROM touched WHERE touched.pid = path.pid)";
    transaction.execute(sql, &[&paths]).await?;
    let sql = "UPDATE lease SET at_rest = false WHERE sid = ANY($1)";
    transaction.execute(sql, &[&heirs]).await?;
    Ok(())
}
