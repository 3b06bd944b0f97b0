//! The agents whose output is understood.

use std::fmt;
use std::str::FromStr;

use super::command;

/// A form in which an agent prints what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AgentKind {
    /// Claude Code with `--output-format stream-json`.
    Claude,
    /// `codex exec --json`.
    Codex,
    /// Gemini CLI with `--output-format stream-json`.
    Gemini,
    /// Any other command: what it prints is what it says.
    Text,
}

/// There is no agent of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no kind of agent; there are claude, codex, gemini and text")]
pub struct UnknownAgent {
    /// The name.
    pub name: String,
}

impl AgentKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::Text];

    /// The name under which it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Text => "text",
        }
    }

    /// The form in which this command will print, by the name of its program and by the flags that
    /// make it print events; [`AgentKind::Text`] where either says nothing of it.
    #[must_use]
    pub fn detect(command: &[String]) -> Self {
        command::detect(command)
    }

    /// The command that goes on in the agent's own session: with the same flags, and with the
    /// prompt where it was. `None` where the agent or this command knows no such thing.
    #[must_use]
    pub fn resume(self, command: &[String], session: &str) -> Option<Vec<String>> {
        command::resume(self, command, session)
    }
}

impl fmt::Display for AgentKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for AgentKind {
    type Err = UnknownAgent;

    fn from_str(name: &str) -> Result<Self, UnknownAgent> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        found.ok_or_else(|| UnknownAgent { name: name.to_owned() })
    }
}
