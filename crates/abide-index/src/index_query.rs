//! Queries.

use std::collections::HashSet;

use abide_model::{
    FileActivity, FileOp, HistoryQuery, Overview, Seq, SessionId, Timestamp, TurnEntry, TurnNumber,
    TurnRole,
};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, params, params_from_iter};

use crate::history_index::overview_of;
use crate::{HistoryIndex, IndexError};

/// The result of a query.
#[derive(Debug, Default)]
pub struct IndexAnswer {
    /// The matching sessions, best first.
    pub sessions: Vec<IndexedSession>,
    /// How many more sessions match.
    pub more: u64,
    /// There were more hits than were ranked.
    pub cut: bool,
}

/// A matching session.
#[derive(Debug)]
pub struct IndexedSession {
    /// The name of its directory.
    pub name: String,
    /// Its id.
    pub id: SessionId,
    /// Its short id.
    pub short: String,
    /// Its overview.
    pub overview: Overview,
    /// How many files it changed.
    pub files: u64,
    /// A few events that match, best first.
    pub hits: Vec<Seq>,
    /// How many events match.
    pub hit_count: u64,
    /// What it did to the files asked for.
    pub touched: Vec<FileActivity>,
}

/// The turn of an event, and its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HitTurn {
    /// The turn.
    pub turn: TurnNumber,
    /// Its agent.
    pub agent: Option<String>,
}

impl HistoryIndex {
    /// The matching sessions of these projects, or of all if none is named.
    pub fn query_history(
        &self,
        query: &HistoryQuery,
        projects: &[String],
    ) -> Result<IndexAnswer, IndexError> {
        let limit = query.limit.unwrap_or(usize::MAX);
        if let Some(wanted) = &query.file {
            self.fill_query_paths(wanted)?;
        }
        let (filter, values) = query_filter(query, projects);
        let mut answer = if query.is_search() {
            let allowed =
                if filter.is_empty() { None } else { Some(self.query_rows(&filter, &values)?) };
            self.query_matches(query, projects, allowed, limit)?
        } else {
            self.query_list(query, &filter, &values, limit)?
        };
        if query.file.is_some() {
            for session in &mut answer.sessions {
                session.touched = self.query_file_activity(&session.name)?;
            }
        }
        Ok(answer)
    }

    /// The newest non-empty session of these projects with this workspace.
    pub fn query_latest_session(
        &self,
        projects: &[String],
        workspace: Option<&str>,
    ) -> Result<Option<SessionId>, IndexError> {
        let ask = |project: Option<&String>| -> Result<Option<String>, IndexError> {
            let mut sql = "SELECT MAX(id) FROM sessions WHERE empty = 0".to_owned();
            if project.is_some() {
                sql.push_str(" AND project = ?");
            }
            if workspace.is_some() {
                sql.push_str(" AND workspace = ?");
            }
            let values = project.map(String::as_str).into_iter().chain(workspace);
            let mut find = self.connection.prepare_cached(&sql)?;
            Ok(find.query_row(params_from_iter(values), |row| row.get(0))?)
        };
        let mut newest = if projects.is_empty() { ask(None)? } else { None };
        for project in projects {
            newest = newest.max(ask(Some(project))?);
        }
        Ok(newest.and_then(|id| id.parse().ok()))
    }

    /// The sessions of these projects, newest first.
    pub fn query_project_sessions(
        &self,
        projects: &[String],
    ) -> Result<Vec<SessionId>, IndexError> {
        let (filter, values) = query_filter(&HistoryQuery::default(), projects);
        let mut find =
            self.connection.prepare_cached(&format!("SELECT id FROM sessions {filter}"))?;
        let mut rows = find.query(params_from_iter(values.iter()))?;
        let mut sessions: Vec<SessionId> = Vec::new();
        while let Some(row) = rows.next()? {
            sessions.extend(row.get::<_, String>(0)?.parse::<SessionId>());
        }
        sessions.sort_unstable_by(|a, b| b.cmp(a));
        Ok(sessions)
    }

    fn query_list(
        &self,
        query: &HistoryQuery,
        filter: &str,
        values: &[Value],
        limit: usize,
    ) -> Result<IndexAnswer, IndexError> {
        let mut find = self.connection.prepare_cached(&list_sql(query, filter))?;
        let limit_value = Value::Integer(i64::try_from(limit).unwrap_or(-1));
        let all = values.iter().cloned().chain([limit_value]);
        let mut rows = find.query(params_from_iter(all))?;
        let mut answer = IndexAnswer::default();
        while let Some(row) = rows.next()? {
            answer.sessions.extend(self.queried_session(row)?);
        }
        if answer.sessions.len() >= limit {
            let sql = format!("SELECT COUNT(*) FROM sessions {filter}");
            let count: i64 = self
                .connection
                .prepare_cached(&sql)?
                .query_row(params_from_iter(values.iter()), |row| row.get(0))?;
            answer.more = count.unsigned_abs().saturating_sub(answer.sessions.len() as u64);
        }
        Ok(answer)
    }

