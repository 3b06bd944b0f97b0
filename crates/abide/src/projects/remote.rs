//! Normalises the remote of a repository: drops what depends on the user, such as scheme, user
//! name, default ports and suffixes.

use std::fmt;

/// Where a repository is on the network, without user name and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remote {
    /// In lower case, with the port unless it is the default one.
    host: String,
    path: String,
}

impl Remote {
    /// Parses a URL as git accepts it, or the short form `user@host:path`. `None` for a directory,
    /// which means nothing on another machine.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let url = url.trim();
        let (authority, path) = match url.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => return None,
            Some((_, rest)) => rest.split_once('/')?,
            None => url.split_once(':').filter(|(host, _)| !host.contains('/'))?,
        };
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let host = host.to_ascii_lowercase();
        let usual = [":22", ":443"].iter().find_map(|port| host.strip_suffix(port));
        let host = usual.unwrap_or(&host).to_owned();
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/').to_owned();
        (!host.is_empty() && !path.is_empty()).then_some(Self { host, path })
    }

    /// The name for display: the last two components of the path.
    pub(super) fn name(&self) -> String {
        let parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        parts.get(parts.len().saturating_sub(2)..).unwrap_or_default().join("/")
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_the_same_repository_is_one_remote() {
        for url in [
            "https://example.org/owner/repo",
            "https://example.org/owner/repo.git",
            "https://example.org:443/owner/repo.git/",
            "http://user:secret@EXAMPLE.org/owner/repo/",
            "ssh://git@example.org/owner/repo.git",
            "ssh://git@example.org:22/owner/repo",
            "git@example.org:owner/repo.git",
            "git@Example.Org:/owner/repo.git",
            "example.org:owner/repo",
            "git://example.org/owner/repo.git\n",
        ] {
            let remote = Remote::parse(url).unwrap();
            assert_eq!(remote.to_string(), "example.org/owner/repo", "{url}");
            assert_eq!(remote.name(), "owner/repo");
        }
    }

    #[test]
    fn what_differs_stays_apart() {
        for (url, remote) in [
            ("ssh://example.org:2222/owner/repo", "example.org:2222/owner/repo"),
            ("https://example.org/Owner/repo", "example.org/Owner/repo"),
            ("https://example.org/a/b/c.git", "example.org/a/b/c"),
            ("ssh://[::1]:22/x", "[::1]/x"),
        ] {
            assert_eq!(Remote::parse(url).unwrap().to_string(), remote);
        }
    }

    #[test]
    fn a_directory_is_none() {
        for url in ["/a/b.git", "../b", "./a:b", "file:///a/b", "b", "", "https://host", "ssh:///"]
        {
            assert_eq!(Remote::parse(url), None, "{url}");
        }
    }
}
