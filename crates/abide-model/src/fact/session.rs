//! Facts about the session itself.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Epoch, Seq, SessionId};

/// The status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Created, not started.
    #[default]
    Pending,
    /// In progress.
    Running,
    /// A conversation that waits for its user.
    Idle,
    /// Interrupted.
    Interrupted,
    /// Completed.
    Completed,
    /// Failed.
    Failed,
}

impl SessionStatus {
    /// Its name in the journal.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Interrupted => "interrupted",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// Why a session has a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentReason {
    /// It forks the parent at some event.
    Fork,
    /// It has an edited version of the parent's task list.
    Delta,
}

/// The parent of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionParent {
    /// The parent.
    pub session: SessionId,
    /// The last shared event.
    pub seq: Seq,
    /// Why.
    pub reason: ParentReason,
}

/// The document a session was created from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceDocument {
    /// Its path.
    pub path: String,
    /// Its SHA-256.
    pub sha256: String,
}

/// The fields of a session; in an update, the fields that change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionFields {
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The project its workspace belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The id of the project it was recorded in. Fixed when the session is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Its workspace directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Labels to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionParent>,
    /// The document it was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceDocument>,
    /// Its idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl SessionFields {
    /// The text of a directory for `workspace` and `project`. Not escaped, so that programs that
    /// read or write events need not know about escapes. Bytes that are not UTF-8 are lost.
    #[must_use]
    pub fn workspace_text(dir: &Path) -> String {
        dir.to_string_lossy().into_owned()
    }

    /// The session whose history this one shares, if these are the fields it was created with in
    /// event `first`.
    #[must_use]
    pub fn forked_from(&self, first: Seq) -> Option<&SessionParent> {
        let fork = |parent: &&SessionParent| {
            parent.reason == ParentReason::Fork
                && parent.seq > Seq::ZERO
                && parent.seq.next() == first
        };
        self.parent.as_ref().filter(fork)
    }

    /// Applies the fields that are set. The project id never changes.
    pub fn update(&mut self, new: Self) {
        let texts = [
            (&mut self.title, new.title),
            (&mut self.project, new.project),
            (&mut self.workspace, new.workspace),
            (&mut self.agent, new.agent),
            (&mut self.model, new.model),
        ];
        for (old, new) in texts {
            if let Some(new) = new {
                *old = Some(new.chars().take(4096).collect());
            }
        }
        self.labels.extend(new.labels);
        self.parent = new.parent.or(self.parent.take());
        self.source = new.source.or(self.source.take());
        self.key = new.key.or(self.key.take());
    }
}

/// `session.created`: the id and the fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCreated {
    /// The session's id.
    pub session: SessionId,
    /// Its fields.
    #[serde(flatten)]
    pub fields: SessionFields,
}

/// `session.status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusChange {
    /// The new status.
    pub status: SessionStatus,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A summary of the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// `writer.opened`: a new writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterOpened {
    /// Greater than the epoch of every writer before.
    pub epoch: Epoch,
    /// The writer: process, program, host.
    #[serde(default)]
    pub by: String,
    /// The person and the machine, for lists: `user@host`. `None` if the user is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}
