//! Observations from the output of an agent.

use abide_model::{FileOp, Timestamp, Usage};
use serde_json::value::RawValue;

/// An observation from an agent's output.
#[derive(Debug, Clone)]
pub struct OutputObservation {
    /// The subagent it concerns, by the id of the call that started it; `None` for the agent
    /// itself.
    pub subagent: Option<String>,
    /// What was observed.
    pub what: ObservedFact,
}

/// What an agent's output reports.
#[derive(Debug, Clone)]
pub enum ObservedFact {
    /// The agent's own id for its session, which can be used to resume it.
    Session {
        /// The id.
        id: String,
    },
    /// The model it uses.
    Model {
        /// The model's name.
        name: String,
    },
    /// A message.
    Message {
        /// The data of a `message.added` event: `{"role":…,"content":…}`.
        data: Box<RawValue>,
    },
    /// A tool call began.
    Called {
        /// The agent's id of it. Some count `item_0`, `item_1` anew in every process: see
        /// [`PriorSession::calls`](super::PriorSession::calls).
        call: String,
        /// The tool's name.
        name: String,
        /// The arguments.
        arguments: Option<Box<RawValue>>,
    },
    /// A tool call ended.
    Finished {
        /// The id of the call.
        call: String,
        /// Whether it succeeded.
        ok: bool,
        /// The result.
        result: Option<Box<RawValue>>,
    },
    /// A file was read or changed.
    Touched {
        /// Its path, as the agent reports it.
        path: String,
        /// The operation.
        op: FileOp,
    },
    /// Tokens and cost since the last report.
    Usage {
        /// The model, if reported.
        model: Option<String>,
        /// The amounts.
        usage: Usage,
    },
    /// A limit stops the agent.
    Limited(ReachedLimit),
    /// Anything else worth recording.
    Note {
        /// `info`, `warning` or `error`.
        level: &'static str,
        /// The text.
        text: String,
    },
    /// What the agent is doing now: one short line for people.
    Step {
        /// The line.
        text: String,
    },
    /// How the agent says its task ended.
    Outcome {
        /// Whether it reports success.
        ok: bool,
        /// Its final text.
        text: Option<String>,
    },
}

/// A rate limit or quota that was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReachedLimit {
    /// Its name: `five_hour`, `usage`, `quota`, `rate` …
    pub name: String,
    /// When it resets, if that is stated unambiguously.
    pub resets: Option<Timestamp>,
    /// The agent's own words.
    pub text: String,
}

/// Tells what the agent itself did.
pub(crate) fn tell_observed(see: &mut dyn FnMut(OutputObservation), what: ObservedFact) {
    see(OutputObservation { subagent: None, what });
}

/// Tells a note.
pub(crate) fn note_observed(
    see: &mut dyn FnMut(OutputObservation),
    level: &'static str,
    text: impl Into<String>,
) {
    tell_observed(see, ObservedFact::Note { level, text: text.into() });
}
