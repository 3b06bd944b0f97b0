//! The tables, made and changed in numbered steps, each of which runs once.

use abide_model::StoreError;
use deadpool_postgres::Object;

use crate::error::ServerError;

/// The steps, in order. A released step is never edited: a change is another step.
const STEPS: &[(&str, &str)] = &[
    ("sessions", include_str!("../migrations/0001_sessions.sql")),
    ("history", include_str!("../migrations/0002_history.sql")),
    ("names", include_str!("../migrations/0003_names.sql")),
    ("states", include_str!("../migrations/0004_states.sql")),
    ("erased", include_str!("../migrations/0005_erased.sql")),
    ("collections", include_str!("../migrations/0006_collections.sql")),
    ("quarantine", include_str!("../migrations/0007_quarantine.sql")),
    ("finding", include_str!("../migrations/0008_finding.sql")),
];

/// The version of the tables that this program knows.
pub const SCHEMA_VERSION: i32 = STEPS.len() as i32;

/// The advisory lock held while tables are changed, so that one of many processes does it.
const LOCK: i64 = 0x6162_6964_6500_0001;

/// The result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigratedVersions {
    /// The version before; 0 if there were no tables.
    pub from: i32,
    /// The version now.
    pub to: i32,
}

/// Migrates the tables to this program's version.
pub(crate) async fn migrate(
    client: &mut Object,
    schema: &str,
) -> Result<MigratedVersions, ServerError> {
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    let name = quoted(schema);
    // Checked first: a user who may not make schemas may still use an existing one.
    let there = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    if transaction.query_opt(there, &[&schema]).await?.is_none() {
        transaction.batch_execute(&format!("CREATE SCHEMA {name}")).await?;
    }
    transaction.batch_execute(&format!("SET LOCAL search_path = {name}")).await?;
    // A step may take as long as it needs.
    transaction.batch_execute("SET LOCAL statement_timeout = 0").await?;
    // Checked first as well: a user who may only write finds everything made.
    let there = "SELECT to_regclass($1) IS NOT NULL";
    let table = format!("{name}.migration");
    if !transaction.query_one(there, &[&table]).await?.try_get::<_, bool>(0)? {
        transaction
            .batch_execute(
                "CREATE TABLE migration (
                    version integer PRIMARY KEY, name text NOT NULL,
                    applied timestamptz NOT NULL DEFAULT now())",
            )
            .await?;
    }
    let row = transaction.query_one("SELECT coalesce(max(version), 0) FROM migration", &[]).await?;
    let from: i32 = row.try_get(0)?;
    if from > SCHEMA_VERSION {
        return Err(newer_migration_error(&format!("the schema {schema}"), from).into());
    }
    let missing = STEPS.iter().zip(1..).filter(|(_, version)| *version > from);
    for ((step, sql), version) in missing {
        transaction.batch_execute(sql).await?;
        let note = "INSERT INTO migration (version, name) VALUES ($1, $2)";
        transaction.execute(note, &[&version, step]).await?;
    }
    transaction.commit().await?;
    Ok(MigratedVersions { from, to: SCHEMA_VERSION })
}

/// The version of the existing tables; `None` if there are none.
pub(crate) async fn migrated_version(
    client: &Object,
    schema: &str,
) -> Result<Option<i32>, ServerError> {
    let there = "SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'migration'";
    if client.query_opt(there, &[&schema]).await?.is_none() {
        return Ok(None);
    }
    let sql = format!("SELECT coalesce(max(version), 0) FROM {}.migration", quoted(schema));
    Ok(Some(client.query_one(&sql, &[]).await?.try_get(0)?))
}

/// The error for tables of a newer program.
pub(crate) fn newer_migration_error(place: &str, found: i32) -> StoreError {
    let (found, known) = (migration_number(found), migration_number(SCHEMA_VERSION));
    StoreError::NewerVersion { place: place.to_owned(), found, known }
}

/// The error for tables of an older program.
pub(crate) fn older_migration_error(place: &str, found: i32) -> StoreError {
    let (found, known) = (migration_number(found), migration_number(SCHEMA_VERSION));
    StoreError::OlderVersion { place: place.to_owned(), found, known }
}

fn migration_number(version: i32) -> u64 {
    u64::try_from(version).unwrap_or(0)
}

/// A name quoted for SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
