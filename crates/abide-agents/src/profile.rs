//! All that the rest of the code asks of an agent.

use crate::invocation::{AgentProgram, PromptInput, PromptSlot};
use crate::limits::LimitTexts;
use crate::output::{EventOutputDecoder, OutputReader, PriorSession};
use crate::{AgentHooks, KeptSessions};

/// An agent. Each one stands in the `mod.rs` of its folder.
#[derive(Debug)]
pub(crate) struct AgentProfile {
    /// The name under which it is recorded, and by which a user asks for it. It never changes.
    pub name: &'static str,
    /// Its programs. The first is the one that its installation makes.
    pub programs: &'static [AgentProgram],
    /// Does it print events when it is started with these arguments?
    pub prints_events: fn(arguments: &[String]) -> bool,
    /// The arguments that make it print events, for a person; `None` if it never does.
    pub event_arguments: Option<&'static str>,
    /// The arguments with which it goes on in a session of its own; `None` where it cannot.
    pub resume: fn(arguments: &[String], session: &str) -> Option<Vec<String>>,
    /// The place of the prompt in its arguments; `None` where it reads the prompt from stdin.
    pub prompt: fn(arguments: &[String]) -> Option<PromptSlot>,
    /// What it makes of a text on stdin, by its arguments; `None` where it reads no prompt there.
    pub input: fn(arguments: &[String]) -> Option<PromptInput>,
    /// What it prints.
    pub output: Output,
    /// Does a call of its shell tool fail where the command fails?
    pub reports_exit: bool,
    /// The sessions that it keeps in files of its own; `None` where it keeps none, or they are not known.
    pub kept: Option<&'static KeptSessions>,
    /// How it tells of its work while it works; `None` where abide has no hook in it.
    pub hooks: Option<&'static AgentHooks>,
    /// How it tells that a limit was met, besides the ways that all know.
    pub limits: LimitTexts,
}

/// In what form an agent prints, with what reads it.
#[derive(Debug)]
pub(crate) enum Output {
    /// One JSON object a line, with plain lines between them.
    Events(fn(PriorSession) -> Box<dyn EventOutputDecoder>),
    /// Text for people.
    Text(fn(PriorSession) -> Box<dyn OutputReader>),
}
