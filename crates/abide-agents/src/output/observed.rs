//! What was seen in the output of an agent.

use abide_model::{FileOp, Timestamp, Usage};
use serde_json::value::RawValue;

/// Something that an agent's output tells.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Which agent below it is meant, by the id of the call that started it; `None` for itself.
    pub subagent: Option<String>,
    /// What.
    pub what: Observed,
}

/// What an agent's output tells.
#[derive(Debug, Clone)]
pub enum Observed {
    /// The agent's own name for its session, by which it can be resumed.
    Session {
        /// The name.
        id: String,
    },
    /// Which model it uses.
    Model {
        /// Its name.
        name: String,
    },
    /// A message: the data of a `message.added`.
    Message {
        /// `{"role":…,"content":…}`.
        data: Box<RawValue>,
    },
    /// A tool is used.
    Called {
        /// The agent's id of it. Some count `item_0`, `item_1` anew in every process: see
        /// [`Before::calls`](super::Before::calls).
        call: String,
        /// Which tool.
        name: String,
        /// With what.
        arguments: Option<Box<RawValue>>,
    },
    /// A tool came back.
    Finished {
        /// Of which call.
        call: String,
        /// Did it do what it should?
        ok: bool,
        /// What it gave.
        result: Option<Box<RawValue>>,
    },
    /// A file was read or changed.
    Touched {
        /// Its path, as the agent tells it.
        path: String,
        /// What was done to it.
        op: FileOp,
    },
    /// Tokens and money since what was told before.
    Usage {
        /// Of which model, where it is told.
        model: Option<String>,
        /// How much.
        usage: Usage,
    },
    /// A limit keeps the agent from going on.
    Limited(Limited),
    /// Something that is worth a record and fits nothing else.
    Note {
        /// `info`, `warning` or `error`.
        level: &'static str,
        /// What.
        text: String,
    },
    /// What it is doing now: one short line, for people.
    Step {
        /// The line.
        text: String,
    },
    /// The agent's last word on its task.
    Outcome {
        /// Does it say that it did it?
        ok: bool,
        /// What it says.
        text: Option<String>,
    },
}

/// A rate limit or quota that was met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    /// Which: `five_hour`, `usage`, `quota`, `rate` …
    pub name: String,
    /// When it is over, where that is told in a way that leaves no doubt.
    pub resets: Option<Timestamp>,
    /// The words in which it was told.
    pub text: String,
}

/// Tells what the agent itself did.
pub(crate) fn tell(see: &mut dyn FnMut(Seen), what: Observed) {
    see(Seen { subagent: None, what });
}

/// Tells a note.
pub(crate) fn note(see: &mut dyn FnMut(Seen), level: &'static str, text: impl Into<String>) {
    tell(see, Observed::Note { level, text: text.into() });
}
