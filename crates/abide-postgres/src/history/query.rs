//! Queries of the index, in SQL.

use std::collections::BTreeMap;

use abide_model::{
    FileActivity, FileOp, HistoryQuery, Overview, SearchTerm, Seq, SessionId, SessionUsage,
    Timestamp, TurnNumber, Usage, UsageKey, UsageSession,
};
use deadpool_postgres::Object;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::follower::overview_of;
use super::places::storable_place_text;
use super::search_words::PostgresSearch;
use crate::error::ServerError;
use crate::postgres_store::session_id;

/// The most hits counted, newest first, unless all sessions are asked for; older ones are ignored.
/// Otherwise words that occur nearly everywhere would cost as much as they occur.
const RANKED: i64 = 5_000;

/// The answer of the index to a query.
#[derive(Debug, Default)]
pub(super) struct SharedIndexAnswer {
    /// The sessions that match, best first.
    pub(super) sessions: Vec<IndexMatch>,
    /// How many more match.
    pub(super) more: u64,
    /// There were more hits than were counted.
    pub(super) cut: bool,
}

/// A session that matches.
#[derive(Debug)]
pub(super) struct IndexMatch {
    pub(super) sid: i64,
    pub(super) id: SessionId,
    pub(super) short: String,
    pub(super) overview: Overview,
    pub(super) files: u64,
    /// A few hits, newest first.
    pub(super) hits: Vec<i64>,
    pub(super) hit_count: u64,
    pub(super) touched: Vec<FileActivity>,
}

/// Parameters of a statement.
#[derive(Default)]
struct QueryParameters(Vec<Box<dyn ToSql + Sync + Send>>);

impl QueryParameters {
    /// Adds a parameter; returns its placeholder.
    fn put(&mut self, value: impl ToSql + Sync + Send + 'static) -> String {
        self.0.push(Box::new(value));
        format!("${}", self.0.len())
    }

    async fn query(&self, client: &Object, sql: &str) -> Result<Vec<Row>, ServerError> {
        // Planned for these values: the index finds a rare word, and a scan of the newest events
        // finds a frequent one.
        let statement = client.prepare(sql).await?;
        let given: Vec<&(dyn ToSql + Sync)> =
            self.0.iter().map(|value| value.as_ref() as &(dyn ToSql + Sync)).collect();
        Ok(client.query(&statement, &given).await?)
    }
}

/// The sessions that match. `paths` are the matching paths of a query for a file.
pub(super) async fn ask_history_query(
    client: &Object,
    query: &HistoryQuery,
    projects: &[String],
    paths: &[i64],
) -> Result<SharedIndexAnswer, ServerError> {
    let mut values = QueryParameters::default();
    let filter = query_filter(query, projects, paths, &mut values);
    // Without a row there is no count.
    let limit = query.limit.map(|limit| i64::try_from(limit.max(1)).unwrap_or(i64::MAX));
    let sql = match query.is_search() {
        false => list_query(&filter, limit, &mut values),
        true => search_query(query, &filter, limit, &mut values),
    };
    let rows = values.query(client, &sql).await?;
    let mut answer = SharedIndexAnswer::default();
    for row in &rows {
        let all: i64 = row.try_get("total")?;
        answer.more = all.unsigned_abs().saturating_sub(rows.len() as u64);
        answer.cut = row.try_get("cut")?;
        answer.sessions.push(queried_session(row)?);
    }
    if query.limit == Some(0) {
        answer.more += answer.sessions.len() as u64;
        answer.sessions.clear();
    }
    if query.file.is_some() {
        query_touched_files(client, &mut answer, paths).await?;
    }
    Ok(answer)
}

/// The conditions of a query, each with an AND before it.
fn query_filter(
    query: &HistoryQuery,
    projects: &[String],
    paths: &[i64],
    values: &mut QueryParameters,
) -> String {
    let mut sql = String::new();
    let mut and = |condition: String| sql.push_str(&format!(" AND {condition}"));
    if !projects.is_empty() {
        and(format!("session.project = ANY({})", values.put(projects.to_vec())));
    }
    if !query.status.is_empty() {
        let names: Vec<&str> = query.status.iter().map(|status| status.as_str()).collect();
        and(format!("overview.status = ANY({})", values.put(names)));
    }
    if query.maybe_held {
        and("overview.sid IN (SELECT sid FROM lease WHERE NOT at_rest AND holder IS NOT NULL)"
            .to_owned());
    }
    if let Some(agent) = &query.agent {
        let agent = vec![storable_place_text(&agent.to_ascii_lowercase())];
        and(format!("overview.agents @> {}", values.put(agent)));
    }
    if let Some(label) = &query.label {
        and(format!("overview.labels @> {}", values.put(vec![storable_place_text(label)])));
    }
    if let Some(since) = query.since {
        and(format!("overview.updated >= {}", values.put(since.as_millis())));
    }
    if let Some(until) = query.until {
        and(format!("overview.created <= {}", values.put(until.as_millis())));
    }
    if let Some(since) = query.unchanged_since {
        and(format!("overview.updated <= {}", values.put(since.as_millis())));
    }
    if query.file.is_some() {
        let mark = values.put(paths.to_vec());
        and(format!("overview.sid IN (SELECT sid FROM touched WHERE pid = ANY({mark}))"));
    }
    sql
}

