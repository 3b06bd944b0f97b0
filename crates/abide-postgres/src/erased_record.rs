//! The events whose data was erased here, in the table `erased`, so that an older bundle or copy does
//! not bring it back after its session was removed.

use std::collections::HashSet;

use abide_journal::Sum;
use abide_model::{Seq, SessionId, StoreError};
use deadpool_postgres::Transaction;
use uuid::Uuid;

use crate::error::ServerError;
use crate::flusher::place;
use crate::postgres_store::PostgresStore;

impl PostgresStore {
    /// Whether events of a session were erased here, also if it was removed since.
    pub fn has_erased(&self, session: SessionId) -> Result<bool, StoreError> {
        Ok(!self.erased_of(session)?.is_empty())
    }

    /// The erased events of a session, with their sums.
    pub(crate) fn erased_of(
        &self,
        session: SessionId,
    ) -> Result<HashSet<(Seq, Vec<u8>)>, StoreError> {
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

    /// Forgets that these events of a session were erased: an import has brought them back.
    pub(crate) fn forget_erased(
        &self,
        session: SessionId,
        events: &[(Seq, Sum)],
    ) -> Result<(), StoreError> {
        let (server, id) = (self.server().clone(), Uuid::from_bytes(*session.as_bytes()));
        let (seqs, sums): (Vec<i64>, Vec<Vec<u8>>) =
            events.iter().map(|(seq, sum)| (place(seq.0), sum.as_ascii().to_vec())).unzip();
        self.server().block(async move {
            server
                .ask("forget erasures in", |client| {
                    let (seqs, sums) = (seqs.clone(), sums.clone());
                    Box::pin(async move {
                        let sql = "DELETE FROM erased
                            USING unnest($2::bigint[], $3::bytea[]) AS given (seq, sum)
                            WHERE session = $1 AND erased.seq = given.seq AND erased.sum = given.sum";
                        client.execute(sql, &[&id, &seqs, &sums]).await?;
                        Ok(())
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
        ON CONFLICT DO NOTHING";
    transaction.execute(sql, &[&sid, &seqs]).await?;
    Ok(())
}
