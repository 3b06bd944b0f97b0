//! The rows of an agent's SQLite database. The database is copied first, with its log: it may be in
//! use, and reading it in place would write to its log's index.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, params};
use tempfile::TempDir;

use crate::ImportFilesError;

/// A private copy of a database, removed with the last one who uses it.
#[derive(Debug)]
pub(crate) struct DatabaseCopy {
    /// The database that was copied.
    path: PathBuf,
    copy: PathBuf,
    _dir: TempDir,
}

impl DatabaseCopy {
    /// Copies a database with its log.
    pub(crate) fn of(path: &Path) -> Result<Self, ImportFilesError> {
        let dir = tempfile::tempdir().map_err(ImportFilesError::write(&std::env::temp_dir()))?;
        let copy = dir.path().join("copy.db");
        for ending in ["", "-wal"] {
            let mut from = path.as_os_str().to_owned();
            from.push(ending);
            let mut to = copy.as_os_str().to_owned();
            to.push(ending);
            match fs::copy(&from, &to) {
                Ok(_) => {}
                Err(error)
                    if error.kind() == std::io::ErrorKind::NotFound && !ending.is_empty() => {}
                Err(error) => return Err(ImportFilesError::read(path)(error)),
            }
        }
        Ok(Self { path: path.to_owned(), copy, _dir: dir })
    }

    fn open(&self) -> Result<Connection, ImportFilesError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(&self.copy, flags)
            .map_err(ImportFilesError::database(&self.path))
    }
}

/// The ids of the sessions, each with a number that changes with it.
pub(crate) fn list_sessions(
    copy: &DatabaseCopy,
    query: &str,
) -> Result<Vec<(String, i64)>, ImportFilesError> {
    let failed = || ImportFilesError::database(&copy.path);
    let connection = copy.open()?;
    let mut statement = connection.prepare(query).map_err(failed())?;
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.unwrap_or(0))))
        .map_err(failed())?;
    rows.collect::<Result<_, _>>().map_err(failed())
}

/// The rows of a session, each as JSON.
pub(crate) fn rows_of_session(
    copy: &DatabaseCopy,
    query: &str,
    session: &str,
) -> Result<Vec<String>, ImportFilesError> {
    let failed = || ImportFilesError::database(&copy.path);
    let connection = copy.open()?;
    let mut statement = connection.prepare(query).map_err(failed())?;
    let rows = statement.query_map(params![session], |row| row.get(0)).map_err(failed())?;
    rows.collect::<Result<_, _>>().map_err(failed())
}
