//! The URL of a shared store: `postgres://user@host/database?schema=team`.
//!
//! The password comes from the URL, from `PGPASSWORD` or from the password file, and goes only to
//! the server: neither `Display` nor `Debug` of a [`ServerUrl`] shows it.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::connection_guard::is_socket;

/// The schema of a store, unless the URL names another.
pub const DEFAULT_SCHEMA: &str = "abide";

/// Why a URL is not that of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The scheme is another one.
    #[error("the URL of a shared store must start with postgres:// or postgresql://")]
    Scheme,
    /// PostgreSQL's client cannot parse it.
    #[error("invalid URL: {0}")]
    Unreadable(String),
    /// The name of the schema is invalid.
    #[error("invalid schema name {0:?}: use lowercase letters, digits and _, at most 63")]
    Schema(String),
    /// The `sslmode` is unknown.
    #[error("unknown sslmode={0}: use disable, prefer, require, verify-ca or verify-full")]
    SslMode(String),
    /// The `connect_timeout` is not a number.
    #[error("invalid connect_timeout={0}: not a number of seconds")]
    ConnectTimeout(String),
    /// The hosts mix sockets and network addresses.
    #[error("cannot mix local sockets and network hosts")]
    Hosts,
    /// The trusted certificates cannot be read.
    #[error("cannot read the certificates in {path}: {reason}")]
    RootCertificate {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// Encryption cannot be set up.
    #[error("cannot set up encryption: {0}")]
    Tls(String),
}

/// The URL of a shared store, with its credentials.
#[derive(Clone)]
pub struct ServerUrl {
    pub(crate) config: Config,
    pub(crate) schema: String,
    pub(crate) root_certificate: Option<String>,
    /// How long to wait for the server, if the URL says so.
    pub(crate) connect_timeout: Option<Duration>,
    shown: String,
}

impl ServerUrl {
    /// Whether this is the URL of a shared store rather than a path.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Parses a URL. Missing parts come from the variables that PostgreSQL's own clients read
    /// (`PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE`, `PGSSLMODE`, `PGSSLROOTCERT`,
    /// `PGCONNECT_TIMEOUT`), and the password from `PGPASSFILE` or `~/.pgpass`.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        Self::parse_with(text, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// As `parse`, with other variables.
    pub(crate) fn parse_with(
        text: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, UrlError> {
        if !Self::is_one(text) {
            return Err(UrlError::Scheme);
        }
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let mut schema = None;
        let (mut ssl_mode, mut root) = (variable("PGSSLMODE"), variable("PGSSLROOTCERT"));
        let mut timeout = variable("PGCONNECT_TIMEOUT");
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = || percent_decode_str(value).decode_utf8_lossy().into_owned();
            match name {
                "schema" => schema = Some(value()),
                "sslmode" => ssl_mode = Some(value()),
                "sslrootcert" => root = Some(value()),
                "connect_timeout" => timeout = Some(value()),
                _ => rest.push(pair),
            }
        }
        let plain =
            if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| {
            // Its message may repeat part of the URL; the kind of error is enough.
            let _ = error;
            UrlError::Unreadable("see PostgreSQL's documentation of connection URIs".to_owned())
        })?;
        config.ssl_mode(url_ssl_mode(ssl_mode.as_deref())?);
        complete_url(&mut config, variable);
        let socket = |host: &Host| matches!(host, Host::Unix(_));
        if config.get_hosts().iter().any(socket) && !is_socket(&config) {
            return Err(UrlError::Hosts);
        }
        if config.get_password().is_none()
            && let Some(password) = url_password_in_file(&config, variable)
        {
            config.password(password);
        }
        let connect_timeout = timeout.as_deref().map(url_connect_timeout).transpose()?.flatten();
        let schema = schema.unwrap_or_else(|| DEFAULT_SCHEMA.to_owned());
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if schema.is_empty() || schema.len() > 63 || !schema.chars().all(fits) {
            return Err(UrlError::Schema(schema));
        }
        let shown = shown_url(&config, &schema);
        Ok(Self { config, schema, root_certificate: root, connect_timeout, shown })
    }

    /// The schema of the tables.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn encrypted(&self) -> bool {
        self.config.get_ssl_mode() != SslMode::Disable
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerUrl({self})")
    }
}