    fn query_rows(&self, filter: &str, values: &[Value]) -> Result<HashSet<i64>, IndexError> {
        let mut find =
            self.connection.prepare_cached(&format!("SELECT row FROM sessions {filter}"))?;
        let rows = find.query_map(params_from_iter(values.iter()), |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(crate) fn queried_session(
        &self,
        row: &Row<'_>,
    ) -> Result<Option<IndexedSession>, IndexError> {
        let name: String = row.get(0)?;
        let id: String = row.get(1)?;
        let overview: String = row.get(2)?;
        let files: i64 = row.get(3)?;
        // A session whose first event is lost has no id.
        let Ok(id) = id.parse::<SessionId>() else { return Ok(None) };
        Ok(Some(IndexedSession {
            name,
            id,
            short: self.query_short_id(id)?,
            overview: overview_of(&overview)?,
            files: files.unsigned_abs(),
            hits: Vec::new(),
            hit_count: 0,
            touched: Vec::new(),
        }))
    }

    /// The shortest prefix of the short id that no other session shares.
    fn query_short_id(&self, id: SessionId) -> Result<String, IndexError> {
        let whole = id.short(12);
        let mut neighbours = self.connection.prepare_cached(
            "SELECT (SELECT MAX(short) FROM sessions WHERE short < ?1),
                    (SELECT MIN(short) FROM sessions WHERE short > ?1)",
        )?;
        let (before, after): (Option<String>, Option<String>) =
            neighbours.query_row([&whole], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let shared = |other: &String| {
            other.bytes().zip(whole.bytes()).take_while(|(one, other)| one == other).count()
        };
        let shared = before.iter().chain(after.iter()).map(shared).max().unwrap_or(0);
        Ok(id.short((shared + 1).max(SessionId::SHORT)))
    }

    /// Fills the temporary table `wanted` with the matching paths.
    fn fill_query_paths(&self, wanted: &str) -> Result<(), IndexError> {
        self.connection.execute_batch(
            "CREATE TEMP TABLE IF NOT EXISTS wanted (path INTEGER PRIMARY KEY); DELETE FROM wanted",
        )?;
        let mut all = self.connection.prepare_cached("SELECT row, path FROM paths")?;
        let mut put = self.connection.prepare_cached("INSERT INTO wanted (path) VALUES (?1)")?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            let path = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
            if HistoryQuery::fits_file(wanted, path) {
                put.execute([row.get::<_, i64>(0)?])?;
            }
        }
        Ok(())
    }

    /// What a session did to the wanted paths, last first.
    fn query_file_activity(&self, session: &str) -> Result<Vec<FileActivity>, IndexError> {
        let mut find = self.connection.prepare_cached(
            "SELECT p.path, f.op, f.count, f.seq, f.turn, t.agent, f.at
             FROM sessions s JOIN files f ON f.session = s.row JOIN paths p ON p.row = f.path
             LEFT JOIN turns t ON t.session = s.row AND t.turn = f.turn
             WHERE s.name = ?1 AND f.path IN (SELECT path FROM wanted)
             ORDER BY f.seq DESC, p.path",
        )?;
        let touched = find.query_map([session], |row| {
            Ok(FileActivity {
                path: row.get(0)?,
                op: queried_file_op(&row.get::<_, String>(1)?),
                count: query_count(row, 2)?,
                seq: Seq(query_count(row, 3)?),
                turn: row.get::<_, Option<i64>>(4)?.map(|turn| TurnNumber(turn.unsigned_abs())),
                agent: row.get(5)?,
                at: Timestamp::from_millis(row.get(6)?),
            })
        })?;
        Ok(touched.collect::<Result<_, _>>()?)
    }

    /// The turn that an event of a lane belongs to, and its agent. `named` is the turn that the
    /// event itself names.
    pub fn query_turn_at(
        &self,
        session: &str,
        lane: &str,
        seq: Seq,
        named: Option<TurnNumber>,
    ) -> Result<Option<HitTurn>, IndexError> {
        let seq = i64::try_from(seq.0).unwrap_or(i64::MAX);
        let named = named.map(|turn| i64::try_from(turn.0).unwrap_or(i64::MAX));
        let mut find = self.connection.prepare_cached(
            "SELECT IFNULL(?4, (SELECT turn FROM open_turns
                                WHERE session = s.row AND lane = ?2 AND first <= ?3
                                ORDER BY first DESC LIMIT 1)) AS open, agent
             FROM sessions s LEFT JOIN turns t ON t.session = s.row AND t.turn = open
             WHERE s.name = ?1",
        )?;
        let hit = find.query_row(params![session, lane, seq, named], |row| {
            let turn: Option<i64> = row.get(0)?;
            let agent: Option<String> = row.get(1)?;
            Ok(turn.map(|turn| HitTurn {
                turn: TurnNumber(turn.unsigned_abs()),
                agent: agent.filter(|agent| !agent.is_empty()),
            }))
        });
        Ok(hit.optional()?.flatten())
    }

