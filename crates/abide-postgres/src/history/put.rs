//! Writes what a range of events adds to the index: all or nothing, and once.

use abide_model::{HistoryDelta, ObjectHash, StoreError, TurnRole};
use deadpool_postgres::{GenericClient, Object, Transaction};
use tokio_postgres::types::ToSql;

use super::places::{head_and_name, storable_place_text};
use super::search_words::text_vector;
use crate::error::ServerError;
use crate::flusher::place;

/// The most tokens of a report that are counted, so that very many can be added.
const MOST_TOKENS: u64 = 1 << 46;

/// What a range of events adds to the index.
#[derive(Debug)]
pub(super) struct SharedIndexUpdate {
    pub(super) sid: i64,
    pub(super) short: String,
    /// Where the index must be; `None` if it has nothing of the session.
    pub(super) from: Option<i64>,
    /// How many events were erased when these were read.
    pub(super) erased: i64,
    /// Where the index is afterwards.
    pub(super) upto: i64,
    pub(super) delta: HistoryDelta,
}

/// How many events of a session, and of those that it continues, were erased here.
pub(super) async fn erased_count(
    client: &impl GenericClient,
    sid: i64,
) -> Result<i64, ServerError> {
    let sql = "WITH RECURSIVE line AS (
            SELECT id, parent FROM session WHERE sid = $1
            UNION SELECT session.id, session.parent FROM session JOIN line ON session.sid = line.parent)
        SELECT count(*) FROM erased JOIN line ON erased.session = line.id";
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query_one(&statement, &[&sid]).await?.try_get(0)?)
}

/// Writes it; `false` if the index is not at `from`: another process was first, or something was
/// erased since the events were read.
pub(super) async fn put_history_update(
    mut client: Object,
    work: &SharedIndexUpdate,
) -> Result<bool, ServerError> {
    let transaction = client.transaction().await?;
    // An erasure holds this row: it is done, or begins after this transaction and clears the index. A
    // writer may not lock the session itself.
    let sql = "SELECT 1 FROM lease WHERE sid = $1 FOR KEY SHARE";
    execute_put(&transaction, sql, &[&work.sid]).await?;
    if erased_count(&transaction, work.sid).await? != work.erased {
        return Ok(false);
    }
    if !put_overview(&transaction, work).await? {
        return Ok(false);
    }
    put_texts(&transaction, work).await?;
    put_turns(&transaction, work).await?;
    put_files(&transaction, work).await?;
    put_usage(&transaction, work).await?;
    transaction.commit().await?;
    Ok(true)
}

async fn execute_put(
    transaction: &Transaction<'_>,
    sql: &str,
    given: &[&(dyn ToSql + Sync)],
) -> Result<u64, ServerError> {
    let statement = transaction.prepare_cached(sql).await?;
    Ok(transaction.execute(&statement, given).await?)
}

/// The row of the session itself, locked until the transaction ends.
async fn put_overview(
    transaction: &Transaction<'_>,
    work: &SharedIndexUpdate,
) -> Result<bool, ServerError> {
    let overview = &work.delta.overview;
    let json = serde_json::to_string(overview).map_err(|error| StoreError::Damaged {
        place: "the overview of a session".to_owned(),
        reason: error.to_string(),
    })?;
    let mut agents: Vec<String> = work
        .delta
        .agents
        .iter()
        .map(|agent| storable_place_text(&agent.to_ascii_lowercase()))
        .collect();
    agents.sort_unstable();
    agents.dedup();
    let mut labels = Vec::new();
    // A label whose name contains `=` cannot be searched for.
    for (name, value) in overview.fields.labels.iter().filter(|(name, _)| !name.contains('=')) {
        labels.push(storable_place_text(name));
        labels.push(storable_place_text(&format!("{name}={value}")));
    }
    let status = overview.status.as_str();
    let (created, updated) = (overview.created.as_millis(), overview.updated.as_millis());
    let given: [&(dyn ToSql + Sync); 9] =
        [&work.sid, &work.upto, &work.short, &status, &created, &updated, &agents, &labels, &json];
    let Some(from) = work.from else {
        let sql = "INSERT INTO overview
                (sid, indexed, short, status, created, updated, agents, labels, outline)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING";
        return Ok(execute_put(transaction, sql, &given).await? == 1);
    };
    let sql = "UPDATE overview SET indexed = $2, short = $3, status = $4, created = $5,
            updated = $6, labels = $8, outline = $9,
            agents = CASE WHEN agents @> $7 THEN agents
                ELSE ARRAY(SELECT DISTINCT agent COLLATE \"C\" FROM unnest(agents || $7) AS agent
                    ORDER BY 1) END
        WHERE sid = $1 AND indexed = $10";
    let mut given = given.to_vec();
    given.push(&from);
    Ok(execute_put(transaction, sql, &given).await? == 1)
}

