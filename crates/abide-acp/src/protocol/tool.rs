//! Statuses and kinds of tool calls.

/// The status of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcpToolStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

impl AcpToolStatus {
    pub(crate) fn read(word: &str) -> Option<Self> {
        Some(match word {
            "pending" => Self::Pending,
            "in_progress" => Self::InProgress,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            _ => return None,
        })
    }

    /// Whether the call succeeded; `None` while it is open.
    pub(crate) fn ok(self) -> Option<bool> {
        match self {
            Self::Completed => Some(true),
            Self::Failed => Some(false),
            Self::Pending | Self::InProgress => None,
        }
    }
}

/// Whether the word names a kind of tool. `other` does not.
pub(crate) fn is_tool_kind(word: &str) -> bool {
    let kinds =
        ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"];
    kinds.contains(&word)
}
