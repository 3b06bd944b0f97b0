//! Deletes a session, on request or in a cleanup: all of it in one transaction, or nothing.
//!
//! The transaction holds the session's lease, so that no writer comes in between: an append and a
//! takeover both wait for that row. A fork that is made meanwhile refers to the row of its parent:
//! either it is there first, and the parent stays, or it finds no parent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abide_journal::Environment;
use abide_model::{DeleteError, Seq, SessionId, StoreError, WriterHolder};
use deadpool_postgres::Object;
use uuid::Uuid;

use crate::error::{ServerError, is_reference_error};
use crate::flusher::place;
use crate::lease::LeaseStatus;
use crate::postgres_store::{PostgresStore, session_id};

/// How often a deletion begins again because a fork was made beside it.
const TRIES: usize = 3;

/// What became of a session that was to be deleted.
#[derive(Debug)]
pub(crate) enum SessionDeletion {
    /// It is deleted.
    Done,
    /// It was gone already.
    Gone,
    /// It stays: another session is a fork of it.
    Forked(SessionId),
    /// It stays: a writer has it.
    Held(Box<WriterHolder>),
    /// It stays: it has more events than it had.
    Used,
}

impl PostgresStore {
    /// Deletes a session for good, with everything derived from it. Refused while a writer has it
    /// or while it has a fork.
    pub fn delete_session(&self, session: SessionId) -> Result<(), DeleteError> {
        let sid = self.reader(session)?.known.sid;
        match self.delete_rows(sid, None)? {
            SessionDeletion::Done | SessionDeletion::Gone | SessionDeletion::Used => Ok(()),
            SessionDeletion::Forked(fork) => Err(DeleteError::Forked { session, fork }),
            SessionDeletion::Held(holder) => Err(StoreError::Held { session, holder }.into()),
        }
    }

    /// Deletes the rows of a session. With `last`, only if that is still its last event.
    pub(crate) fn delete_rows(
        &self,
        sid: i64,
        last: Option<Seq>,
    ) -> Result<SessionDeletion, StoreError> {
        let (server, env) = (self.server().clone(), self.options().env.clone());
        // Whether a deletion was sent whose answer may have been lost.
        let sent = Arc::new(AtomicBool::new(false));
        self.server().block(async move {
            server
                .ask_much("delete a session of", |client| {
                    let (env, sent) = (env.clone(), sent.clone());
                    Box::pin(
                        async move { delete_session_rows(client, (sid, last), &env, &sent).await },
                    )
                })
                .await
        })
    }
}

async fn delete_session_rows(
    mut client: Object,
    (sid, last): (i64, Option<Seq>),
    env: &Environment,
    sent: &AtomicBool,
) -> Result<SessionDeletion, ServerError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match try_session_rows(&mut client, (sid, last), env, sent).await {
            // A fork was made since it was looked for; it is found now.
            Err(ServerError::Server(error)) if is_reference_error(&error) && tries < TRIES => {}
            done => return done,
        }
    }
}

async fn try_session_rows(
    client: &mut Object,
    (sid, last): (i64, Option<Seq>),
    env: &Environment,
    sent: &AtomicBool,
) -> Result<SessionDeletion, ServerError> {
    let transaction = client.transaction().await?;
    let Some(seen) = LeaseStatus::look_and_lock(&transaction, sid).await? else {
        let ours = sent.load(Ordering::Relaxed);
        return Ok(if ours { SessionDeletion::Done } else { SessionDeletion::Gone });
    };
    if seen.is_held(env) {
        return Ok(SessionDeletion::Held(Box::new(seen.holder.unwrap_or_default())));
    }
    let fork = "SELECT id FROM session WHERE parent = $1 LIMIT 1";
    if let Some(row) = transaction.query_opt(fork, &[&sid]).await? {
        return Ok(SessionDeletion::Forked(session_id(row.try_get::<_, Uuid>(0)?)));
    }
    if let Some(last) = last {
        let sql = "SELECT coalesce(max(seq), 0) FROM event WHERE sid = $1";
        let now: i64 = transaction.query_one(sql, &[&sid]).await?.try_get(0)?;
        if now != place(last.0) {
            return Ok(SessionDeletion::Used);
        }
    }
    // However large it is.
    transaction.batch_execute("SET LOCAL statement_timeout = 0").await?;
    for table in ["event", "lease", "session"] {
        let sql = format!("DELETE FROM {table} WHERE sid = $1");
        transaction.execute(&sql, &[&sid]).await?;
    }
    sent.store(true, Ordering::Relaxed);
    transaction.commit().await?;
    Ok(SessionDeletion::Done)
}
