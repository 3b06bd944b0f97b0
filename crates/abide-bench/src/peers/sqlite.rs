//! Bare SQLite in WAL mode with `synchronous=FULL`: one table, nothing around it.

use std::path::Path;

use rusqlite::Connection;

use crate::Outcome;
use crate::peers::clock::{Appended, Clock};
use crate::peers::work::{Loaded, Peer, Turns};

#[derive(Debug)]
pub(crate) struct Sqlite;

const TABLE: &str = "CREATE TABLE messages (id INTEGER PRIMARY KEY, role TEXT, content TEXT)";
const INSERT: &str = "INSERT INTO messages (role, content) VALUES (?, ?)";
const LAST: &str = "SELECT role, content FROM messages ORDER BY id DESC LIMIT ?";

fn open(dir: &Path) -> Outcome<Connection> {
    let connection = Connection::open(dir.join("messages.db"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

fn texts(connection: &Connection, query: &str, count: i64) -> Outcome<Vec<String>> {
    let mut statement = connection.prepare_cached(query)?;
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

    fn append(&self, dir: &Path, texts: &[String]) -> Outcome<Appended> {
        let connection = open(dir)?;
        connection.execute_batch(TABLE)?;
        let mut insert = connection.prepare(INSERT)?;
        let clock = Clock::start();
        for text in texts {
            insert.execute(["assistant", text.as_str()])?;
        }
        Ok(clock.stop())
    }

    fn load(&self, dir: &Path) -> Outcome<Vec<String>> {
        texts(&open(dir)?, "SELECT role, content FROM messages ORDER BY id LIMIT ?", -1)
    }

    fn last(&self, dir: &Path, count: usize) -> Outcome<Vec<String>> {
        let mut texts = texts(&open(dir)?, LAST, i64::try_from(count)?)?;
        texts.reverse();
        Ok(texts)
    }

    fn build(&self, dir: &Path, all: &[String], _: usize) -> Outcome {
        let mut connection = open(dir)?;
        connection.execute_batch(TABLE)?;
        let transaction = connection.transaction()?;
        for text in all {
            transaction.prepare_cached(INSERT)?.execute(["assistant", text.as_str()])?;
        }
        Ok(transaction.commit()?)
    }

    fn turns(&self, dir: &Path, context: usize) -> Outcome<Box<dyn Turns>> {
        Ok(Box::new(Open { connection: open(dir)?, context: i64::try_from(context)? }))
    }
}

/// A database that takes turns.
struct Open {
    connection: Connection,
    context: i64,
}

impl Turns for Open {
    fn append(&mut self, text: &str) -> Outcome {
        self.connection.prepare_cached(INSERT)?.execute(["assistant", text])?;
        Ok(())
    }

    fn context(&mut self) -> Outcome<Loaded> {
        let mut texts = texts(&self.connection, LAST, self.context)?;
        texts.reverse();
        Ok(Loaded::Texts(texts))
    }
}