/// The details of the sessions in `top`, with the neighbouring short ids.
const TOLD: &str = "SELECT top.*, overview.short, overview.files, overview.outline,
        (SELECT max(near.short) FROM overview AS near WHERE near.short < overview.short) AS before,
        (SELECT min(near.short) FROM overview AS near WHERE near.short > overview.short) AS after
    FROM top JOIN overview USING (sid)";

fn list_query(filter: &str, limit: Option<i64>, values: &mut QueryParameters) -> String {
    let limit = values.put(limit);
    format!(
        "WITH top AS MATERIALIZED (
            SELECT overview.sid, session.id, session.project, overview.updated,
                count(*) OVER () AS total, false AS cut, 0::bigint AS count, '{{}}'::bigint[] AS hits
            FROM overview JOIN session USING (sid) WHERE true {filter}
            ORDER BY overview.updated DESC, session.id DESC LIMIT {limit})
        {TOLD} ORDER BY top.updated DESC, top.id DESC"
    )
}

fn search_query(
    query: &HistoryQuery,
    filter: &str,
    limit: Option<i64>,
    values: &mut QueryParameters,
) -> String {
    let search = query.search.iter().flat_map(|search| search.terms());
    let mut terms: Vec<Vec<SearchTerm>> = search.map(|term| vec![term.clone()]).collect();
    terms.extend(query.trait_terms());
    let wanted = PostgresSearch::of(&terms);
    let words = values.put(wanted.words);
    let mut condition = format!("said.words @@ {words}::text::tsquery");
    if !wanted.patterns.is_empty() {
        let phrases = values.put(wanted.phrases);
        let patterns: Vec<String> = wanted
            .patterns
            .into_iter()
            .map(|any| format!("' ' || said.text || ' ' LIKE ANY({}::text[])", values.put(any)))
            .collect();
        condition.push_str(&format!(
            " AND CASE WHEN said.text IS NULL THEN said.words @@ {phrases}::text::tsquery
                ELSE {} END",
            patterns.join(" AND ")
        ));
    }
    if let Some(since) = query.since {
        condition.push_str(&format!(" AND said.at >= {}", values.put(since.as_millis())));
    }
    if let Some(until) = query.until {
        condition.push_str(&format!(" AND said.at <= {}", values.put(until.as_millis())));
    }
    if !filter.is_empty() {
        condition.push_str(&format!(
            " AND said.sid IN (SELECT overview.sid FROM overview JOIN session USING (sid)
                WHERE true {filter})"
        ));
    }
    let ranked = values.put(limit.map(|_| RANKED));
    let limit = values.put(limit);
    format!(
        "WITH hit AS MATERIALIZED (
            SELECT said.sid, said.seq FROM said WHERE {condition}
            ORDER BY said.sid DESC, said.seq DESC LIMIT {ranked}),
        best AS (
            SELECT sid, count(*) AS count, (array_agg(seq ORDER BY seq DESC))[1:3] AS hits
            FROM hit GROUP BY sid),
        top AS MATERIALIZED (
            SELECT best.sid, session.id, session.project, overview.updated,
                count(*) OVER () AS total,
                coalesce((SELECT count(*) FROM hit) >= {ranked}, false) AS cut,
                best.count, best.hits
            FROM best JOIN overview USING (sid) JOIN session USING (sid)
            ORDER BY best.count DESC, overview.updated DESC, session.id DESC LIMIT {limit})
        {TOLD} ORDER BY top.count DESC, top.updated DESC, top.id DESC"
    )
}

