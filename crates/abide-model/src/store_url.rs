//! The URL of a shared store. Secrets in it are used to connect and never shown.

use std::fmt;

/// The URL of a shared store. `Display` and `Debug` omit the password and the parameters. For a
/// malformed URL they show only the scheme, because any other part may be secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StoreUrl(String);

/// Why a URL is invalid. Never repeats the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreUrlError {
    /// Wrong scheme.
    #[error("the URL of a shared store must start with postgres:// or postgresql://")]
    Scheme,
    /// A character that must be percent-encoded.
    #[error(
        "@ / ? # and blanks in a user name, a password or a parameter must be written as %40 %2F %3F %23 and %20"
    )]
    Characters,
    /// Invalid port.
    #[error("the port is not a number from 1 to 65535")]
    Port,
    /// No database.
    #[error("missing database name: postgres://USER@HOST/DATABASE")]
    Database,
}

/// The PostgreSQL schemes.
const SCHEMES: [&str; 2] = ["postgres", "postgresql"];

/// The parts of a well-formed URL.
struct UrlParts<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    hosts: &'a str,
    database: &'a str,
}

impl StoreUrl {
    /// Reads a URL; `None` if the text is the path of a directory.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once(':')?;
        let url = is_url_scheme(scheme) && (rest.starts_with("//") || is_postgres_scheme(scheme));
        url.then(|| Self(text.to_owned()))
    }

    /// The whole URL, secrets included: to connect with, and for the environment of a child
    /// process.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Does it contain a password?
    #[must_use]
    pub fn has_password(&self) -> bool {
        let (before, parameters) = self.0.split_once('?').unwrap_or((&self.0, ""));
        let authority = before.split_once("://").map_or(before, |(_, rest)| rest);
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        user.contains(':')
            || parameters.split('&').any(|one| is_secret_url_parameter(url_parameter_name(one)))
    }

    /// The URL with its parameters but without the password, for a user who must confirm it:
    /// parameters may redirect to another server than the host.
    #[must_use]
    pub fn shown_whole(&self) -> String {
        let parameters = self.0.split_once('?').map_or("", |(_, parameters)| parameters);
        if parameters.is_empty() || self.check().is_err() {
            return self.to_string();
        }
        let shown = |one: &str| match url_parameter_name(one) {
            name if is_secret_url_parameter(name) => format!("{name}=…"),
            _ => one.to_owned(),
        };
        let parameters: Vec<String> = parameters.split('&').map(shown).collect();
        format!("{self}?{}", parameters.join("&"))
    }

    /// Is it well formed?
    pub fn check(&self) -> Result<(), StoreUrlError> {
        self.parts().map(drop)
    }

    fn parts(&self) -> Result<UrlParts<'_>, StoreUrlError> {
        let (scheme, rest) = self.0.split_once("://").ok_or(StoreUrlError::Scheme)?;
        if !is_postgres_scheme(scheme) {
            return Err(StoreUrlError::Scheme);
        }
        let (before, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = before.split_once('/').unwrap_or((before, ""));
        let (user, hosts) = match authority.split_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        // If one of these is misplaced, a secret may be taken for another part.
        let stray = [hosts, database, parameters].iter().any(|part| part.contains('@'));
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == '#';
        // A percent-encoded name could be any parameter, so it cannot be shown safely.
        let veiled = parameters.split('&').any(|one| url_parameter_name(one).contains('%'));
        if stray || veiled || rest.contains(odd) || database.contains('/') {
            return Err(StoreUrlError::Characters);
        }
        if !hosts.split(',').all(url_has_good_port) {
            return Err(StoreUrlError::Port);
        }
        let named = |name| parameters.split('&').any(|one| one.split('=').next() == Some(name));
        if database.is_empty() && !named("dbname") {
            return Err(StoreUrlError::Database);
        }
        let user = user.map(|user| user.split_once(':').map_or(user, |(user, _)| user));
        Ok(UrlParts { scheme, user: user.filter(|user| !user.is_empty()), hosts, database })
    }
}

/// The name of a parameter.
fn url_parameter_name(parameter: &str) -> &str {
    parameter.split('=').next().unwrap_or_default()
}

/// Is this parameter a password? A percent-encoded name could be.
fn is_secret_url_parameter(name: &str) -> bool {
    name.to_ascii_lowercase().contains("password") || name.contains('%')
}

fn is_url_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
}

