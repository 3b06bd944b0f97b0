//! The lock between those who store objects and those who remove them, on a connection of its own:
//! it ends with the connection, however that ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, SimpleQueryMessage};
use uuid::Uuid;

use crate::error::ServerError;
use crate::server_connection::{ConnectionRetries, ServerConnection};

/// The first half of the lock's key; the second is the table's.
const CLASS: i32 = 0x6162_6f62;

/// Who holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdvisoryMode {
    /// One of many who store objects.
    Shared,
    /// One who removes some.
    Exclusive,
}

/// The lock, held.
#[derive(Debug)]
pub(crate) struct AdvisoryLock {
    client: Client,
    /// How long one answer may take.
    answer: Duration,
    /// The mark at the time it was taken.
    pub(crate) mark: Uuid,
}

impl AdvisoryLock {
    /// Takes the lock of a store, waiting for others who hold it; `None` if they hold it longer
    /// than `wait`. Those who wait are served in their order, so nobody waits for ever.
    pub(crate) async fn take(
        server: &Arc<ServerConnection>,
        mode: AdvisoryMode,
        wait: Duration,
    ) -> Result<Option<Self>, ServerError> {
        let until = Instant::now() + wait;
        let mut again = ConnectionRetries::new(server.patience());
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let limit = left + server.answer();
            let tried = tokio::time::timeout(limit, try_advisory_lock(server, mode, left)).await;
            let trouble = match tried.unwrap_or(Err(ServerError::Silent(limit.as_secs()))) {
                Ok(taken) => return Ok(Some(taken)),
                Err(ServerError::Server(error)) if lock_was_held(&error) => return Ok(None),
                Err(trouble) => trouble,
            };
            if !trouble.may_pass() || !again.has_time() {
                return Err(trouble);
            }
            tokio::time::sleep(again.pause()).await;
        }
    }

    /// Whether the connection is gone, and the lock with it.
    pub(crate) fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    /// Asks something on the connection that holds it: it is done while the lock is held.
    pub(crate) async fn ask(
        &self,
        sql: &str,
        given: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, ServerError> {
        self.within(self.client.query(sql, given)).await
    }

    /// Asks the server, which answers only while the lock is held.
    pub(crate) async fn check(&self) -> Result<(), ServerError> {
        self.within(self.client.simple_query("")).await.map(drop)
    }

    /// A connection that does not answer is not waited for longer than any other.
    async fn within<T>(
        &self,
        asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, ServerError> {
        match tokio::time::timeout(self.answer, asked).await {
            Ok(answered) => Ok(answered?),
            Err(_) => Err(ServerError::Silent(self.answer.as_secs())),
        }
    }
}

fn lock_was_held(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&tokio_postgres::error::SqlState::LOCK_NOT_AVAILABLE)
}

async fn try_advisory_lock(
    server: &ServerConnection,
    mode: AdvisoryMode,
    wait: Duration,
) -> Result<AdvisoryLock, ServerError> {
    let (config, guard) = server.own_line();
    let (client, connection) = config.connect(guard).await?;
    tokio::spawn(async move {
        // Whoever asks next is told how it ended.
        let _ = connection.await;
    });
    let function = match mode {
        AdvisoryMode::Shared => "pg_advisory_lock_shared",
        AdvisoryMode::Exclusive => "pg_advisory_lock",
    };
    // The mark is read by a statement of its own, after the lock was granted.
    let sql = format!(
        "SET statement_timeout = 0; SET lock_timeout = {};
         SELECT {function}({CLASS}, 'collection'::regclass::oid::integer);
         SET lock_timeout = 0; RESET statement_timeout;
         SELECT mark::text, pg_is_in_recovery() FROM collection",
        wait.as_millis().clamp(1, i32::MAX as u128)
    );
    let found =
        client.simple_query(&sql).await?.into_iter().rev().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some((row.get(0)?.parse().ok()?, row.get(1)? == "t")),
            _ => None,
        });
    let answer = server.answer();
    match found {
        Some((_, true)) => Err(server.standby()),
        Some((mark, false)) => Ok(AdvisoryLock { client, answer, mark }),
        None => Err(ServerError::Refused(abide_model::StoreError::Damaged {
            place: server.place(),
            reason: "the table `collection` has no row".to_owned(),
        })),
    }
}
