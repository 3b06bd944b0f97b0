//! References to a session.

use std::fmt;
use std::path::PathBuf;

use crate::SessionId;

/// How a person or a program refers to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionRef {
    /// By its id.
    Id(SessionId),
    /// By a prefix of its id or short id, which must be unique.
    Prefix(String),
    /// By its key.
    Key(String),
    /// The newest session that holds more than the store's own bookkeeping.
    Latest,
    /// The newest non-empty session whose workspace is this directory.
    LatestIn(PathBuf),
}

impl SessionRef {
    /// Parses a full id; any other text is a prefix.
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