fn is_postgres_scheme(scheme: &str) -> bool {
    SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// Is the port of this host valid or absent?
fn url_has_good_port(host: &str) -> bool {
    // An IPv6 address has colons of its own, inside brackets.
    let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    match behind.split_once(':') {
        Some((_, port)) => port.parse::<u16>().is_ok_and(|port| port > 0),
        None => true,
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(UrlParts { scheme, user, hosts, database }) = self.parts() else {
            let scheme = self.0.split(':').next().unwrap_or_default();
            return write!(f, "{scheme}://…");
        };
        write!(f, "{scheme}://")?;
        if let Some(user) = user {
            write!(f, "{user}@")?;
        }
        f.write_str(hosts)?;
        if !database.is_empty() {
            write!(f, "/{database}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> StoreUrl {
        StoreUrl::of(text).unwrap()
    }

    #[test]
    fn what_is_shown_has_no_secret() {
        for (whole, shown) in [
            ("postgres://user:secret@host/db?password=secret", "postgres://user@host/db"),
            ("postgresql://user:secret@host:5433/db", "postgresql://user@host:5433/db"),
            ("postgres://user@h1:1,h2:2/db?sslpassword=secret", "postgres://user@h1:1,h2:2/db"),
            ("postgres://:secret@host/db", "postgres://host/db"),
            ("postgres://u:secret:secret@[::1]:5432/db", "postgres://u@[::1]:5432/db"),
            ("postgres:///db?host=/run&password=secret", "postgres:///db"),
            ("postgres://host?dbname=x&password=secret", "postgres://host"),
            ("Postgres://user:s%40cret@host/db", "Postgres://user@host/db"),
        ] {
            let url = url(whole);
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("StoreUrl({shown})"));
            assert_eq!(url.check(), Ok(()), "{whole}");
            assert_eq!(url.reveal(), whole);
            assert!(url.has_password(), "{whole}");
        }
    }

    #[test]
    fn one_that_is_not_well_formed_shows_nothing() {
        for (whole, why) in [
            ("postgres://user:sec@ret@host/db", StoreUrlError::Characters),
            ("postgres://user:sec/ret@host/db", StoreUrlError::Characters),
            ("postgres://user:1?secret@host/db", StoreUrlError::Characters),
            ("postgres://user:secret#1@host/db", StoreUrlError::Characters),
            ("postgres://user:sec ret@host/db", StoreUrlError::Characters),
            ("postgres://host/db?password=sec@ret", StoreUrlError::Characters),
            ("postgres://host/secret/db", StoreUrlError::Characters),
            ("postgres://user:secret/db", StoreUrlError::Port),
            ("postgres://user:secret@host:0/db", StoreUrlError::Port),
            ("postgres://user:secret@host", StoreUrlError::Database),
            ("postgres://user:secret@host/", StoreUrlError::Database),
            ("postgres:user:secret@host/db", StoreUrlError::Scheme),
            ("mysql://user:secret@host/db", StoreUrlError::Scheme),
        ] {
            let url = url(whole);
            assert_eq!(url.check(), Err(why), "{whole}");
            let shown = format!("{url} {url:?} {why}");
            assert!(!["sec", "ret@", "user:"].iter().any(|part| shown.contains(part)), "{shown}");
        }
    }

    #[test]
    fn who_is_asked_sees_the_parameters_and_no_password() {
        for (whole, shown) in [
            ("postgres://u:secret@host/db", "postgres://u@host/db"),
            (
                "postgres://u:secret@host/db?sslmode=disable&password=secret&hostaddr=1.2.3.4",
                "postgres://u@host/db?sslmode=disable&password=…&hostaddr=1.2.3.4",
            ),
            ("postgres://host/db?p%61ssword=secret", "postgres://…"),
            ("postgres://host/db?h%6Fstaddr=6.6.6.6", "postgres://…"),
            ("postgres://user:sec/ret@host/db?x=secret", "postgres://…"),
        ] {
            assert_eq!(url(whole).shown_whole(), shown);
        }
    }

    #[test]
    fn one_without_a_password_is_known_as_such() {
        for whole in ["postgres://user@host:1/db?sslmode=require", "postgres://host:1/db"] {
            assert!(!url(whole).has_password(), "{whole}");
        }
    }

    #[test]
    fn a_path_is_none() {
        for path in ["", ".", "/a/b", "a:b", "./postgres://x", "1x://y", "c:/x", "post gres://x"] {
            assert_eq!(StoreUrl::of(path), None, "{path}");
        }
    }
}
