//! The rows of an agent's SQLite database. The database is copied first, with its log: it may be in
//! use, and reading it in place would write to its log's index.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, params};
use tempfile::TempDir;

use crate::ImportFilesError;
use crate::import_ledger::SourceStamp;

/// How often a database is copied that is being written to.
const COPIES: usize = 8;

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
        let with = |path: &Path, ending: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        let stamps = || {
            ["", "-wal"].map(|ending| {
                fs::metadata(with(path, ending)).ok().map(|found| SourceStamp::of(&found))
            })
        };
        let failed = || ImportFilesError::read(path);
        for _ in 0..COPIES {
            let before = stamps();
            fs::copy(path, &copy).map_err(failed())?;
            match fs::copy(with(path, "-wal"), with(&copy, "-wal")) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let _ = fs::remove_file(with(&copy, "-wal"));
                }
                copied => _ = copied.map_err(failed())?,
            }
            // Both are of one moment.
            if stamps() == before {
                return Ok(Self { path: path.to_owned(), copy, _dir: dir });
            }
        }
        Err(failed()(io::Error::other("it is being written to all the time")))
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
