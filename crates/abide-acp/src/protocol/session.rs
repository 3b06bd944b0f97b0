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
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its title, or the beginning of the first request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it last changed, in RFC 3339 format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}
