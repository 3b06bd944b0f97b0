//! The events that a run reports while it goes on.

use std::time::Duration;

use abide::{
    LaneId, SessionId, TaskStatus, Timestamp, checkpoint::RecordedCheckpoint,
    context::CompactionResult, event::Usage, tasks::TaskId,
};

use crate::leftover_work::InterruptedTask;
use crate::limits::LimitUse;
use crate::run_options::{ResumeMode, RetryDecision};
use crate::run_summary::RunSummary;
use crate::stop::StopUrgency;

/// An output stream of an agent.
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
    /// The run began.
    Started {
        /// Its session.
        session: SessionId,
        /// The time between two checkpoints; `None` if none are made.
        interval: Option<Duration>,
    },
    /// Processes of an earlier run or task were still running, and were ended.
    LeftBehind {
        /// The task they worked on; `None` if they were an earlier run's.
        task: Option<TaskId>,
        /// How many.
        processes: usize,
    },
    /// An earlier run left a task unfinished.
    Interrupted {
        /// The task, with the calls whose outcome is unknown.
        left: Box<InterruptedTask>,
        /// What happens to it.
        decision: RetryDecision,
    },
    /// An agent was started on a task.
    TaskStarted {
        /// The task.
        task: TaskId,
        /// Its title.
        title: String,
        /// The number of the attempt.
        attempt: u64,
        /// Its lane.
        lane: Option<LaneId>,
        /// How it is resumed, if it was interrupted before.
        way: Option<ResumeMode>,
        /// The agent's process id.
        process: u32,
    },
    /// An agent was started on the session's conversation.
    AgentStarted {
        /// How it goes on; `None` if there is nothing to tell it.
        way: Option<ResumeMode>,
        /// The agent's process id.
        process: u32,
    },
    /// What the agent is doing, in one line.
    Step {
        /// The agent's task; `None` in a conversation.
        task: Option<TaskId>,
        /// The line.
        text: String,
    },
    /// The agent said something that is recorded as a message.
    Message {
        /// The agent's task; `None` in a conversation.
        task: Option<TaskId>,
        /// The data of the message, as JSON.
        data: String,
    },
    /// The agent printed something.
    Output {
        /// The agent's task; `None` in a conversation.
        task: Option<TaskId>,
        /// To which stream.
        stream: Stream,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Tokens were used.
    Usage {
        /// The agent's task; `None` in a conversation.
        task: Option<TaskId>,
        /// The usage.
        usage: Usage,
    },
    /// A rate limit was hit: no task is started until it is over.
    Waiting {
        /// The task that hit it; `None` in a conversation.
        task: Option<TaskId>,
        /// When it is over.
        until: Timestamp,
        /// The agent's message about it.
        why: String,
    },
    /// An agent says that its task is done, and its check was started.
    CheckStarted {
        /// The task.
        task: TaskId,
        /// The check.
        command: String,
        /// Its process id.
        process: u32,
    },
    /// A check has ended.
    CheckEnded {
        /// The task.
        task: TaskId,
        /// The check.
        command: String,
        /// Whether it succeeded.
        ok: bool,
        /// Its exit code; `None` if a signal ended it.
        exit: Option<i32>,
        /// How long it took.
        took: Duration,
    },
    /// The agent of a conversation has ended.
    AgentEnded {
        /// How its turn ended: `done`, `failed`, `interrupted` or `limited`.
        turn: &'static str,
        /// The reason for it.
        reason: Option<String>,
        /// How long it took.
        took: Duration,
    },
    /// An agent has finished with a task.
    TaskEnded {
        /// The task.
        task: TaskId,
        /// Its title.
        title: String,
        /// Its status now.
        status: TaskStatus,
        /// The reason for it.
        reason: Option<String>,
        /// How long it took.
        took: Duration,
    },
    /// A checkpoint was made.
    Checkpoint(Box<RecordedCheckpoint>),
    /// Most of a limit is used, or all of it: then the run stops.
    Limit(LimitUse),
    /// A context was compacted.
    Compacted {
        /// The lane; `None` for the main lane.
        lane: Option<LaneId>,
        /// The compaction.
        result: Box<CompactionResult>,
    },
    /// A problem that does not end the run.
    Warning(String),
    /// The run was asked to stop.
    Stopping(StopUrgency),
    /// The run has ended.
    Stopped(Box<RunSummary>),
}
