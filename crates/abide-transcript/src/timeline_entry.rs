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
    /// The other events of a call: those that say that it ran and how it ended.
    pub events: Vec<Seq>,
    /// When it happened.
    pub at: Timestamp,
    /// Its turn and task.
    pub place: EventPlace,
    /// Its lane; `None` for the main lane.
    pub lane: Option<LaneId>,
    /// The name of its lane: what the call was about that the lane belongs to, or its id.
    pub lane_title: Option<String>,
    /// Whether a rewind removed it from the lineage.
    pub rewound: bool,
    /// What happened.
    pub what: EntryBody,
}

impl TimelineEntry {
    /// Whether it is machinery, which is shown only on request.
    #[must_use]
    pub const fn is_minor(&self) -> bool {
        matches!(
            self.what,
            EntryBody::Note { weight: NoteWeight::Minor, .. }
                | EntryBody::Task { weight: NoteWeight::Minor, .. }
                | EntryBody::File { weight: NoteWeight::Minor, .. }
        )
    }

    /// Changes every text of it; of a call, its title and its lane's.
    pub(crate) fn map_texts(&mut self, change: &dyn Fn(&mut String)) {
        self.lane_title.iter_mut().for_each(change);
        match &mut self.what {
            EntryBody::Message { parts, .. } => {
                for part in parts {
                    match part {
                        EntryPart::Text(text)
                        | EntryPart::Thinking(text)
                        | EntryPart::Context(text)
                        | EntryPart::Attachment(text) => change(text),
                        EntryPart::Image(image) => change(&mut image.address),
                        EntryPart::Fields(fields) => {
                            fields.iter_mut().for_each(|field| change(&mut field.value));
                        }
                    }
                }
            }
            EntryBody::Call(call) | EntryBody::LateResult(call) => change(&mut call.title),
            EntryBody::Status { reason, summary, .. } => {
                reason.iter_mut().chain(summary).for_each(change);
            }
            EntryBody::Decided { choice, reason } => {
                change(choice);
                reason.iter_mut().for_each(change);
            }
            EntryBody::Task { text, .. } => text.iter_mut().for_each(change),
            EntryBody::File { path, to, .. } => {
                change(path);
                to.iter_mut().for_each(change);
            }
            EntryBody::Note { text, .. } => change(text),
            EntryBody::TurnStarted { .. } | EntryBody::TurnFinished { .. } => {}
        }
    }

    /// Whether it is a tool call or its result.
    #[must_use]
    pub const fn is_call(&self) -> bool {
        matches!(self.what, EntryBody::Call(_) | EntryBody::LateResult(_))
    }

    /// Whether this event is part of it.
    #[must_use]
    pub fn holds(&self, event: Seq) -> bool {
        self.seq == event || self.events.contains(&event)
    }
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
    /// A result whose call came too long before to be joined with it, or never. The name of a call
    /// that is not remembered is empty.
    LateResult(TimelineCall),
    /// A task was created or changed.
    Task {
        /// Which one.
        task: TaskId,
        /// The change, in a word or two.
        change: String,
        /// Its title, or the reason for the change.
        text: Option<String>,
        /// How prominent it is: a run makes tasks of its own.
        weight: NoteWeight,
    },
    /// A file was read or changed.
    File {
        /// The operation.
        op: FileOp,
        /// Which one.
        path: String,
        /// The new path, for a rename.
        to: Option<String>,
        /// How prominent it is: a call may have told of it.
        weight: NoteWeight,
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
    /// Machinery: shown only on request.
    Minor,
}

/// A part of a message. Its calls and results are entries of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryPart {
    /// Text.
    Text(String),
    /// The model's reasoning.
    Thinking(String),
    /// What an agent put before the words of a person: reminders, the environment.
    Context(String),
    /// An image.
    Image(TimelineImage),
    /// A document, a recording or another block that holds no text, by its name.
    Attachment(String),
    /// A block of an unknown type: its fields.
    Fields(Vec<CallField>),
}

/// An image, by its data or its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineImage {
    /// Its media type, or empty.
    pub media_type: String,
    /// Its bytes in base64, or empty if it is known by its address only.
    pub base64: String,
    /// Its address, or empty.
    pub address: String,
}

impl TimelineImage {
    /// The number of bytes of its data.
    #[must_use]
    pub fn size(&self) -> u64 {
        let padding = self.base64.bytes().rev().take_while(|byte| *byte == b'=').count();
        u64::try_from((self.base64.len() / 4 * 3).saturating_sub(padding)).unwrap_or(u64::MAX)
    }
}

/// A name with a value, for what no renderer knows better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallField {
    /// The name; empty for a value that has none.
    pub name: String,
    /// The value; it may have several lines.
    pub value: String,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineCall {
    /// Its id, shared with its result.
    pub call: String,
    /// The tool's name.
    pub name: String,
    /// The agent's own title for it, where that says more than the name; or empty.
    pub title: String,
    /// Its arguments: JSON, or text if the model sent none. Empty if there are none.
    pub arguments: String,
    /// The changes of files that the agent reported for it.
    pub changes: Vec<CallChange>,
    /// The directory that paths are shown relative to, or empty.
    pub workspace: String,
    /// Whether it was observed from outside rather than run by the recorder.
    pub observed: bool,
    /// How it ended.
    pub outcome: CallOutcome,
}

impl TimelineCall {
    /// A call of which no more is known than who was called with what.
    pub(crate) fn new(call: String, name: String, arguments: String) -> Self {
        Self {
            call,
            name,
            title: String::new(),
            arguments,
            changes: Vec::new(),
            workspace: String::new(),
            observed: false,
            outcome: CallOutcome::Unknown,
        }
    }
}

/// The change of a file, as an agent reported it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallChange {
    /// The path.
    pub path: String,
    /// The text before.
    pub old: String,
    /// The text after.
    pub new: String,
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
        output: CallOutput,
        /// Its duration in milliseconds, if its start is known.
        millis: Option<i64>,
    },
}

/// The output of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallOutput {
    /// Its text: as it was given, or JSON.
    pub text: String,
    /// Its images.
    pub images: Vec<TimelineImage>,
    /// The exit code of a command, where it is told beside the text.
    pub exit: Option<i64>,
}
