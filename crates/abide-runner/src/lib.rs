//! Runs an agent through its tasks: starts it, records everything, makes checkpoints, stops it, and
//! resumes later where it was, even after it or the agent was killed.
//!
//! [`run()`] does all of this for a session that has tasks. It blocks, reports what happens as
//! [`RunEvent`]s, and can be stopped from any thread with a [`Stop`]. It knows nothing of terminals
//! and signals.
//!
//! ```
//! use std::sync::Arc;
//! use abide::{NewSession, Store};
//! use abide_runner::{RetryDecision, RunEvent, RunOptions, Stop, run};
//!
//! # let dir = tempfile::tempdir()?;
//! # let project = dir.path();
//! let store = Store::open_or_init(project)?;
//! let session = Arc::new(store.create(NewSession::titled("say hello"))?);
//! let command = ["echo", "hello"].map(str::to_owned).into();
//! let options = RunOptions::new(command, project.to_owned());
//! let mut ended = Vec::new();
//! let summary = run(&session, &options, &Stop::default(), &mut |_| Some(RetryDecision::Retry), &mut |event| {
//!     if let RunEvent::TaskEnded { task, .. } = event {
//!         ended.push(task.to_string());
//!     }
//! })?;
//! assert!(summary.is_complete());
//! assert_eq!(ended, ["T1"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod agent_program;
mod agent_stdin;
mod attempt;
mod child;
mod conversation;
mod error;
mod job;
mod job_ending;
mod leftover_work;
mod limits;
mod marked_processes;
mod plain_lines;
mod plan_keeper;
mod prompt;
mod redacted_output;
mod run;
mod run_event;
mod run_options;
mod run_summary;
mod stop;
mod supervisor;
mod task_check;
mod terminal;
mod typed_input;

pub use agent_program::check_agent_program;
pub use error::RunError;
pub use leftover_work::{InterruptedTask, LeftoverWork, UnresolvedCall};
pub use limits::{LimitLevel, LimitUse, LimitedResource, RunLimits};
pub use marked_processes::end_marked;
pub use run::run;
pub use run_event::{RunEvent, Stream};
pub use run_options::{RecordedOptions, ResumeMode, RetryDecision, RunGoal, RunOptions};
pub use run_summary::{RunCheckpointTotals, RunFinish, RunSummary, SummaryDifference, TaskUse};
pub use stop::{Stop, StopUrgency};

pub use abide_agents::AgentKind;