/// The sessions of these projects that have usage, and the usage of all sessions by its ids.
pub(super) async fn ask_usage(
    client: &Object,
    projects: &[String],
) -> Result<(BTreeMap<SessionId, UsageSession>, Vec<SessionUsage>), ServerError> {
    let sql = "SELECT session.id, session.project, overview.outline
        FROM overview JOIN session USING (sid)
        WHERE (cardinality($1::text[]) = 0 OR session.project = ANY($1))
            AND EXISTS (SELECT FROM spent WHERE spent.sid = overview.sid)";
    let statement = client.prepare_cached(sql).await?;
    let mut sessions = BTreeMap::new();
    for row in client.query(&statement, &[&projects]).await? {
        let mut overview = overview_of(row.try_get(2)?)?;
        let project: String = row.try_get(1)?;
        overview.fields.project_id = Some(project).filter(|project| !project.is_empty());
        let name = overview.name();
        let session = UsageSession { name, fields: overview.fields };
        sessions.insert(session_id(row.try_get(0)?), session);
    }
    let sql = "SELECT session.id, spent.id, span, model, input, output, cache_read, cache_write,
            reasoning
        FROM spent JOIN session USING (sid) ORDER BY spent.id";
    let statement = client.prepare_cached(sql).await?;
    let mut usage = Vec::new();
    for row in client.query(&statement, &[]).await? {
        let count =
            |column: usize| Ok::<u64, ServerError>(row.try_get::<_, i64>(column)?.unsigned_abs());
        usage.push(SessionUsage {
            session: session_id(row.try_get(0)?),
            key: UsageKey { id: row.try_get(1)?, span: row.try_get(2)?, model: row.try_get(3)? },
            usage: Usage {
                input_tokens: count(4)?,
                output_tokens: count(5)?,
                cache_read_tokens: count(6)?,
                cache_write_tokens: count(7)?,
                reasoning_tokens: count(8)?,
                cost_micros: 0,
            },
        });
    }
    Ok((sessions, usage))
}

fn queried_session(row: &Row) -> Result<IndexMatch, ServerError> {
    let id = session_id(row.try_get("id")?);
    let files: i64 = row.try_get("files")?;
    let count: i64 = row.try_get("count")?;
    let whole: String = row.try_get("short")?;
    let near: [Option<String>; 2] = [row.try_get("before")?, row.try_get("after")?];
    let shared = |other: &String| {
        other.bytes().zip(whole.bytes()).take_while(|(one, other)| one == other).count()
    };
    let shared = near.iter().flatten().map(shared).max().unwrap_or(0);
    let mut overview = overview_of(row.try_get("outline")?)?;
    // The first event of a session may lack it: the store has it.
    let project: String = row.try_get("project")?;
    overview.fields.project_id = Some(project).filter(|project| !project.is_empty());
    Ok(IndexMatch {
        sid: row.try_get("sid")?,
        id,
        short: id.short((shared + 1).max(SessionId::SHORT)),
        overview,
        files: files.unsigned_abs(),
        hits: row.try_get("hits")?,
        hit_count: count.unsigned_abs(),
        touched: Vec::new(),
    })
}

/// What the sessions did to the paths, latest first.
async fn query_touched_files(
    client: &Object,
    answer: &mut SharedIndexAnswer,
    paths: &[i64],
) -> Result<(), ServerError> {
    let sids: Vec<i64> = answer.sessions.iter().map(|session| session.sid).collect();
    let sql = "SELECT touched.sid, path.path, op, count, seq, touched.turn, agent, at
        FROM touched JOIN path USING (pid)
        LEFT JOIN turn ON turn.sid = touched.sid AND turn.turn = touched.turn
        WHERE touched.sid = ANY($1) AND touched.pid = ANY($2)
        ORDER BY seq DESC, path.path COLLATE \"C\"";
    let statement = client.prepare_cached(sql).await?;
    for row in client.query(&statement, &[&sids, &paths]).await? {
        let sid: i64 = row.try_get(0)?;
        let (count, seq): (i64, i64) = (row.try_get(3)?, row.try_get(4)?);
        let turn: Option<i64> = row.try_get(5)?;
        let touched = FileActivity {
            path: row.try_get(1)?,
            op: queried_file_op(row.try_get(2)?),
            count: count.unsigned_abs(),
            seq: Seq(seq.unsigned_abs()),
            turn: turn.map(|turn| TurnNumber(turn.unsigned_abs())),
            agent: row.try_get(6)?,
            at: Timestamp::from_millis(row.try_get(7)?),
        };
        let of = answer.sessions.iter_mut().find(|session| session.sid == sid);
        of.into_iter().for_each(|session| session.touched.push(touched.clone()));
    }
    Ok(())
}

fn queried_file_op(name: &str) -> FileOp {
    match name {
        "read" => FileOp::Read,
        "delete" => FileOp::Delete,
        "rename" => FileOp::Rename,
        _ => FileOp::Write,
    }
}
