//! Sessions in a list.

use std::path::PathBuf;

use serde::Serialize;

/// A session as `session/list` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionInfo {
    /// The client's id of the session.
    pub session_id: String,
    /// The directory it works in.
    pub cwd: PathBuf,
    /// Its title, or the beginning of what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it last changed, in the form of RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}
