//! Where a page of a list ends: a position in the order of the list, not a count, so that sessions
//! added meanwhile shift nothing.

use std::fmt;
use std::str::FromStr;

use abide::{SessionId, Timestamp};

use super::CatalogError;

/// The last session of a page. Greater is newer, and comes first in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListCursor {
    /// When it last changed.
    pub(super) updated: Timestamp,
    /// Breaks ties.
    pub(super) id: SessionId,
}

impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.updated.as_millis(), self.id)
    }
}

impl FromStr for ListCursor {
    type Err = CatalogError;

    fn from_str(text: &str) -> Result<Self, CatalogError> {
        let parse = || {
            let (millis, id) = text.split_once('.')?;
            let updated = Timestamp::from_millis(millis.parse().ok()?);
            Some(Self { updated, id: id.parse().ok()? })
        };
        // A cursor that does not round-trip was not written by a list.
        let cursor = parse().filter(|cursor| cursor.to_string() == text);
        cursor.ok_or_else(|| CatalogError::BadCursor { cursor: text.chars().take(100).collect() })
    }
}
