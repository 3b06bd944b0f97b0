//! Options of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use abide::config::CheckpointSwitch;
use abide::context::{AutoCompaction, CompactionSettings};
use abide::tasks::TaskId;
use abide_agents::AgentKind;
use serde::{Deserialize, Serialize};

use crate::limits::RunLimits;
use crate::prompt;

/// How an interrupted task is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeMode {
    /// The best that is possible: inside, else outside, else from the start.
    #[default]
    Auto,
    /// Inside the agent's own session.
    Inside,
    /// In a new session of the agent's, with a prompt that says what was done before.
    Outside,
    /// From the start.
    Restart,
}

impl ResumeMode {
    /// The mode in words.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::Auto | Self::Restart => "from the start",
            Self::Inside => "inside the agent's own session",
            Self::Outside => "with a prompt that says what was done before",
        }
    }
}

/// What to do with an interrupted task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryDecision {
    /// Do it again.
    #[default]
    Retry,
    /// Leave it, as blocked.
    Skip,
}

/// What an agent is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunGoal {
    /// The command itself is the only task.
    #[default]
    Command,
    /// Each task of the session, one after the other.
    Tasks,
    /// The conversation of a session without a task list: no task is recorded, and the session's
    /// status stays.
    Conversation,
}

/// Options of a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The agent's program and its arguments. `{prompt}`, `{task}` (the same), `{id}` and `{title}`
    /// in an argument are replaced by those of the task, or of the session if it goes on with its
    /// conversation. A task is written to stdin if no argument contains it; a conversation is given
    /// as the agent's prompt argument, or to stdin if the agent is unknown.
    pub command: Vec<String>,
    /// How the agent's output is read.
    pub adapter: AgentKind,
    /// The name of the agent in the configuration, if it has one there.
    pub agent: Option<String>,
    /// The agent's working directory.
    pub directory: PathBuf,
    /// Variables added to the agent's environment.
    pub environment: BTreeMap<String, String>,
    /// What the agent is started for.
    pub goal: RunGoal,
    /// With each task the agent is told the earlier conversation of the session, too.
    pub primed: bool,
    /// Run only this task and its parts.
    pub scope: Option<TaskId>,
    /// Continue with other tasks when one fails.
    pub continue_on_error: bool,
    /// How often a failed task is retried; by default twice if it has a check, else not at all.
    pub retries: Option<u64>,
    /// A shell command that decides whether a task is done, for tasks without a check of their own.
    pub check: Option<String>,
    /// The checks of tasks that the user has accepted. A task with another one is set aside.
    pub accepted_checks: BTreeSet<String>,
    /// How many tasks run at the same time.
    pub jobs: usize,
    /// The most tasks to start.
    pub max_tasks: Option<u64>,
    /// The most that the run may use.
    pub limits: RunLimits,
    /// Whether checkpoints are made.
    pub checkpoint: CheckpointSwitch,
    /// The time between two checkpoints; by default it depends on the expected duration.
    pub checkpoint_every: Option<Duration>,
    /// When the contexts of the session are compacted by themselves, and by whom; `None` for never.
    pub compaction: Option<CompactionSettings>,
    /// How interrupted tasks are resumed.
    pub way: ResumeMode,
    /// Retry tasks that failed in an earlier run.
    pub retry_failed: bool,
    /// The statuses of the tasks are written back into the plan's document.
    pub write_back: bool,
    /// How long an agent may take to exit when asked to, before it is killed.
    pub grace: Duration,
    /// The agent inherits the stdin of this process, unless it gets its task there.
    pub inherit_stdin: bool,
    /// The agent talks with the person at this terminal: it gets a pseudo-terminal connected to it.
    /// The caller must have put the terminal into raw mode.
    pub interactive: bool,
}

impl RunOptions {
    /// The defaults, for this agent command.
    #[must_use]
    pub fn new(command: Vec<String>, directory: PathBuf) -> Self {
        Self {
            adapter: AgentKind::detect(&command),
            agent: None,
            command,
            directory,
            environment: BTreeMap::new(),
            goal: RunGoal::default(),
            primed: false,
            scope: None,
            continue_on_error: false,
            retries: None,
            check: None,
            accepted_checks: BTreeSet::new(),
            jobs: 1,
            max_tasks: None,
            limits: RunLimits::default(),
            checkpoint: CheckpointSwitch::default(),
            checkpoint_every: None,
            compaction: None,
            way: ResumeMode::default(),
            retry_failed: false,
            write_back: false,
            grace: Duration::from_secs(10),
            inherit_stdin: false,
            interactive: false,
        }
    }

    /// Whether the agent gets its prompt as an argument, which leaves stdin free.
    #[must_use]
    pub fn prompts_by_argument(&self) -> bool {
        let agent = AgentKind::started_by(&self.command);
        prompt::is_held(&self.command)
            || agent.is_some_and(|agent| agent.prompt_slot(&self.command).is_some())
    }

    /// The time between two checkpoints: as configured, else by how long the run may take. For an
    /// unlimited run that is not known; half an hour suits the longest. `None` if none are made.
    #[must_use]
    pub fn interval(&self) -> Option<Duration> {
        self.checkpoint.is_on().then(|| self.checkpoint_interval())
    }

    fn checkpoint_interval(&self) -> Duration {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let expected = self.limits.duration.map(|most| most.as_secs() / 60);
        self.checkpoint_every.unwrap_or(match expected {
            Some(0..60) => minutes(10),
            Some(60..180) => minutes(15),
            Some(180..360) => minutes(20),
            _ => minutes(30),
        })
    }
}

/// The options that are recorded, so that a later run can continue with them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedOptions {
    /// See [`RunOptions::agent`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// See [`RunOptions::scope`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<TaskId>,
    /// See [`RunOptions::continue_on_error`].
    pub continue_on_error: bool,
    /// See [`RunOptions::retries`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// See [`RunOptions::check`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// See [`RunOptions::jobs`].
    pub jobs: usize,
    /// See [`RunOptions::checkpoint`].
    #[serde(skip_serializing_if = "CheckpointSwitch::is_on")]
    pub checkpoint: CheckpointSwitch,
    /// See [`RunOptions::checkpoint_every`], in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// What was asked for in [`RunOptions::compaction`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact_over: Option<AutoCompaction>,
    /// See [`RunOptions::write_back`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub write_back: bool,
    /// See [`RunOptions::primed`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub primed: bool,
    /// See [`RunOptions::interactive`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interactive: bool,
}

impl RecordedOptions {
    /// The recorded part of these options.
    #[must_use]
    pub fn of(options: &RunOptions) -> Self {
        Self {
            agent: options.agent.clone(),
            scope: options.scope.clone(),
            continue_on_error: options.continue_on_error,
            retries: options.retries,
            check: options.check.clone(),
            jobs: options.jobs,
            checkpoint: options.checkpoint,
            checkpoint_every: options.checkpoint_every.map(|every| every.as_secs()),
            compact_over: options.compaction.as_ref().and_then(|settings| settings.asked),
            write_back: options.write_back,
            primed: options.primed,
            interactive: options.interactive,
        }
    }
}
