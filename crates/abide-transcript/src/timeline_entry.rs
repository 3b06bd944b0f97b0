//! The entries of a timeline, ready to be rendered. All texts are as recorded, unescaped.

use abide_model::{
    FileOp, LaneId, Seq, SessionStatus, TaskId, Timestamp, TurnNumber, TurnRole, Usage,
};

use crate::EventPlace;

/// An entry of the timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineEntry {
    /// Its first event.
    pub seq: Seq,
    /// When it happened.
    pub at: Timestamp,
    /// Its turn and task.
    pub place: EventPlace,
    /// Its lane; `None` for the main lane.
    pub lane: Option<LaneId>,
    /// Whether a rewind removed it from the lineage.
    pub rewound: bool,
    /// What happened.
    pub what: EntryBody,
}

/// The content of an entry: what happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryBody {
    /// The session's status changed.
    Status {
        /// The new status.
        status: SessionStatus,
        /// The reason, if given.
        reason: Option<String>,
        /// A summary of the outcome.
        summary: Option<String>,
    },
    /// A turn began.
    TurnStarted {
        /// Its number.
        number: TurnNumber,
        /// The agent.
        agent: String,
        /// Its role: agent or arbiter.
        role: TurnRole,
    },
    /// An arbiter decided.
    Decided {
        /// The agent it chose, or its other decision.
        choice: String,
        /// The reason, if given.
        reason: Option<String>,
    },
    /// A turn ended.
    TurnFinished {
        /// Its number, if known.
        number: Option<TurnNumber>,
        /// How it ended.
        status: String,
        /// Its duration in milliseconds, if its start is known.
        millis: Option<i64>,
        /// The tokens and cost it used.
        usage: Option<Usage>,
    },
    /// A message.
    Message {
        /// The role of its author.
        role: String,
        /// Its parts, in order.
        parts: Vec<EntryPart>,
    },
    /// A tool call.
    Call(TimelineCall),
    /// A result whose call came too long before to be joined with it, or never.
    LateResult {
        /// The id of the call.
        call: String,
        /// How it ended.
        outcome: CallOutcome,
    },
    /// A task was created or changed.
    Task {
        /// Which one.
        task: TaskId,
        /// The change, in a word or two.
        change: String,
        /// Its title, or the reason for the change.
        text: Option<String>,
    },
    /// A file was read or changed.
    File {
        /// The operation.
        op: FileOp,
        /// Which one.
        path: String,
        /// The new path, for a rename.
        to: Option<String>,
    },
    /// Anything else, on a line.
    Note {
        /// The label of the line.
        label: String,
        /// The text after the label.
        text: String,
        /// How prominent it is.
        weight: NoteWeight,
    },
}

/// How prominent a note is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteWeight {
    /// Always shown.
    Normal,
    /// A detail: dimmed or left out.
    Minor,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryPart {
    /// Text.
    Text(String),
    /// The model's reasoning.
    Thinking(String),
    /// A call that the model requested, with no event that says it ran.
    Asked(TimelineCall),
    /// A tool's result that no other event records.
    Result {
        /// The id of the call.
        call: String,
        /// How it ended.
        outcome: CallOutcome,
    },
    /// A part of any other type, as JSON.
    Other(String),
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineCall {
    /// Its id, shared with its result.
    pub call: String,
    /// The tool's name.
    pub name: String,
    /// Its subject: a command or a path.
    pub target: String,
    /// The remaining arguments; `None` where the target says it all.
    pub arguments: Option<String>,
    /// Whether it was observed from outside rather than run by the recorder.
    pub observed: bool,
    /// How it ended.
    pub outcome: CallOutcome,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// No result is recorded.
    Unknown,
    /// It ended.
    Ended {
        /// Whether it succeeded.
        ok: bool,
        /// Its output.
        text: String,
        /// Its duration in milliseconds, if its start is known.
        millis: Option<i64>,
    },
}