async fn put_texts(
    transaction: &Transaction<'_>,
    work: &SharedIndexUpdate,
) -> Result<(), ServerError> {
    let texts = &work.delta.texts;
    if texts.is_empty() {
        return Ok(());
    }
    let seqs: Vec<i64> = texts.iter().map(|text| place(text.seq.0)).collect();
    let turns: Vec<Option<i64>> =
        texts.iter().map(|text| text.turn.map(|turn| place(turn.0))).collect();
    let (words, whole): (Vec<String>, Vec<Option<String>>) = texts.iter().map(text_vector).unzip();
    let times: Vec<i64> = texts.iter().map(|text| text.at.as_millis()).collect();
    let sql = "INSERT INTO said (sid, seq, turn, words, text, at)
        SELECT $1, seq, turn, words::tsvector, text, at
        FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[])
            AS given (seq, turn, words, text, at)";
    execute_put(transaction, sql, &[&work.sid, &seqs, &turns, &words, &whole, &times]).await?;
    Ok(())
}

async fn put_usage(
    transaction: &Transaction<'_>,
    work: &SharedIndexUpdate,
) -> Result<(), ServerError> {
    for (key, usage) in &work.delta.usage {
        let (id, model) = (storable_place_text(&key.id), storable_place_text(&key.model));
        let counts = [
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
        ];
        let [input, output, read, written, reasoning] =
            counts.map(|count| place(count.min(MOST_TOKENS)));
        let sql = "INSERT INTO spent AS old
                (sid, id, span, model, input, output, cache_read, cache_write, reasoning)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
            ON CONFLICT (sid, id, span, model) DO UPDATE SET
                input = old.input + excluded.input, output = old.output + excluded.output,
                cache_read = old.cache_read + excluded.cache_read,
                cache_write = old.cache_write + excluded.cache_write,
                reasoning = old.reasoning + excluded.reasoning";
        let given: [&(dyn ToSql + Sync); 9] =
            [&work.sid, &id, &key.span, &model, &input, &output, &read, &written, &reasoning];
        execute_put(transaction, sql, &given).await?;
    }
    Ok(())
}

