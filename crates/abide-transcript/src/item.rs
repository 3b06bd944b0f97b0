//! The items of a story: what happened, ready to be shown. All texts are as they were recorded.

use abide_model::{
    FileOp, LaneId, Seq, SessionStatus, TaskId, Timestamp, TurnNumber, TurnRole, Usage,
};

use crate::Place;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The event it begins with.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// Its turn and its task.
    pub place: Place,
    /// Its lane; none is the main one.
    pub lane: Option<LaneId>,
    /// A rewind took it out of the lineage.
    pub rewound: bool,
    /// What it is.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The session's status.
    Status {
        /// Where it stands now.
        status: SessionStatus,
        /// Why.
        reason: Option<String>,
        /// What came of it.
        summary: Option<String>,
    },
    /// A turn began.
    TurnStarted {
        /// Its number.
        number: TurnNumber,
        /// Which agent.
        agent: String,
        /// Agent or arbiter.
        role: TurnRole,
    },
    /// An arbiter decided.
    Decided {
        /// Whom it chose, or what else.
        choice: String,
        /// Why.
        reason: Option<String>,
    },
    /// A turn is over.
    TurnFinished {
        /// Its number, where it is known.
        number: Option<TurnNumber>,
        /// How it ended.
        status: String,
        /// How long it took, in milliseconds, where its beginning is known.
        millis: Option<i64>,
        /// What it used.
        usage: Option<Usage>,
    },
    /// Somebody said something.
    Message {
        /// Who.
        role: String,
        /// What.
        parts: Vec<Part>,
    },
    /// A tool ran.
    Call(Call),
    /// A result whose call was told long before, or never.
    LateResult {
        /// Which call.
        call: String,
        /// How it ended.
        outcome: Outcome,
    },
    /// A task was made or changed.
    Task {
        /// Which.
        task: TaskId,
        /// What is now so, in a word or two.
        change: String,
        /// Its title, or why it changed.
        text: Option<String>,
    },
    /// A file was touched.
    File {
        /// What was done.
        op: FileOp,
        /// Which.
        path: String,
        /// Its new path, for a rename.
        to: Option<String>,
    },
    /// Anything else.
    Note {
        /// What sort of thing.
        label: String,
        /// What it says.
        text: String,
        /// How much it matters to a reader.
        weight: Weight,
    },
}

/// How much something matters to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// It should be seen.
    Normal,
    /// It is there for those who look for it.
    Minor,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// The model thinking aloud.
    Thinking(String),
    /// The model asks for a tool, and nothing tells that it ran.
    Asked(Call),
    /// What a tool gave, where nothing else tells it.
    Result {
        /// Which call.
        call: String,
        /// How it ended.
        outcome: Outcome,
    },
    /// A part of another sort, as JSON.
    Other(String),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Joins it with its result.
    pub call: String,
    /// Which tool.
    pub name: String,
    /// What it is about: a command, a path.
    pub target: String,
    /// With what, where the target does not say it all.
    pub arguments: Option<String>,
    /// It was only seen from outside.
    pub observed: bool,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is known of it.
    Unknown,
    /// It ended.
    Ended {
        /// Well?
        ok: bool,
        /// What it gave.
        text: String,
        /// After how many milliseconds, where its beginning is known.
        millis: Option<i64>,
    },
}
