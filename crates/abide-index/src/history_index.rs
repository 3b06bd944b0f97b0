//! The index file: opening, creating, checking.

use std::path::Path;
use std::time::Duration;

use abide_model::Overview;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use crate::schema::{APPLICATION, TABLES, VERSION};
use crate::{IndexError, IndexUpdate};

/// How long to wait for another process that holds the lock.
const BUSY: Duration = Duration::from_secs(5);

/// An open index.
#[derive(Debug)]
pub struct HistoryIndex {
    pub(crate) connection: Connection,
}

/// How far the index has followed a session.
#[derive(Debug, Clone)]
pub struct FollowedSession {
    /// The name of the session's directory.
    pub name: String,
    /// The follower's position, as it stored it.
    pub place: String,
    /// The overview at that position.
    pub overview: Overview,
}

impl HistoryIndex {
    /// Creates the tables in an existing empty file. Nothing is durable before the first
    /// [`HistoryIndex::settle`]; until then the file is not in use.
    pub fn create(path: &Path) -> Result<Self, IndexError> {
        let connection = connect_index(path)?;
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        Self::make(connection)
    }

    /// Opens an existing index.
    pub fn open(path: &Path) -> Result<Self, IndexError> {
        let connection = connect_index(path)?;
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        if pragma("application_id")? != APPLICATION {
            return Err(IndexError::Unusable { reason: "not an abide index".to_owned() });
        }
        let version = pragma("user_version")?;
        if version != VERSION {
            let reason = format!("version {version}, expected {VERSION}");
            return Err(IndexError::Unusable { reason });
        }
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        // The main file changes only in `settle`.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(Self { connection })
    }

    /// An index in memory.
    pub fn in_memory() -> Result<Self, IndexError> {
        Self::make(Connection::open_in_memory()?)
    }

    fn make(connection: Connection) -> Result<Self, IndexError> {
        connection.pragma_update(None, "page_size", 8192)?;
        connection.execute_batch(TABLES)?;
        // Sort larger pieces in memory before they are merged on disk.
        connection
            .execute("INSERT INTO texts (texts, rank) VALUES ('hashsize', ?1)", [64 << 20])?;
        // No merging while the index is built; later updates merge a little at a time.
        connection.execute("INSERT INTO texts (texts, rank) VALUES ('automerge', 0)", [])?;
        connection.pragma_update(None, "application_id", APPLICATION)?;
        connection.pragma_update(None, "user_version", VERSION)?;
        Ok(Self { connection })
    }

    /// Ends the build: from here on pieces are merged as they are added.
    pub fn finish(&self) -> Result<(), IndexError> {
        self.connection.execute("INSERT INTO texts (texts, rank) VALUES ('automerge', 4)", [])?;
        Ok(())
    }

    /// Checkpoints the WAL into the main file and syncs it, as far as concurrent readers allow.
    pub fn settle(&self) -> Result<(), IndexError> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let settled = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        self.connection.busy_timeout(BUSY)?;
        Ok(settled?)
    }

    /// Checks the whole file for damage.
    pub fn check(&self) -> Result<(), IndexError> {
        let told: String =
            self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if told != "ok" {
            return Err(IndexError::Unusable { reason: told });
        }
        self.connection.execute("INSERT INTO texts (texts) VALUES ('integrity-check')", [])?;
        Ok(())
    }

    /// Starts a read transaction: sees one state of the index until [`HistoryIndex::end_look`].
    pub fn begin_look(&self) -> Result<(), IndexError> {
        Ok(self.connection.execute_batch("BEGIN DEFERRED")?)
    }

    /// Ends the transaction of [`HistoryIndex::begin_look`].
    pub fn end_look(&self) -> Result<(), IndexError> {
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    /// Starts a write transaction.
    pub fn update(&mut self) -> Result<IndexUpdate<'_>, IndexError> {
        IndexUpdate::begin(&mut self.connection)
    }

    /// A value that the follower stored under this name.
    pub fn note(&self, name: &str) -> Result<Option<String>, IndexError> {
        let mut find = self.connection.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
        Ok(find.query_row([name], |row| row.get(0)).optional()?)
    }

    /// How far the index has followed this session.
    pub fn followed(&self, name: &str) -> Result<Option<FollowedSession>, IndexError> {
        let mut find = self
            .connection
            .prepare_cached("SELECT place, overview FROM sessions WHERE name = ?1")?;
        let found = find
            .query_row(params![name], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
            .optional()?;
        found
            .map(|(place, overview)| {
                Ok(FollowedSession {
                    name: name.to_owned(),
                    place,
                    overview: overview_of(&overview)?,
                })
            })
            .transpose()
    }

    /// The names of sessions that a writer has open, or died with: they may grow without being
    /// marked as changed.
    pub fn watched(&self) -> Result<Vec<String>, IndexError> {
        self.names("SELECT name FROM sessions WHERE watched ORDER BY row")
    }

    /// The names of all sessions.
    pub fn all(&self) -> Result<Vec<String>, IndexError> {
        self.names("SELECT name FROM sessions ORDER BY name")
    }

    fn names(&self, sql: &str) -> Result<Vec<String>, IndexError> {
        let mut find = self.connection.prepare_cached(sql)?;
        let names = find.query_map([], |row| row.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    }

    /// The whole contents, in a canonical order and form: two indexes of the same sessions compare
    /// equal.
    pub fn dump(&self) -> Result<Vec<String>, IndexError> {
        let mut lines = Vec::new();
        let selects = [
            "SELECT 'session', s.name, id, short, project, workspace, empty, status, created, updated, files, overview, place FROM sessions s",
            "SELECT 'label', s.name, l.name, value FROM labels l JOIN sessions s ON s.row = l.session",
            "SELECT 'agent', s.name, agent FROM agents a JOIN sessions s ON s.row = a.session",
            "SELECT 'turn', s.name, turn, agent, role, t.status, started, ended, tool_calls, decision, reason FROM turns t JOIN sessions s ON s.row = t.session",
            "SELECT 'open', s.name, lane, first, turn FROM open_turns o JOIN sessions s ON s.row = o.session",
            "SELECT 'file', s.name, p.path, op, count, seq, turn, at FROM files f JOIN sessions s ON s.row = f.session JOIN paths p ON p.row = f.path",
            "SELECT 'usage', s.name, u.id, span, model, input, output, cache_read, cache_write, reasoning FROM usage u JOIN sessions s ON s.row = u.session",
            "SELECT 'time', s.name, t.text & 4294967295, at FROM text_times t JOIN sessions s ON s.row = t.text >> 32",
            "SELECT 'word', s.name, v.term, v.doc & 4294967295, v.offset FROM words v JOIN sessions s ON s.row = v.doc >> 32",
        ];
        self.connection.execute_batch(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.words USING fts5vocab(main, texts, instance)",
        )?;
        for select in selects {
            let mut select = self.connection.prepare(select)?;
            let columns = select.column_count();
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                let mut line = String::new();
                for column in 0..columns {
                    line.push_str(&format!("{:?} ", row.get_ref(column)?));
                }
                lines.push(line);
            }
        }
        lines.sort_unstable();
        Ok(lines)
    }
}

pub(crate) fn overview_of(json: &str) -> Result<Overview, IndexError> {
    serde_json::from_str(json).map_err(|error| IndexError::Unusable { reason: error.to_string() })
}

fn connect_index(path: &Path) -> Result<Connection, IndexError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    // The file is untrusted: its schema must not run functions.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -(32 << 10))?;
    Ok(connection)
}
