//! A change to the index, all or nothing.

use abide_model::{FileDelta, FileOp, HistoryDelta, TurnDelta, TurnRole};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::IndexError;
use crate::schema::{project_word, text_number};

/// A write transaction. It has no effect until it is committed.
#[derive(Debug)]
pub struct IndexUpdate<'a> {
    transaction: Transaction<'a>,
}

impl<'a> IndexUpdate<'a> {
    pub(crate) fn begin(connection: &'a mut Connection) -> Result<Self, IndexError> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        Ok(Self { transaction })
    }

    /// Adds what a range of events brings, up to this position of the follower.
    pub fn put(&mut self, delta: &HistoryDelta, place: &str) -> Result<(), IndexError> {
        if delta.restart {
            self.forget(&delta.name)?;
        }
        let row = self.row(delta, place)?;
        self.texts(row, delta)?;
        self.usage(row, delta)?;
        for (turn, change) in &delta.turns {
            self.turn(row, turn.0, change)?;
        }
        let mut open = self.transaction.prepare_cached(
            "INSERT OR REPLACE INTO open_turns (session, lane, first, turn) VALUES (?1, ?2, ?3, ?4)",
        )?;
        for (lane, first, turn) in &delta.open_turns {
            let turn = turn.map(|turn| update_number(turn.0));
            open.execute(params![row, lane, update_number(first.0), turn])?;
        }
        for ((path, op), change) in &delta.files {
            self.file(row, path, *op, change)?;
        }
        let mut agent = self
            .transaction
            .prepare_cached("INSERT OR IGNORE INTO agents (session, agent) VALUES (?1, ?2)")?;
        for name in &delta.agents {
            agent.execute(params![row, name])?;
        }
        // A rewind may have removed one.
        self.transaction.prepare_cached("DELETE FROM labels WHERE session = ?1")?.execute([row])?;
        let mut label = self.transaction.prepare_cached(
            "INSERT OR REPLACE INTO labels (session, name, value) VALUES (?1, ?2, ?3)",
        )?;
        for (name, value) in &delta.overview.fields.labels {
            label.execute(params![row, name, value])?;
        }
        if !delta.files.is_empty() {
            self.transaction
                .prepare_cached(
                    "UPDATE sessions SET files = (SELECT COUNT(DISTINCT path) FROM files
                     WHERE session = ?1 AND op <> 'read') WHERE row = ?1",
                )?
                .execute([row])?;
        }
        Ok(())
    }

    /// Removes a session. Its texts stay until the index is rebuilt, but nothing leads to them.
    pub fn forget(&mut self, name: &str) -> Result<(), IndexError> {
        let row: Option<i64> = self
            .transaction
            .prepare_cached("SELECT row FROM sessions WHERE name = ?1")?
            .query_row([name], |row| row.get(0))
            .optional()?;
        if let Some(row) = row {
            for sql in [
                "DELETE FROM labels WHERE session = ?1",
                "DELETE FROM agents WHERE session = ?1",
                "DELETE FROM turns WHERE session = ?1",
                "DELETE FROM open_turns WHERE session = ?1",
                "DELETE FROM files WHERE session = ?1",
                "DELETE FROM usage WHERE session = ?1",
                "DELETE FROM sessions WHERE row = ?1",
            ] {
                self.transaction.prepare_cached(sql)?.execute([row])?;
            }
            if let (Some(first), Some(after)) = (text_number(row, 0), text_number(row + 1, 0)) {
                self.transaction
                    .prepare_cached("DELETE FROM text_times WHERE text >= ?1 AND text < ?2")?
                    .execute([first, after])?;
            }
        }
        Ok(())
    }

    /// Marks that no writer has this session open: it need not be checked again until it is marked
    /// as changed.
    pub fn let_rest(&mut self, name: &str) -> Result<(), IndexError> {
        self.transaction
            .prepare_cached("UPDATE sessions SET watched = 0 WHERE name = ?1")?
            .execute([name])?;
        Ok(())
    }

    /// Stores a value for the follower under this name.
    pub fn note(&mut self, name: &str, value: &str) -> Result<(), IndexError> {
        self.transaction
            .prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?
            .execute([name, value])?;
        Ok(())
    }

    /// Commits the transaction.
    pub fn commit(self) -> Result<(), IndexError> {
        Ok(self.transaction.commit()?)
    }

    /// Writes the session's row and returns its number.
    fn row(&self, delta: &HistoryDelta, place: &str) -> Result<i64, IndexError> {
        let overview = &delta.overview;
        let json = serde_json::to_string(overview)
            .map_err(|error| IndexError::Unusable { reason: error.to_string() })?;
        let id = overview.id.map(|id| id.to_string()).unwrap_or_default();
        let short = overview.id.map(|id| id.short(12)).unwrap_or_default();
        let mut put = self.transaction.prepare_cached(
            "INSERT INTO sessions
                 (name, id, short, status, created, updated, watched, files, overview, place,
                  project, workspace, empty)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?10, ?11, ?12)
             ON CONFLICT (name) DO UPDATE SET
                 id = ?2, short = ?3, status = ?4, created = ?5, updated = ?6, watched = ?7,
                 overview = ?8, place = ?9, project = ?10, workspace = ?11, empty = ?12
             RETURNING row",
        )?;
        let row = put.query_row(
            params![
                delta.name,
                id,
                short,
                overview.status.as_str(),
                overview.created.as_millis(),
                overview.updated.as_millis(),
                overview.writing,
                json,
                place,
                overview.fields.project_id.as_deref().unwrap_or_default(),
                overview.fields.workspace.as_deref().unwrap_or_default(),
                overview.empty
            ],
            |row| row.get(0),
        )?;
        Ok(row)
    }

    fn texts(&self, row: i64, delta: &HistoryDelta) -> Result<(), IndexError> {
        let mut put = self.transaction.prepare_cached(
            "INSERT INTO texts (rowid, text, parts, traits) VALUES (?1, ?2, ?3, ?4)",
        )?;
        let mut time = self
            .transaction
            .prepare_cached("INSERT OR REPLACE INTO text_times (text, at) VALUES (?1, ?2)")?;
        let project = delta.overview.fields.project_id.as_deref().map(project_word);
        for text in &delta.texts {
            if let Some(number) = text_number(row, text.seq.0) {
                let traits = match &project {
                    Some(project) => format!("{project} {}", text.traits),
                    None => text.traits.clone(),
                };
                put.execute(params![number, text.words, text.parts, traits])?;
                time.execute(params![number, text.at.as_millis()])?;
            }
        }
        Ok(())
    }

    fn usage(&self, session: i64, delta: &HistoryDelta) -> Result<(), IndexError> {
        let mut put = self.transaction.prepare_cached(
            "INSERT INTO usage
                 (id, session, span, model, input, output, cache_read, cache_write, reasoning)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT DO UPDATE SET
                 input = input + ?5, output = output + ?6,
                 cache_read = cache_read + ?7,
                 cache_write = cache_write + ?8, reasoning = reasoning + ?9",
        )?;
        for (key, usage) in &delta.usage {
            put.execute(params![
                key.id,
                session,
                key.span,
                key.model,
                usage_number(usage.input_tokens),
                usage_number(usage.output_tokens),
                usage_number(usage.cache_read_tokens),
                usage_number(usage.cache_write_tokens),
                usage_number(usage.reasoning_tokens)
            ])?;
        }
        Ok(())
    }

    fn turn(&self, session: i64, turn: u64, change: &TurnDelta) -> Result<(), IndexError> {
        let turn = i64::try_from(turn).unwrap_or(i64::MAX);
        if let Some(started) = &change.started {
            let role = match started.role {
                TurnRole::Agent => "agent",
                TurnRole::Arbiter => "arbiter",
            };
            self.transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO turns
                         (session, turn, agent, role, status, started, tool_calls)
                     VALUES (?1, ?2, ?3, ?4, '', ?5, 0)",
                )?
                .execute(params![session, turn, started.agent, role, started.at.as_millis()])?;
        }
        if let Some((decision, reason)) = &change.decided {
            self.transaction
                .prepare_cached(
                    "UPDATE turns SET decision = ?3, reason = ?4 WHERE session = ?1 AND turn = ?2",
                )?
                .execute(params![session, turn, decision, reason])?;
        }
        if let Some((at, status)) = &change.finished {
            self.transaction
                .prepare_cached(
                    "UPDATE turns SET ended = ?3, status = ?4
                     WHERE session = ?1 AND turn = ?2",
                )?
                .execute(params![session, turn, at.as_millis(), status])?;
        }
        if change.tool_calls > 0 {
            self.transaction
                .prepare_cached(
                    "UPDATE turns SET tool_calls = tool_calls + ?3
                     WHERE session = ?1 AND turn = ?2",
                )?
                .execute(params![session, turn, update_number(change.tool_calls)])?;
        }
        Ok(())
    }

    fn file(
        &self,
        session: i64,
        path: &str,
        op: FileOp,
        change: &FileDelta,
    ) -> Result<(), IndexError> {
        self.transaction
            .prepare_cached("INSERT OR IGNORE INTO paths (path) VALUES (?1)")?
            .execute([path])?;
        self.transaction
            .prepare_cached(
                "INSERT INTO files (path, session, op, count, seq, turn, at)
                 VALUES ((SELECT row FROM paths WHERE path = ?1), ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT DO UPDATE SET
                     count = count + ?4, seq = ?5, turn = ?6, at = ?7",
            )?
            .execute(params![
                path,
                session,
                op.as_str(),
                update_number(change.count),
                update_number(change.seq.0),
                change.turn.map(|turn| update_number(turn.0)),
                change.at.as_millis()
            ])?;
        Ok(())
    }
}

fn update_number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count of tokens, bounded so that a hundred thousand of them can be added.
fn usage_number(count: u64) -> i64 {
    const MOST: u64 = 1 << 46;
    i64::try_from(count.min(MOST)).unwrap_or(i64::MAX)
}