async fn put_turns(
    transaction: &Transaction<'_>,
    work: &SharedIndexUpdate,
) -> Result<(), ServerError> {
    for (turn, change) in &work.delta.turns {
        let turn = place(turn.0);
        if let Some(started) = &change.started {
            let role = match started.role {
                TurnRole::Agent => "agent",
                TurnRole::Arbiter => "arbiter",
            };
            let sql = "INSERT INTO turn (sid, turn, agent, role, started)
                VALUES ($1, $2, $3, $4, $5) ON CONFLICT (sid, turn) DO UPDATE SET
                    agent = $3, role = $4, started = $5, status = '', ended = NULL,
                    tool_calls = 0, decision = NULL, reason = NULL";
            let agent = storable_place_text(&started.agent);
            let at = started.at.as_millis();
            execute_put(transaction, sql, &[&work.sid, &turn, &agent, &role, &at]).await?;
        }
        if let Some((decision, reason)) = &change.decided {
            let sql = "UPDATE turn SET decision = $3, reason = $4 WHERE sid = $1 AND turn = $2";
            let decision = decision.as_deref().map(storable_place_text);
            let reason = reason.as_deref().map(storable_place_text);
            execute_put(transaction, sql, &[&work.sid, &turn, &decision, &reason]).await?;
        }
        if let Some((at, status)) = &change.finished {
            let sql = "UPDATE turn SET ended = $3, status = $4 WHERE sid = $1 AND turn = $2";
            let (at, status) = (at.as_millis(), storable_place_text(status));
            execute_put(transaction, sql, &[&work.sid, &turn, &at, &status]).await?;
        }
        if change.tool_calls > 0 {
            let sql = "UPDATE turn SET tool_calls = tool_calls + $3 WHERE sid = $1 AND turn = $2";
            let calls = place(change.tool_calls);
            execute_put(transaction, sql, &[&work.sid, &turn, &calls]).await?;
        }
    }
    Ok(())
}

async fn put_files(
    transaction: &Transaction<'_>,
    work: &SharedIndexUpdate,
) -> Result<(), ServerError> {
    let files = &work.delta.files;
    if files.is_empty() {
        return Ok(());
    }
    let hash = |path: &str| ObjectHash::of(path.as_bytes()).as_bytes().to_vec();
    let mut paths: Vec<(Vec<u8>, &str)> =
        files.keys().map(|(path, _)| (hash(path), path.as_str())).collect();
    // In a fixed order, so that two processes that insert the same paths do not deadlock.
    paths.sort_unstable();
    paths.dedup();
    let hashes: Vec<&[u8]> = paths.iter().map(|(hash, _)| hash.as_slice()).collect();
    let whole: Vec<String> = paths.iter().map(|(_, path)| storable_place_text(path)).collect();
    let (heads, names): (Vec<String>, Vec<String>) =
        whole.iter().map(|path| head_and_name(path)).unzip();
    let sql = "INSERT INTO path (hash, path, head, name)
        SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[])
        ON CONFLICT (hash) DO NOTHING";
    execute_put(transaction, sql, &[&hashes, &whole, &heads, &names]).await?;
    let hashes: Vec<Vec<u8>> = files.keys().map(|(path, _)| hash(path)).collect();
    let ops: Vec<&str> = files.keys().map(|(_, op)| op.as_str()).collect();
    let counts: Vec<i64> = files.values().map(|file| place(file.count)).collect();
    let seqs: Vec<i64> = files.values().map(|file| place(file.seq.0)).collect();
    let turns: Vec<Option<i64>> =
        files.values().map(|file| file.turn.map(|turn| place(turn.0))).collect();
    let times: Vec<i64> = files.values().map(|file| file.at.as_millis()).collect();
    let sql = "INSERT INTO touched (sid, pid, op, count, seq, turn, at)
        SELECT $1, path.pid, given.op, given.count, given.seq, given.turn, given.at
        FROM unnest($2::bytea[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
            AS given (hash, op, count, seq, turn, at) JOIN path ON path.hash = given.hash
        ON CONFLICT (sid, pid, op) DO UPDATE SET count = touched.count + excluded.count,
            seq = excluded.seq, turn = excluded.turn, at = excluded.at";
    let given: [&(dyn ToSql + Sync); 7] =
        [&work.sid, &hashes, &ops, &counts, &seqs, &turns, &times];
    execute_put(transaction, sql, &given).await?;
    let sql = "UPDATE overview SET files = (SELECT count(DISTINCT pid) FROM touched
            WHERE sid = $1 AND op <> 'read') WHERE sid = $1";
    execute_put(transaction, sql, &[&work.sid]).await?;
    Ok(())
}