/// For people: without password and options.
fn shown_url(config: &Config, schema: &str) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(path)) => path.display().to_string().replace('/', "%2F"),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().filter(|port| **port != 5432);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let database = config.get_dbname().unwrap_or_default();
    let schema = if schema == DEFAULT_SCHEMA { String::new() } else { format!("?schema={schema}") };
    format!("postgres://{user}{host}{port}/{database}{schema}")
}

fn url_ssl_mode(mode: Option<&str>) -> Result<SslMode, UrlError> {
    match mode {
        None | Some("prefer" | "allow") => Ok(SslMode::Prefer),
        Some("disable") => Ok(SslMode::Disable),
        // An encrypted connection always verifies the server's certificate.
        Some("require" | "verify-ca" | "verify-full") => Ok(SslMode::Require),
        Some(other) => Err(UrlError::SslMode(other.to_owned())),
    }
}

/// Seconds, with fractions; 0 or less means not set.
fn url_connect_timeout(seconds: &str) -> Result<Option<Duration>, UrlError> {
    let wrong = || UrlError::ConnectTimeout(seconds.to_owned());
    let seconds: f64 = seconds.trim().parse().map_err(|_| wrong())?;
    if seconds <= 0.0 {
        return Ok(None);
    }
    Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| wrong())
}

/// Fills in what the URL leaves out from the variables.
fn complete_url(config: &mut Config, variable: &dyn Fn(&str) -> Option<String>) {
    if config.get_hosts().is_empty() {
        config.host(variable("PGHOST").as_deref().unwrap_or("localhost"));
    }
    if config.get_ports().is_empty()
        && let Some(port) = variable("PGPORT").and_then(|port| port.parse().ok())
    {
        config.port(port);
    }
    if config.get_user().is_none()
        && let Some(user) = variable("PGUSER").or_else(|| variable("USER"))
    {
        config.user(user);
    }
    if config.get_password().is_none()
        && let Some(password) = variable("PGPASSWORD")
    {
        config.password(password);
    }
    if config.get_dbname().is_none() {
        let database = variable("PGDATABASE").or_else(|| config.get_user().map(str::to_owned));
        if let Some(database) = database {
            config.dbname(database);
        }
    }
}

/// The password of the first matching line in the password file. A file that others may read is
/// ignored, as PostgreSQL's own clients do.
fn url_password_in_file(
    config: &Config,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let path = variable("PGPASSFILE").map(PathBuf::from);
    let path = path.or_else(|| Some(Path::new(&variable("HOME")?).join(".pgpass")))?;
    let mode = std::fs::metadata(&path).ok()?.permissions().mode();
    if mode & 0o077 != 0 {
        return None;
    }
    // With several hosts, the password could go to any of them, so a line must be for the only one.
    let [host] = config.get_hosts() else { return None };
    let host = match host {
        Host::Tcp(host) => host.clone(),
        Host::Unix(_) => "localhost".to_owned(),
    };
    let port = config.get_ports().first().unwrap_or(&5432).to_string();
    let wanted = [
        host.as_str(),
        &port,
        config.get_dbname().unwrap_or_default(),
        config.get_user().unwrap_or_default(),
    ];
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = password_file_fields(line);
        let (password, places) = fields.split_last()?;
        let fits = places.len() == wanted.len()
            && places.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        fits.then(|| password.clone())
    })
}

