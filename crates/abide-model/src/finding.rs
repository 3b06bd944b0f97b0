//! Findings: what is not as it should be, where, how bad, and what would mend it.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::{Seq, SessionId, path_text};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing is lost; worth knowing.
    Warning,
    /// Something recorded cannot be read, or what is recorded contradicts itself.
    Error,
    /// A whole session, or the store, cannot be used.
    Critical,
}

impl Severity {
    /// The name under which it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// What sort of thing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingType {
    /// A file or a record is not of its form, or is not finished.
    Structural,
    /// Something names what is not there.
    Referential,
    /// What is recorded contradicts the rules of sessions, tasks or conversations.
    BusinessLogic,
    /// Bytes are not those that were written.
    Checksum,
}

impl FindingType {
    /// The name under which it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Structural => "structural",
            Self::Referential => "referential",
            Self::BusinessLogic => "business_logic",
            Self::Checksum => "checksum",
        }
    }
}

/// Where something is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FoundAt {
    /// The file or directory.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "path_text::serialize_some")]
    pub path: Option<PathBuf>,
    /// The byte in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// What it is about, where neither a file nor an event tells: `task T1`, `object 12ab…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

impl FoundAt {
    /// A file or directory.
    #[must_use]
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::default() }
    }

    /// An event.
    #[must_use]
    pub fn event(seq: Seq) -> Self {
        Self { seq: Some(seq), ..Self::default() }
    }

    /// What it is about.
    #[must_use]
    pub fn subject(subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..Self::default() }
    }

    /// With the byte.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }

    /// With the event.
    #[must_use]
    pub fn of_event(self, seq: Seq) -> Self {
        Self { seq: Some(seq), ..self }
    }
}

impl fmt::Display for FoundAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(path) = &self.path {
            let path = path.display();
            parts.push(match self.offset {
                Some(offset) => format!("{path} at byte {offset}"),
                None => path.to_string(),
            });
        }
        parts.extend(self.subject.clone());
        parts.extend(self.seq.map(|seq| format!("event @{seq}")));
        f.write_str(&parts.join(", "))
    }
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the rule, stable for programs.
    pub rule: Cow<'static, str>,
    /// What sort of thing is wrong.
    pub r#type: FindingType,
    /// How bad it is.
    pub severity: Severity,
    /// In which session; none for the store itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Where.
    pub place: FoundAt,
    /// What.
    pub message: String,
    /// What would mend it.
    pub repair: Repair,
}

/// What would mend a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// In words.
    pub how: String,
    /// `abide doctor --repair` does it.
    pub automatic: bool,
}

impl Repair {
    /// `abide doctor --repair` does this.
    #[must_use]
    pub fn automatic(how: impl Into<String>) -> Self {
        Self { how: how.into(), automatic: true }
    }

    /// A person must do this.
    #[must_use]
    pub fn by_hand(how: impl Into<String>) -> Self {
        Self { how: how.into(), automatic: false }
    }
}

impl Finding {
    /// A finding of a session's rule, which has no session yet.
    #[must_use]
    pub fn new(
        rule: impl Into<Cow<'static, str>>,
        r#type: FindingType,
        severity: Severity,
        place: FoundAt,
        message: impl Into<String>,
        repair: Repair,
    ) -> Self {
        let (rule, message) = (rule.into(), message.into());
        Self { rule, r#type, severity, session: None, place, message, repair }
    }

    /// In this session.
    #[must_use]
    pub fn in_session(self, session: SessionId) -> Self {
        Self { session: Some(session), ..self }
    }
}
