//! Facts about the session itself.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Epoch, Seq, SessionId};

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Made, nothing done yet.
    #[default]
    Pending,
    /// At work.
    Running,
    /// A conversation that waits for its user.
    Idle,
    /// Stopped in the middle.
    Interrupted,
    /// Done.
    Completed,
    /// Given up.
    Failed,
}

impl SessionStatus {
    /// The name under which it is written.
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
    /// It starts from a place in the parent's past.
    Fork,
    /// It is the parent's plan, edited.
    Delta,
}

/// The session this one comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Which session.
    pub session: SessionId,
    /// The last event that is shared.
    pub seq: Seq,
    /// Why.
    pub reason: ParentReason,
}

/// The document a session works from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its path.
    pub path: String,
    /// Its SHA-256.
    pub sha256: String,
}

/// What a session is; in an update, what is now otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionFields {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What its workspace belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The id of the project it was recorded in. Only what it was created with counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Where its files are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Which agent works in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Which model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Names and values to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The session it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The document it works from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The client's own key for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl SessionFields {
    /// A directory as `workspace` and `project` have it: as it is, so that whoever writes or reads
    /// events need not know of any escapes. What in it is not UTF-8 is lost.
    #[must_use]
    pub fn workspace_text(dir: &Path) -> String {
        dir.to_string_lossy().into_owned()
    }

    /// The session whose past this one shares, when these are the fields that it was created with
    /// as event `first`.
    #[must_use]
    pub fn forked_from(&self, first: Seq) -> Option<&Parent> {
        let fork = |parent: &&Parent| {
            parent.reason == ParentReason::Fork
                && parent.seq > Seq::ZERO
                && parent.seq.next() == first
        };
        self.parent.as_ref().filter(fork)
    }

    /// Takes in what is now otherwise. The project it was recorded in stays what it is.
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

/// `session.created`: the fields, and the id that never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// The session's id.
    pub session: SessionId,
    /// What it is.
    #[serde(flatten)]
    pub fields: SessionFields,
}

/// `session.status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusChange {
    /// Where it stands now.
    pub status: SessionStatus,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// `writer.opened`: who writes from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterOpened {
    /// Greater than that of every writer before.
    pub epoch: Epoch,
    /// Who: process, program, host.
    #[serde(default)]
    pub by: String,
}