/// The fields of a line of the password file: `\` escapes the next character.
fn password_file_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            ':' if fields.len() < 5 => fields.push(String::new()),
            c => {
                let c = if c == '\\' { characters.next() } else { Some(c) };
                if let (Some(field), Some(c)) = (fields.last_mut(), c) {
                    field.push(c);
                }
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ServerUrl, UrlError> {
        ServerUrl::parse_with(text, &|_| None)
    }

    #[test]
    fn nothing_that_can_be_shown_has_the_password() {
        let text = "postgresql://me:secret@db.example:5433/team?password=secret&schema=blue\
                    &application_name=secret";
        let url = parse(text).unwrap();
        assert_eq!(url.to_string(), "postgres://me@db.example:5433/team?schema=blue");
        assert!(!format!("{url:?} {url}").contains("secret"));
        let bad = parse("postgres://me:secret@host:port/db").unwrap_err();
        assert!(!format!("{bad:?} {bad}").contains("secret"));
    }

    #[test]
    fn what_is_left_out_comes_from_the_variables() {
        let set = |name: &str| {
            let value = match name {
                "PGHOST" => "far",
                "PGPORT" => "99",
                "PGUSER" => "u",
                "PGPASSWORD" => "p",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let url = ServerUrl::parse_with("postgres://", &set).unwrap();
        assert_eq!(url.to_string(), "postgres://u@far:99/u");
        assert_eq!(url.config.get_password(), Some(&b"p"[..]));
        let url = ServerUrl::parse_with("postgres://x:y@near:1/z", &set).unwrap();
        assert_eq!(url.to_string(), "postgres://x@near:1/z");
        assert_eq!(url.config.get_password(), Some(&b"y"[..]));
    }

    #[test]
    fn how_long_a_server_is_waited_for_can_be_said() {
        let set = |name: &str| (name == "PGCONNECT_TIMEOUT").then(|| "0.25".to_owned());
        let timeout = |text: &str| ServerUrl::parse_with(text, &set).unwrap().connect_timeout;
        assert_eq!(timeout("postgres://h/d"), Some(Duration::from_millis(250)));
        assert_eq!(timeout("postgres://h/d?connect_timeout=3"), Some(Duration::from_secs(3)));
        assert_eq!(timeout("postgres://h/d?connect_timeout=0"), None);
        assert_eq!(parse("postgres://h/d").unwrap().connect_timeout, None);
    }

    #[test]
    fn bad_ones_are_refused_in_words() {
        assert_eq!(parse("mysql://x").unwrap_err(), UrlError::Scheme);
        let schema = parse("postgres://h/d?schema=a%22b").unwrap_err();
        assert_eq!(schema, UrlError::Schema("a\"b".to_owned()));
        assert!(matches!(parse("postgres://h/d?sslmode=maybe"), Err(UrlError::SslMode(_))));
        let timeout = parse("postgres://h/d?connect_timeout=soon").unwrap_err();
        assert_eq!(timeout, UrlError::ConnectTimeout("soon".to_owned()));
        assert!(matches!(parse("postgres://h/d?nonsense=1"), Err(UrlError::Unreadable(_))));
        for mixed in ["postgres://h,%2Frun/d", "postgres:///d?host=/run&hostaddr=192.0.2.1"] {
            assert_eq!(parse(mixed).unwrap_err(), UrlError::Hosts);
        }
        parse("postgres://%2Frun,%2Ftmp/d").unwrap();
    }

    #[test]
    fn the_password_file_is_read_as_postgres_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pgpass");
        let text = "# me\nother:*:*:*:no\ndb\\:x:5432:team:me:no\n*:5432:team:me:se\\:cr\\\\et\n";
        std::fs::write(&path, text).unwrap();
        let set = |name: &str| (name == "PGPASSFILE").then(|| path.to_string_lossy().into_owned());
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let password = |text: &str| {
            let url = ServerUrl::parse_with(text, &set).unwrap();
            url.config.get_password().map(|it| String::from_utf8_lossy(it).into_owned())
        };
        mode(0o600);
        assert_eq!(password("postgres://me@db/team").as_deref(), Some("se:cr\\et"));
        assert_eq!(password("postgres://you@db/team"), None);
        mode(0o644);
        assert_eq!(password("postgres://me@db/team"), None, "others may read it");
    }
}
