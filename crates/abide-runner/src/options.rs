//! How a run is to go.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use abide::TaskId;
use abide_agents::AgentKind;
use serde::{Deserialize, Serialize};

/// How a task that was interrupted goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// By what is possible: inside, else outside, else from the start.
    #[default]
    Auto,
    /// Inside the agent's own session.
    Inside,
    /// Outside it, with a prompt that says what was done before.
    Outside,
    /// From the start.
    Restart,
}

impl Way {
    /// How it is said.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::Auto | Self::Restart => "from the start",
            Self::Inside => "inside the agent's own session",
            Self::Outside => "with a prompt that says what was done before",
        }
    }
}

/// What becomes of a task that was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It is done again.
    #[default]
    Retry,
    /// It is left aside, as blocked.
    Skip,
}

/// How a run is to go.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The agent's program and its arguments. `{task}`, `{id}` and `{title}` in an argument give way
    /// to the task; where no argument holds `{task}`, the task is told on stdin.
    pub command: Vec<String>,
    /// How its output is read.
    pub adapter: AgentKind,
    /// Where it works.
    pub directory: PathBuf,
    /// What its environment holds besides.
    pub environment: BTreeMap<String, String>,
    /// Is each task told to the agent? Otherwise the command itself is the one task.
    pub planned: bool,
    /// Only this task and its parts.
    pub scope: Option<TaskId>,
    /// Go on with other tasks when one fails.
    pub continue_on_error: bool,
    /// How often a task that fails is done again.
    pub retries: u64,
    /// How many tasks at the same time.
    pub jobs: usize,
    /// At most so many tasks.
    pub max_tasks: Option<u64>,
    /// At most so long.
    pub max_duration: Option<Duration>,
    /// The time between two checkpoints; what suits the expected duration where it is not given.
    pub checkpoint_every: Option<Duration>,
    /// How tasks that were interrupted go on.
    pub way: Way,
    /// Tasks that failed before are done again.
    pub retry_failed: bool,
    /// So long an agent that is to end may take before it is killed.
    pub grace: Duration,
    /// The agent's stdin is that of this process, where it is told nothing there.
    pub inherit_stdin: bool,
    /// The agent talks with the person at the terminal of this process: it gets a terminal of its
    /// own, joined with that one, which whoever calls has made raw.
    pub interactive: bool,
}

impl RunOptions {
    /// Of a command, with nothing special.
    #[must_use]
    pub fn new(command: Vec<String>, directory: PathBuf) -> Self {
        Self {
            adapter: AgentKind::detect(&command),
            command,
            directory,
            environment: BTreeMap::new(),
            planned: false,
            scope: None,
            continue_on_error: false,
            retries: 0,
            jobs: 1,
            max_tasks: None,
            max_duration: None,
            checkpoint_every: None,
            way: Way::default(),
            retry_failed: false,
            grace: Duration::from_secs(10),
            inherit_stdin: false,
            interactive: false,
        }
    }

    /// The time between two checkpoints: as asked for, else by how long the run may take. Of an
    /// unlimited one it is not known, and half an hour suits the longest.
    #[must_use]
    pub fn interval(&self) -> Duration {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let expected = self.max_duration.map(|most| most.as_secs() / 60);
        self.checkpoint_every.unwrap_or(match expected {
            Some(0..60) => minutes(10),
            Some(60..180) => minutes(15),
            Some(180..360) => minutes(20),
            _ => minutes(30),
        })
    }
}

/// What of the options is recorded, so that a later run can go on alike.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedOptions {
    /// See [`RunOptions::scope`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<TaskId>,
    /// See [`RunOptions::continue_on_error`].
    pub continue_on_error: bool,
    /// See [`RunOptions::retries`].
    pub retries: u64,
    /// See [`RunOptions::jobs`].
    pub jobs: usize,
    /// See [`RunOptions::checkpoint_every`], in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
}

impl RecordedOptions {
    /// Of these.
    #[must_use]
    pub fn of(options: &RunOptions) -> Self {
        Self {
            scope: options.scope.clone(),
            continue_on_error: options.continue_on_error,
            retries: options.retries,
            jobs: options.jobs,
            checkpoint_every: options.checkpoint_every.map(|every| every.as_secs()),
        }
    }
}
