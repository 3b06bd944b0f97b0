//! Bare SQLite in WAL mode with `synchronous=FULL`: one table, nothing around it.

use std::path::Path;
use std::time::Instant;

use rusqlite::Connection;

use crate::Outcome;
use crate::calibration::millis;
use crate::peers::work::Peer;

#[derive(Debug)]
pub(crate) struct Sqlite;

fn open(dir: &Path) -> Outcome<Connection> {
    let connection = Connection::open(dir.join("messages.db"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

fn texts(dir: &Path, query: &str, count: i64) -> Outcome<Vec<String>> {
    let connection = open(dir)?;
    let mut statement = connection.prepare(query)?;
    let rows = statement.query_map([count], |row| {
        let _role: String = row.get(0)?;
        row.get(1)
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl Peer for Sqlite {
    fn version(&self) -> Option<String> {
        Some(rusqlite::version().to_owned())
    }

    fn append(&self, dir: &Path, texts: &[String]) -> Outcome<f64> {
        let connection = open(dir)?;
        connection.execute_batch(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, role TEXT, content TEXT)",
        )?;
        let mut insert =
            connection.prepare("INSERT INTO messages (role, content) VALUES (?, ?)")?;
        let start = Instant::now();
        for text in texts {
            insert.execute(["assistant", text.as_str()])?;
        }
        Ok(millis(start.elapsed()))
    }

    fn load(&self, dir: &Path) -> Outcome<Vec<String>> {
        texts(dir, "SELECT role, content FROM messages ORDER BY id LIMIT ?", -1)
    }

    fn last(&self, dir: &Path, count: usize) -> Outcome<Vec<String>> {
        let query = "SELECT role, content FROM messages ORDER BY id DESC LIMIT ?";
        let mut texts = texts(dir, query, i64::try_from(count)?)?;
        texts.reverse();
        Ok(texts)
    }
}