    /// The turns of a session, in order.
    pub fn query_turns(&self, session: &str) -> Result<Vec<TurnEntry>, IndexError> {
        let mut find = self.connection.prepare_cached(
            "SELECT turn, agent, role, t.status, started, ended, tool_calls, decision, reason
             FROM turns t JOIN sessions s ON s.row = t.session WHERE s.name = ?1 ORDER BY turn",
        )?;
        let turns = find.query_map([session], |row| {
            let role: String = row.get(2)?;
            Ok(TurnEntry {
                turn: TurnNumber(query_count(row, 0)?),
                agent: row.get(1)?,
                role: if role == "arbiter" { TurnRole::Arbiter } else { TurnRole::Agent },
                status: row.get(3)?,
                started: Timestamp::from_millis(row.get(4)?),
                ended: row.get::<_, Option<i64>>(5)?.map(Timestamp::from_millis),
                tool_calls: query_count(row, 6)?,
                decision: row.get(7)?,
                reason: row.get(8)?,
            })
        })?;
        Ok(turns.collect::<Result<_, _>>()?)
    }
}

pub(crate) fn query_count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

fn queried_file_op(name: &str) -> FileOp {
    match name {
        "read" => FileOp::Read,
        "delete" => FileOp::Delete,
        "rename" => FileOp::Rename,
        _ => FileOp::Write,
    }
}

/// The query's filters as SQL, with the values to bind.
pub(crate) fn query_filter(query: &HistoryQuery, projects: &[String]) -> (String, Vec<Value>) {
    let mut parts: Vec<String> = Vec::new();
    let mut values = Vec::new();
    if !projects.is_empty() {
        let marks = vec!["?"; projects.len()].join(", ");
        parts.push(format!("project IN ({marks})"));
        values.extend(projects.iter().map(|project| Value::Text(project.clone())));
    }
    if !query.status.is_empty() {
        let marks = vec!["?"; query.status.len()].join(", ");
        parts.push(format!("status IN ({marks})"));
        values.extend(query.status.iter().map(|s| Value::Text(s.as_str().to_owned())));
    }
    if query.maybe_held {
        parts.push("watched".to_owned());
    }
    if let Some(agent) = &query.agent {
        parts.push("row IN (SELECT session FROM agents WHERE agent = ?)".to_owned());
        values.push(Value::Text(agent.clone()));
    }
    if let Some(label) = &query.label {
        let (name, value) = match label.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (label.as_str(), None),
        };
        let also = if value.is_some() { " AND value = ?" } else { "" };
        parts.push(format!("row IN (SELECT session FROM labels WHERE name = ?{also})"));
        values.push(Value::Text(name.to_owned()));
        values.extend(value.map(|value| Value::Text(value.to_owned())));
    }
    if let Some(since) = query.since {
        parts.push("updated >= ?".to_owned());
        values.push(Value::Integer(since.as_millis()));
    }
    if let Some(until) = query.until {
        parts.push("created <= ?".to_owned());
        values.push(Value::Integer(until.as_millis()));
    }
    if let Some(since) = query.unchanged_since {
        parts.push("updated <= ?".to_owned());
        values.push(Value::Integer(since.as_millis()));
    }
    if query.file.is_some() {
        let touched = "row IN (SELECT session FROM files WHERE path IN (SELECT path FROM wanted))";
        parts.push(touched.to_owned());
    }
    if parts.is_empty() {
        return (String::new(), values);
    }
    (format!("WHERE {}", parts.join(" AND ")), values)
}

/// The sessions that the filter of a query leaves, the latest activity first.
fn list_sql(query: &HistoryQuery, filter: &str) -> String {
    // Those that a process may have open are few: they are sorted. By the index of times they would be
    // looked for in every row.
    let order = match query.maybe_held {
        true => "+updated DESC, +row DESC",
        false => "updated DESC, row DESC",
    };
    // Rows are selected first: if the index gives no order, only the keys are sorted.
    format!(
        "SELECT name, id, overview, files FROM
             (SELECT row AS top FROM sessions {filter} ORDER BY {order} LIMIT ?)
             CROSS JOIN sessions ON row = top
         ORDER BY updated DESC, row DESC"
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::schema::TABLES;

    /// How SQLite finds the rows of a list.
    fn plan(query: &HistoryQuery) -> String {
        let (filter, _) = query_filter(query, &[]);
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(TABLES).unwrap();
        let explained = format!("EXPLAIN QUERY PLAN {}", list_sql(query, &filter));
        let mut plan = connection.prepare(&explained).unwrap();
        let steps = plan.query_map([100], |row| row.get::<_, String>(3)).unwrap();
        steps.map(Result::unwrap).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn no_list_looks_at_every_row() {
        let all = plan(&HistoryQuery::default());
        assert!(all.contains("USING COVERING INDEX sessions_by_update"), "{all}");
        let watched = plan(&HistoryQuery { maybe_held: true, ..HistoryQuery::default() });
        assert!(watched.contains("USING INDEX sessions_watched"), "{watched}");
    }
}
