//! What a run tells of itself while it goes.

use std::time::Duration;

use abide::{CheckpointMade, LaneId, SessionId, TaskId, TaskStatus, Timestamp, Usage};

use crate::leftover::Interrupted;
use crate::options::{Decision, Way};
use crate::stop::Urgency;
use crate::summary::RunSummary;

/// Where an agent prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Its stdout.
    Out,
    /// Its stderr.
    Err,
}

/// Something that happened in a run.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// It began.
    Started {
        /// In which session.
        session: SessionId,
        /// The time between two checkpoints.
        interval: Duration,
    },
    /// Processes of an earlier run were still there, and were ended.
    LeftBehind {
        /// The task they worked on; none where it was an earlier run's.
        task: Option<TaskId>,
        /// How many.
        processes: usize,
    },
    /// An earlier run left a task in the middle.
    Interrupted {
        /// Which, with the calls whose outcome is unknown.
        left: Box<Interrupted>,
        /// What becomes of it.
        decision: Decision,
    },
    /// An agent begins with a task.
    TaskStarted {
        /// Which.
        task: TaskId,
        /// Its title.
        title: String,
        /// For the how many-th time.
        attempt: u64,
        /// In which lane.
        lane: Option<LaneId>,
        /// How, where it was interrupted before.
        way: Option<Way>,
        /// Its process.
        process: u32,
    },
    /// What the agent is doing, in a line.
    Step {
        /// For which task.
        task: TaskId,
        /// The line.
        text: String,
    },
    /// The agent said something that is recorded as a message.
    Message {
        /// For which task.
        task: TaskId,
        /// The data of the message, as JSON.
        data: String,
    },
    /// The agent printed something.
    Output {
        /// For which task.
        task: TaskId,
        /// Where.
        stream: Stream,
        /// What.
        bytes: Vec<u8>,
    },
    /// Tokens were used.
    Usage {
        /// For which task.
        task: TaskId,
        /// How many.
        usage: Usage,
    },
    /// A rate limit was met: nothing is begun until then.
    Waiting {
        /// For which task.
        task: TaskId,
        /// Until when.
        until: Timestamp,
        /// What was said of it.
        why: String,
    },
    /// The agent is done with a task.
    TaskEnded {
        /// Which.
        task: TaskId,
        /// Its title.
        title: String,
        /// Where it stands now.
        status: TaskStatus,
        /// Why.
        reason: Option<String>,
        /// It took so long.
        took: Duration,
    },
    /// A checkpoint was made.
    Checkpoint(Box<CheckpointMade>),
    /// Something went wrong that does not end the run.
    Warning(String),
    /// It was asked to stop.
    Stopping(Urgency),
    /// It has ended.
    Stopped(Box<RunSummary>),
}
