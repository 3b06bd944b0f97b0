//! How a caller names a session.

use std::fmt;
use std::path::PathBuf;

use crate::SessionId;

/// A session as a person or a program names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRef {
    /// By its id.
    Id(SessionId),
    /// By the start of its id or short id; it must be the only one.
    Prefix(String),
    /// By the client's own key.
    Key(String),
    /// The newest that holds more than the store's own bookkeeping.
    Latest,
    /// The newest of those whose workspace is this directory, empty ones passed over.
    LatestIn(PathBuf),
}

impl SessionRef {
    /// A full id, or else a prefix.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Prefix(text.to_ascii_lowercase()), Self::Id)
    }
}

impl fmt::Display for SessionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Prefix(prefix) => f.write_str(prefix),
            Self::Key(key) => write!(f, "key {key:?}"),
            Self::Latest => f.write_str("the latest session"),
            Self::LatestIn(dir) => write!(f, "the latest session of {}", dir.display()),
        }
    }
}
