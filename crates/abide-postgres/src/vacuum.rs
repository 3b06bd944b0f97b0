//! Takes erased rows out of the files of the tables: a row that was changed or deleted stays there
//! until then.

use std::time::{Duration, Instant};

use abide_model::StoreError;
use tokio_postgres::Client;

use crate::error::ServerError;
use crate::postgres_store::PostgresStore;

/// Tables that hold what was recorded, or what is derived from it.
const TABLES: [&str; 11] = [
    "event",
    "object",
    "snapshot",
    "page",
    "said",
    "turn",
    "touched",
    "spent",
    "overview",
    "path",
    "quarantine",
];
/// A table up to this size is written anew, without the bytes between its rows. Nobody reads or
/// writes it meanwhile, so a larger one is only cleared of the rows.
const REWRITTEN: i64 = 256 << 20;
/// How long to wait for a table that others use, before it is only cleared of rows.
const LOCK: Duration = Duration::from_secs(5);
/// How long to wait for queries that may still see what was erased.
const QUERIES: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

impl PostgresStore {
    /// Removes what was erased from the files of the tables. Returns notes on what stays in them.
    pub(crate) fn vacuum(&self) -> Result<Vec<String>, StoreError> {
        let server = self.server().clone();
        self.server().block(async move {
            let done = async {
                let (config, guard) = server.own_line();
                let (client, connection) = config.connect(guard).await?;
                tokio::spawn(async move {
                    let _ = connection.await;
                });
                vacuum_tables(&client).await
            };
            done.await.map_err(|trouble| trouble.into_store("vacuum", &server.place()))
        })
    }
}

async fn vacuum_tables(client: &Client) -> Result<Vec<String>, ServerError> {
    let mut notes = Vec::new();
    client.batch_execute("SET statement_timeout = 0").await?;
    let sql = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'event'::regclass";
    if !client.query_one(sql, &[]).await?.try_get::<_, bool>(0)? {
        notes.push(
            "the erased rows stay in the files of the database until they are vacuumed: \
             this user may not (`VACUUM FULL` by the owner of the tables)"
                .to_owned(),
        );
        return Ok(notes);
    }
    wait_for_queries(client, &mut notes).await?;
    let mut partly = Vec::new();
    for table in TABLES {
        let sql = "SELECT pg_total_relation_size($1::text::regclass)";
        let size: i64 = client.query_one(sql, &[&table]).await?.try_get(0)?;
        let whole = size <= REWRITTEN && rewrite_table(client, table).await?;
        if !whole {
            client.batch_execute(&format!("VACUUM {table}")).await?;
            partly.push(table);
        }
    }
    if !partly.is_empty() {
        notes.push(format!(
            "the rows are gone; unused parts of the files of {} may hold their bytes until they are \
             overwritten (`VACUUM FULL` writes the files anew)",
            partly.join(", ")
        ));
    }
    Ok(notes)
}

/// Writes a table anew; `false` if others use it all the time.
async fn rewrite_table(client: &Client, table: &str) -> Result<bool, ServerError> {
    client.batch_execute(&format!("SET lock_timeout = {}", LOCK.as_millis())).await?;
    let done = client.batch_execute(&format!("VACUUM (FULL) {table}")).await;
    client.batch_execute("SET lock_timeout = 0").await?;
    match done {
        Ok(()) => Ok(true),
        Err(error)
            if error.code() == Some(&tokio_postgres::error::SqlState::LOCK_NOT_AVAILABLE) =>
        {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits for transactions that are open now and may still see what was erased. Every user sees their
/// locks, while others' queries are shown to few. One that writes to another database of the server
/// counts too: no snapshot that is taken while it runs lets older rows go, that of the vacuum included.
async fn wait_for_queries(client: &Client, notes: &mut Vec<String>) -> Result<(), ServerError> {
    let sql = "SELECT coalesce(array_agg(locked.virtualtransaction), '{}')
        FROM pg_locks AS locked JOIN pg_stat_activity AS process USING (pid)
        WHERE locked.granted AND pid <> pg_backend_pid()
            AND (locked.locktype = 'virtualxid' AND process.datname = current_database()
                OR locked.locktype = 'transactionid' AND locked.mode = 'ExclusiveLock')";
    let open: Vec<String> = client.query_one(sql, &[]).await?.try_get(0)?;
    let until = Instant::now() + QUERIES;
    let note = "a transaction that began before the erasure still runs, in this or another database, so \
                that some erased rows may stay in the files of the database until the next `VACUUM`";
    loop {
        let sql = "SELECT count(*) FROM pg_locks
            WHERE locktype = 'virtualxid' AND granted AND virtualtransaction = ANY($1)";
        if client.query_one(sql, &[&open]).await?.try_get::<_, i64>(0)? == 0 {
            break;
        }
        if Instant::now() >= until {
            notes.push(note.to_owned());
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    let sql = "SELECT count(*) FROM pg_prepared_xacts";
    if client.query_one(sql, &[]).await?.try_get::<_, i64>(0)? > 0 {
        notes.push(note.replace(
            "a transaction that began before the erasure still runs, in this or another database",
            "a prepared transaction is open",
        ));
    }
    Ok(())
}
