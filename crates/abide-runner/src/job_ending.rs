//! How an agent's work on a task ended, judging by all that is known.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use abide::{TaskStatus, Timestamp};
use abide_agents::{AgentKind, ReachedLimit, limit_in};
use rustix::process::Signal;

use crate::job::Job;
use crate::run_options::ResumeMode;

/// How recent a limit must be to explain a failure.
const RECENT: Duration = Duration::from_secs(60);
/// The most characters of a result.
const RESULT: usize = 4000;

/// How a job ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JobEnding {
    /// The task is done.
    Done,
    /// The task failed.
    Failed(String),
    /// It was interrupted, which says nothing about the task.
    Interrupted(String),
    /// The agent could not resume its own session.
    NotResumed(String),
    /// It hit a rate limit.
    Limited(ReachedLimit),
    /// The agent itself set the task aside: it is blocked, or no longer needed.
    SetAside(Option<String>),
}

/// What an agent has set its own task to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentWord {
    pub(crate) status: TaskStatus,
    pub(crate) reason: Option<String>,
}

impl AgentWord {
    /// The ending that it means. It counts as an exit code does, and overrules that.
    pub(crate) fn ending(&self) -> JobEnding {
        let reason = || {
            let told = self.reason.clone();
            told.unwrap_or_else(|| format!("the agent set it to {}", self.status.as_str()))
        };
        match self.status {
            TaskStatus::Complete => JobEnding::Done,
            TaskStatus::Failed => JobEnding::Failed(reason()),
            TaskStatus::Blocked | TaskStatus::Obsolete => JobEnding::SetAside(self.reason.clone()),
            TaskStatus::Planned
            | TaskStatus::Researching
            | TaskStatus::Implementing
            | TaskStatus::Retrying => JobEnding::Interrupted(reason()),
        }
    }
}

impl JobEnding {
    /// The ending of a job whose agent is gone.
    pub(crate) fn of(job: &Job, kind: AgentKind, now: Timestamp) -> Self {
        let status = job.exit.as_ref().and_then(|exit| exit.as_ref().ok());
        let exited_well = status.is_some_and(ExitStatus::success);
        let said = job.outcome.as_ref().map(|(ok, _)| *ok);
        // An agent that was asked to exit may do so without a word and with exit code 0.
        if job.asked.is_some() && said != Some(true) {
            return Self::Interrupted("it was stopped".to_owned());
        }
        if exited_well && said != Some(false) {
            return Self::Done;
        }
        if let Some(signal) = status.and_then(ExitStatusExt::signal)
            && is_kill(signal)
        {
            return Self::Interrupted(format!("the agent was killed by signal {signal}"));
        }
        let printed = || {
            // For other kinds, their reader has reported any limit.
            let out = if kind.prints_text() { job.out_tail.text() } else { String::new() };
            let text = format!("{out}\n{}", job.err_tail.text());
            limit_in(&text, now)
        };
        // A limit that was over long before the failure did not cause it.
        let fresh = |(limited, seen): &(ReachedLimit, Instant)| {
            let over = limited.resets.map_or(seen.elapsed() > RECENT, |resets| resets < now);
            (!over || seen.elapsed() < RECENT).then(|| limited.clone())
        };
        let limited = job.limited.as_ref().and_then(fresh);
        let limited = limited.or_else(|| (kind.prints_text() || said.is_none()).then(printed)?);
        if let Some(limited) = limited {
            return Self::Limited(limited);
        }
        let reason = reason(job, status);
        if job.way == Some(ResumeMode::Inside) && job.said == 0 {
            return Self::NotResumed(reason);
        }
        Self::Failed(reason)
    }
}

/// Whether a signal is one that others send to end a process.
pub(crate) fn is_kill(signal: i32) -> bool {
    [Signal::KILL, Signal::TERM, Signal::HUP, Signal::INT]
        .iter()
        .any(|kill| kill.as_raw() == signal)
}

fn reason(job: &Job, status: Option<&ExitStatus>) -> String {
    let how = match (status.and_then(ExitStatus::code), status.and_then(ExitStatusExt::signal)) {
        (Some(0), _) => "the agent says that it failed".to_owned(),
        (Some(code), _) => format!("exit code {code}"),
        (_, Some(signal)) => format!("killed by signal {signal}"),
        _ => "unknown exit status".to_owned(),
    };
    let told = job.outcome.as_ref().and_then(|(_, text)| text.clone());
    let told = told.or_else(|| job.err_tail.last_line()).or_else(|| job.last_line());
    match told {
        Some(told) => {
            format!("{how}: {}", job.redacted(&told).chars().take(500).collect::<String>())
        }
        None => how,
    }
}

/// The result of a finished task, as JSON.
pub(crate) fn result(job: &Job) -> Option<Box<serde_json::value::RawValue>> {
    #[derive(serde::Serialize)]
    struct TaskOutcomeData {
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        attempt: u64,
        duration_ms: u64,
    }
    let text = job.outcome.as_ref().and_then(|(_, text)| text.clone());
    let text = text.or_else(|| job.last_line());
    let outcome = TaskOutcomeData {
        text: text.map(|text| job.redacted(&text).chars().take(RESULT).collect()),
        attempt: job.attempt,
        duration_ms: u64::try_from(job.started.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    serde_json::value::to_raw_value(&outcome).ok()
}
