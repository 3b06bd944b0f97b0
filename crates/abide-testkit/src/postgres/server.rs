//! A PostgreSQL server that tests may use, whoever started it.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use super::NotAvailable;
use super::programs::{psql, without_settings};

/// A server, reached as its superuser.
#[derive(Debug)]
pub struct PostgresServer {
    /// The URL up to its database.
    authority: String,
    /// What follows the database in a URL: nothing, or a `?` and parameters.
    parameters: String,
    psql: PathBuf,
}

impl PostgresServer {
    /// The server at a URL of its superuser.
    pub fn at(url: &str) -> Result<Self, NotAvailable> {
        let psql = psql(Path::new("")).ok_or_else(|| NotAvailable::new("psql was not found"))?;
        Self::with_psql(url, psql)
    }

    /// The same, with a client that is known.
    pub(super) fn with_psql(url: &str, psql: PathBuf) -> Result<Self, NotAvailable> {
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| NotAvailable::new("the server's URL has no ://"))?;
        let (place, parameters) = match rest.split_once('?') {
            Some((place, parameters)) => (place, format!("?{parameters}")),
            None => (rest, String::new()),
        };
        let authority = place.split_once('/').map_or(place, |(authority, _)| authority);
        Ok(Self { authority: format!("{scheme}://{authority}"), parameters, psql })
    }

    /// The URL of a database of this server.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("{}/{database}{}", self.authority, self.parameters)
    }

    /// Makes an empty database that nobody else has, and gives its URL.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    #[must_use]
    pub fn create_database(&self) -> String {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        // Processes share a server, and a process id comes again.
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
        let name = format!("abide_{}_{made}_{now:x}", process::id());
        self.sql("postgres", &format!("create database {name}"));
        self.url(&name)
    }

    /// Runs statements in a database. Gives the rows without headings, columns divided by `|`.
    ///
    /// # Panics
    ///
    /// When one fails.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        self.try_sql(database, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// Runs statements in a database as [`sql`](Self::sql) does. Gives what was said where one
    /// fails or the server is not there.
    pub fn try_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        let mut command = Command::new(&self.psql);
        without_settings(&mut command);
        let mut child = command
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", "-", "-d"])
            .arg(self.url(database))
            .env("PGCONNECT_TIMEOUT", "20")
            .current_dir(env::temp_dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", self.psql.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A client that did not connect has not read: its exit code tells.
            let _ = stdin.write_all(statements.as_bytes());
        }
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_in_a_url_is_another() {
        for (url, expected) in [
            ("postgres://me@host:5", "postgres://me@host:5/other"),
            ("postgres://me@host:5/one", "postgres://me@host:5/other"),
            ("postgres://host/one?sslmode=disable", "postgres://host/other?sslmode=disable"),
        ] {
            let server = PostgresServer::with_psql(url, PathBuf::from("psql")).unwrap();
            assert_eq!(server.url("other"), expected);
        }
        assert!(PostgresServer::with_psql("host", PathBuf::from("psql")).is_err());
    }
}
