//! The address of an endpoint, and which part of it may be shown.

use std::net::IpAddr;

/// The address that requests are sent to.
pub(super) struct Address {
    url: String,
    /// The host with its port.
    host: String,
    /// User name and password, as written before the host.
    credentials: Option<String>,
}

impl Address {
    /// Parses the base URL of an endpoint. `path` is appended unless it is there, with `/v1` before
    /// it if the base has no path. `None` if it is not an http or https URL.
    pub(super) fn read(base: &str, path: &str) -> Option<Self> {
        let base = base.trim();
        if base.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return None;
        }
        let (scheme, rest) = base.split_once("://")?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return None;
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, format!("?{query}")),
            None => (rest, String::new()),
        };
        let (authority, own) = rest.split_once('/').unwrap_or((rest, ""));
        // A password that contains a `/` or a `?` would be taken for a host and a path.
        if own.contains('@') || query.contains('@') {
            return None;
        }
        let (credentials, host) = match authority.rsplit_once('@') {
            Some((credentials, host)) => (Some(credentials.to_owned()), host),
            None => (None, authority),
        };
        if host.is_empty() {
            return None;
        }
        let own = own.trim_end_matches('/');
        let whole = if own.is_empty() {
            format!("v1/{path}")
        } else if own.ends_with(path) {
            own.to_owned()
        } else {
            format!("{own}/{path}")
        };
        let url = format!("{scheme}://{authority}/{whole}{query}");
        Some(Self { url, host: host.to_owned(), credentials })
    }

    /// The full URL, which may contain a password.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The host with its port.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// User name and password.
    pub(super) fn credentials(&self) -> Option<&str> {
        self.credentials.as_deref()
    }

    /// Returns true if it is on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        let name = match self.host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(""),
            None => self.host.split(':').next().unwrap_or(""),
        };
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_added_once() {
        let url = |base: &str| Address::read(base, "chat/completions").unwrap().url().to_owned();
        assert_eq!(url("https://a.example"), "https://a.example/v1/chat/completions");
        assert_eq!(url("https://a.example/v1/"), "https://a.example/v1/chat/completions");
        assert_eq!(
            url("http://a:8080/x/chat/completions?v=1"),
            "http://a:8080/x/chat/completions?v=1"
        );
        for none in [
            "",
            "a.example/v1",
            "ftp://a/v1",
            "http://",
            "http:///v1",
            "http://a b/",
            "http://me:pa/ss@host",
            "http://me:pa?ss@host/v1",
        ] {
            assert!(Address::read(none, "messages").is_none(), "{none}");
        }
    }

    #[test]
    fn what_is_shown_has_no_password() {
        let address = Address::read("https://me:secret@a.example:1/v1", "messages").unwrap();
        assert_eq!(address.host(), "a.example:1");
        assert_eq!(address.credentials(), Some("me:secret"));
    }

    #[test]
    fn this_machine_is_known() {
        let here = |base: &str| Address::read(base, "messages").unwrap().is_loopback();
        assert!(
            here("http://127.0.0.1:8080") && here("http://localhost") && here("http://[::1]:2")
        );
        assert!(!here("http://10.0.0.1") && !here("http://localhost.example"));
    }
}
