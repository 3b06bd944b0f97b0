//! The agents whose output is understood.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::invocation::AgentProgram;
use crate::profile::{AgentProfile, Output};
use crate::profiles::PROFILES;
use crate::{AgentHooks, KeptSessions, PromptInput, PromptSlot, command, invocation};

/// A form in which an agent prints what it does: a handle for a line in the table of agents.
#[derive(Clone, Copy)]
pub struct AgentKind(&'static AgentProfile);

/// There is no agent of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no kind of agent; there are {}", list_of_kinds())]
pub struct UnknownAgent {
    /// The name.
    pub name: String,
}

impl AgentKind {
    /// Every kind.
    pub fn all() -> impl ExactSizeIterator<Item = Self> + Clone {
        PROFILES.iter().copied().map(Self::of)
    }

    pub(crate) const fn of(profile: &'static AgentProfile) -> Self {
        Self(profile)
    }

    pub(crate) const fn profile(self) -> &'static AgentProfile {
        self.0
    }

    /// The name under which it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0.name
    }

    /// Does it print text for people? Any command does of which nothing else is known: what it
    /// prints is what it says. So do agents of which no other form is known.
    #[must_use]
    pub const fn prints_text(self) -> bool {
        matches!(self.0.output, Output::Text(_))
    }

    /// Does a call of its shell tool fail where the command fails? Else a successful call says only
    /// that the command was run.
    #[must_use]
    pub const fn reports_exit(self) -> bool {
        self.0.reports_exit
    }

    /// The program that its installation makes; empty where any command is meant.
    #[must_use]
    pub fn program(self) -> &'static str {
        self.0.programs.first().map_or("", AgentProgram::name)
    }

    /// The sessions that it keeps in files of its own, if abide knows them.
    #[must_use]
    pub const fn kept_sessions(self) -> Option<&'static KeptSessions> {
        self.0.kept
    }

    /// How it tells of its work while it works, if abide has hooks in it.
    #[must_use]
    pub const fn hooks(self) -> Option<&'static AgentHooks> {
        self.0.hooks
    }

    /// The form in which this command will print, by the name of its program and by the flags that
    /// make it print events; [text](AgentKind::prints_text) where either says nothing of it.
    #[must_use]
    pub fn detect(command: &[String]) -> Self {
        invocation::detect_invocation(command).unwrap_or(Self(&command::PROFILE))
    }

    /// The agent whose program this command starts, whatever it will print.
    #[must_use]
    pub fn started_by(command: &[String]) -> Option<Self> {
        invocation::started(command)
    }

    /// The arguments with which a command of this agent's would print events, if it is one that takes a
    /// prompt and prints text.
    #[must_use]
    pub fn event_arguments(self, command: &[String]) -> Option<&'static str> {
        let asks = self.prompt_slot(command).is_some() || self.prompt_input(command).is_some();
        self.0.event_arguments.filter(|_| asks && Self::detect(command).prints_text())
    }

    /// The place of the prompt in a command of this agent's. `None` where it is no such command, or
    /// reads its prompt from stdin.
    #[must_use]
    pub fn prompt_slot(self, command: &[String]) -> Option<PromptSlot> {
        invocation::prompt_slot(self, command)
    }

    /// What this agent makes of a text on the stdin of its command. `None` where it is no such
    /// command, or reads no prompt there.
    #[must_use]
    pub fn prompt_input(self, command: &[String]) -> Option<PromptInput> {
        invocation::prompt_input(self, command)
    }

    /// The command that goes on in the agent's own session: with the same flags, and with the
    /// prompt where it was. `None` where the agent or this command knows no such thing.
    #[must_use]
    pub fn resume(self, command: &[String], session: &str) -> Option<Vec<String>> {
        invocation::resume_invocation(self, command, session)
    }

    /// Where it stands in the table.
    fn position(self) -> Option<usize> {
        PROFILES.iter().position(|profile| profile.name == self.0.name)
    }
}

impl PartialEq for AgentKind {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for AgentKind {}

impl Hash for AgentKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl PartialOrd for AgentKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for AgentKind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.position().cmp(&other.position())
    }
}

impl fmt::Debug for AgentKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("AgentKind").field(&self.0.name).finish()
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
        let found = Self::all().find(|kind| kind.as_str() == name);
        found.ok_or_else(|| UnknownAgent { name: name.to_owned() })
    }
}

/// The names of all kinds: `a, b and c`.
fn list_of_kinds() -> String {
    let names: Vec<&str> = AgentKind::all().map(AgentKind::as_str).collect();
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => names.concat(),
    }
}
