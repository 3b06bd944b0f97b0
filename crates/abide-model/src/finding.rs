//! Findings: what is wrong, where, how severe it is, and how to repair it.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::{Seq, SessionId, path_text};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing is lost.
    Warning,
    /// Recorded data cannot be read or contradicts itself.
    Error,
    /// A whole session, or the store, is unusable.
    Critical,
}

impl Severity {
    /// Its name in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// The category of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingType {
    /// A file or a record is malformed or incomplete.
    Structural,
    /// Something refers to a thing that does not exist.
    Referential,
    /// Recorded data breaks a rule of sessions, tasks or conversations.
    BusinessLogic,
    /// The bytes differ from those that were written.
    Checksum,
}

impl FindingType {
    /// Its name in reports.
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

/// Where a finding is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct FindingPlace {
    /// The file or directory.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "path_text::serialize_some")]
    pub path: Option<PathBuf>,
    /// The byte offset in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// What it is about, if neither a file nor an event says so: `task T1`, `object 12ab…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

impl FindingPlace {
    /// At a file or directory.
    #[must_use]
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::default() }
    }

    /// At an event.
    #[must_use]
    pub fn event(seq: Seq) -> Self {
        Self { seq: Some(seq), ..Self::default() }
    }

    /// About this subject.
    #[must_use]
    pub fn subject(subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..Self::default() }
    }

    /// With a byte offset.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }

    /// With an event.
    #[must_use]
    pub fn of_event(self, seq: Seq) -> Self {
        Self { seq: Some(seq), ..self }
    }
}

impl fmt::Display for FindingPlace {
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

/// Something that is wrong with a store or a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the rule; stable.
    pub rule: Cow<'static, str>,
    /// Its category.
    pub r#type: FindingType,
    /// Its severity.
    pub severity: Severity,
    /// The session; `None` for the store itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Where it is.
    pub place: FindingPlace,
    /// What is wrong, in words.
    pub message: String,
    /// How to repair it.
    pub repair: Repair,
}

/// How to repair a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// The repair in words.
    pub how: String,
    /// Whether `abide doctor --repair` does it.
    pub automatic: bool,
    /// Commands that do it, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<RepairCommand>,
}

/// A command that repairs a finding. It is shown and serialized as a line for a shell. Ids in it are
/// as they were recorded: one that a terminal would not show as it is must not be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairCommand {
    /// A command and its subcommand, then arguments.
    words: Vec<String>,
}

impl RepairCommand {
    /// A subcommand of `abide tasks` with these arguments.
    pub(crate) fn of_tasks(subcommand: &str, arguments: impl IntoIterator<Item = String>) -> Self {
        let mut words = vec!["tasks".to_owned(), subcommand.to_owned()];
        words.extend(arguments);
        Self { words }
    }

    /// The same command with this option.
    #[must_use]
    pub fn with_option(mut self, option: &str, value: &str) -> Self {
        let at = self.words.len().min(2);
        self.words.insert(at, format!("{option}={value}"));
        self
    }
}

impl fmt::Display for RepairCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("abide")?;
        for word in &self.words {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+".contains(c);
            if !word.is_empty() && word.chars().all(is_plain) {
                write!(f, " {word}")?;
            } else {
                // Outside of the quotes, where every shell reads a backslash in the same way.
                f.write_str(" '")?;
                for c in word.chars() {
                    match c {
                        '\'' | '\\' => write!(f, r"'\{c}'")?,
                        c => f.write_char(c)?,
                    }
                }
                f.write_str("'")?;
            }
        }
        Ok(())
    }
}

impl Serialize for RepairCommand {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Repair {
    /// A repair that `abide doctor --repair` does.
    #[must_use]
    pub fn automatic(how: impl Into<String>) -> Self {
        Self { how: how.into(), automatic: true, commands: Vec::new() }
    }

    /// A repair that a person must do.
    #[must_use]
    pub fn by_hand(how: impl Into<String>) -> Self {
        Self { how: how.into(), automatic: false, commands: Vec::new() }
    }

    /// The same repair, done by these commands.
    #[must_use]
    pub(crate) fn with_commands(
        mut self,
        commands: impl IntoIterator<Item = RepairCommand>,
    ) -> Self {
        self.commands.extend(commands);
        self
    }
}

impl Finding {
    /// A finding of a rule, with no session yet.
    #[must_use]
    pub fn new(
        rule: impl Into<Cow<'static, str>>,
        r#type: FindingType,
        severity: Severity,
        place: FindingPlace,
        message: impl Into<String>,
        repair: Repair,
    ) -> Self {
        let (rule, message) = (rule.into(), message.into());
        Self { rule, r#type, severity, session: None, place, message, repair }
    }

    /// With its session, which the commands of its repair name.
    #[must_use]
    pub fn in_session(self, session: SessionId) -> Self {
        Self { session: Some(session), ..self }.with_option("--session", &session.to_string())
    }

    /// With this option for the commands of its repair.
    #[must_use]
    pub fn with_option(mut self, option: &str, value: &str) -> Self {
        let commands = std::mem::take(&mut self.repair.commands).into_iter();
        self.repair.commands = commands.map(|command| command.with_option(option, value)).collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_line_that_a_shell_reads_as_it_was_meant() {
        let command = |words: &[&str]| {
            RepairCommand::of_tasks("depend", words.iter().map(|word| (*word).to_owned()))
        };
        let shown = |words: &[&str]| command(words).to_string();
        assert_eq!(shown(&["--off=b", "--", "a"]), "abide tasks depend --off=b -- a");
        assert_eq!(shown(&["it's $x"]), r"abide tasks depend 'it'\''s $x'");
        assert_eq!(shown(&[r"a\ b"]), r"abide tasks depend 'a'\\' b'");
        assert_eq!(shown(&["", "é"]), "abide tasks depend '' 'é'");
        let with = command(&["a"]).with_option("--session", "s 1");
        assert_eq!(with.to_string(), "abide tasks depend '--session=s 1' a");
    }
}
