//! Deletes a session on request.

use abide_journal::Environment;
use abide_model::{DeleteError, SessionId, StoreError};
use deadpool_postgres::Object;
use uuid::Uuid;

use crate::error::ServerError;
use crate::lease::LeaseStatus;
use crate::postgres_store::{PostgresStore, session_id};

/// Why a session cannot be deleted.
enum DeletionBlocker {
    Forked(SessionId),
    Held(Box<abide_model::WriterHolder>),
}

impl PostgresStore {
    /// Deletes a session for good, with everything derived from it. Refused while a writer has it
    /// or while it has a fork.
    pub fn delete_session(&self, session: SessionId) -> Result<(), DeleteError> {
        let reader = self.reader(session)?;
        let env = self.options().env.clone();
        let (server, sid) = (self.server().clone(), reader.known.sid);
        let kept = self.server().block(async move {
            server
                .ask_much("delete a session of", |client| {
                    let env = env.clone();
                    Box::pin(async move { delete_session_rows(client, sid, &env).await })
                })
                .await
        })?;
        match kept {
            None => Ok(()),
            Some(DeletionBlocker::Forked(fork)) => Err(DeleteError::Forked { session, fork }),
            Some(DeletionBlocker::Held(holder)) => Err(StoreError::Held { session, holder }.into()),
        }
    }
}

async fn delete_session_rows(
    mut client: Object,
    sid: i64,
    env: &Environment,
) -> Result<Option<DeletionBlocker>, ServerError> {
    let lease = LeaseStatus::look(&client, sid).await;
    let transaction = client.transaction().await?;
    // No writer comes in between: an append and a takeover both wait for this row.
    let sql =
        "SELECT coalesce(until > clock_timestamp(), false) FROM lease WHERE sid = $1 FOR UPDATE";
    let Some(row) = transaction.query_opt(sql, &[&sid]).await? else { return Ok(None) };
    let gone = lease.as_ref().is_ok_and(|seen| seen.is_left_behind(env));
    if row.try_get::<_, bool>(0)? && !gone {
        let holder = lease.ok().and_then(|seen| seen.holder).unwrap_or_default();
        return Ok(Some(DeletionBlocker::Held(Box::new(holder))));
    }
    let fork = "SELECT id FROM session WHERE parent = $1 LIMIT 1";
    if let Some(row) = transaction.query_opt(fork, &[&sid]).await? {
        return Ok(Some(DeletionBlocker::Forked(session_id(row.try_get::<_, Uuid>(0)?))));
    }
    for table in ["event", "lease", "session"] {
        let sql = format!("DELETE FROM {table} WHERE sid = $1");
        transaction.execute(&sql, &[&sid]).await?;
    }
    transaction.commit().await?;
    Ok(None)
}
