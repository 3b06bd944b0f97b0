//! The events whose data was erased here, in the table `erased`, so that an older bundle or copy does
//! not bring it back after its session was removed.

use std::collections::HashMap;

use abide_model::{Seq, SessionId, StoreError};
use deadpool_postgres::Transaction;
use uuid::Uuid;

use crate::error::ServerError;
use crate::postgres_store::PostgresStore;

/// The sums of the erased events of one session.
pub(crate) type ErasedSums = HashMap<Seq, Vec<u8>>;

impl PostgresStore {
    /// The events of a session that were erased here, also if the session was removed since.
    pub fn erased_events(&self, session: SessionId) -> Result<Vec<Seq>, StoreError> {
        let mut events: Vec<Seq> = self.erased_sums(session)?.into_keys().collect();
        events.sort_unstable();
        Ok(events)
    }

    /// Forgets that events of a session were erased, so that an import brings their data back.
    /// Returns how many.
    pub fn forget_erased(&self, session: SessionId) -> Result<u64, StoreError> {
        let (server, id) = (self.server().clone(), Uuid::from_bytes(*session.as_bytes()));
        self.server().block(async move {
            server
                .ask("forget erasures in", |client| {
                    Box::pin(async move {
                        let sql = "DELETE FROM erased WHERE session = $1";
                        Ok(client.execute(sql, &[&id]).await?)
                    })
                })
                .await
        })
    }

    pub(crate) fn erased_sums(&self, session: SessionId) -> Result<ErasedSums, StoreError> {
        let (server, id) = (self.server().clone(), Uuid::from_bytes(*session.as_bytes()));
        self.server().block(async move {
            server
                .ask("read erasures of", |client| {
                    Box::pin(async move {
                        let sql = "SELECT seq, sum FROM erased WHERE session = $1";
                        let rows = client.query(sql, &[&id]).await?;
                        let each = rows.iter().map(|row| {
                            let seq = u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0);
                            Ok((Seq(seq), row.try_get(1)?))
                        });
                        each.collect()
                    })
                })
                .await
        })
    }
}

/// Records that these events of a session are erased, in the transaction that erases them.
pub(crate) async fn record_erased_rows(
    transaction: &Transaction<'_>,
    sid: i64,
    seqs: &[i64],
) -> Result<(), ServerError> {
    let sql = "INSERT INTO erased (session, seq, sum)
        SELECT session.id, event.seq, event.sum FROM event JOIN session USING (sid)
        WHERE event.sid = $1 AND event.seq = ANY($2)
        ON CONFLICT (session, seq) DO UPDATE SET sum = excluded.sum";
    transaction.execute(sql, &[&sid, &seqs]).await?;
    Ok(())
}
