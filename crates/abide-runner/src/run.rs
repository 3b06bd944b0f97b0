//! A run from beginning to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abide::{
    NewEvent, Session, SessionFields, SessionStatus, TaskStatus,
    event::{RunEnd, RunStart, SessionCore, StatusChange},
    tasks::TaskCreated,
};

use crate::RunError;
use crate::account::last_reason;
use crate::leftover_work::InterruptedTask;
use crate::limits::LimitedResource;
use crate::plan_keeper::{PlanKeeper, told_error};
use crate::run_event::RunEvent;
use crate::run_options::{RecordedOptions, RetryDecision, RunGoal, RunOptions};
use crate::run_summary::{RunFinish, RunSummary};
use crate::stop::{Stop, StopUrgency};
use crate::supervisor::{ConversationEnd, Supervisor, changes_tasks, program_name};

/// The id of the only task of a command without a plan.
const ONLY: &str = "T1";

/// Runs the agent through the tasks of a session until all are done, a task fails, or it should
/// stop. Then closes the run: ends the agents, records everything, and makes a last checkpoint with
/// the session's status.
///
/// `decide` says what to do with an interrupted task; if it returns `None`, the run ends and the
/// task stays as it was. `tell` is called with every event. A failure while the run is closed
/// becomes a warning in the summary and never hides an earlier error.
///
/// # Errors
///
/// The error that ended the run early. The run was closed all the same.
pub fn run(
    session: &Arc<Session>,
    options: &RunOptions,
    stop: &Stop,
    decide: &mut dyn FnMut(&InterruptedTask) -> Option<RetryDecision>,
    tell: &mut dyn FnMut(&RunEvent),
) -> Result<RunSummary, RunError> {
    let stale = Arc::new(AtomicBool::new(false));
    let mark = stale.clone();
    let socket = session.serve_children(move |events| {
        if events.iter().any(changes_tasks) {
            mark.store(true, Ordering::Relaxed);
        }
    });
    let before = standing(&session.core()?);
    let mut supervisor = Supervisor::new(session.clone(), options, stop, decide, tell, stale)?;
    let _socket = match socket {
        Ok(socket) => Some(socket),
        Err(error) => {
            supervisor.warn(format!("processes the agent starts cannot record: {error}"));
            None
        }
    };
    let mut keeper = None;
    let worked = begin(&mut supervisor, options).and_then(|()| {
        if options.write_back {
            match PlanKeeper::start(session) {
                Ok(started) => keeper = Some(started),
                Err(error) => supervisor.warn(plan_not_kept(&told_error(&error))),
            }
        }
        supervisor.prepare()?;
        supervisor.settle()?;
        supervisor.start_checkpoints()?;
        supervisor.start_compactor();
        supervisor.work()
    });
    let (finish, reason) = finish(&supervisor, options, stop, worked.as_ref().err());
    supervisor.end_all();
    // Before the last checkpoint, which has the file.
    if let Some(Err(reason)) = keeper.map(PlanKeeper::finish) {
        supervisor.warn(plan_not_kept(&reason));
    }
    // Whatever became of the agent says nothing about a session without a task list.
    let standing = match options.goal {
        RunGoal::Conversation => before,
        RunGoal::Command | RunGoal::Tasks => {
            StatusChange { status: finish.status(), reason: reason.clone(), summary: None }
        }
    };
    let ended = if finish == RunFinish::Ended { standing.status } else { finish.status() };
    let closing = supervisor.close_with_checkpoint(standing);
    let summary = RunSummary {
        session: session.id(),
        finish,
        reason: reason.clone(),
        tasks: supervisor.tasks.tree().progress(options.scope.as_ref()),
        started: supervisor.started,
        duration: supervisor.elapsed(),
        usage: supervisor.usage(),
        used: supervisor.used.clone(),
        limits: supervisor.limits(supervisor.peak_rss),
        checkpoints: closing.checkpoints,
        difference: closing.difference,
        peak_rss_bytes: supervisor.peak_rss,
        warnings: supervisor.warnings.clone(),
    };
    let recorded = serde_json::value::to_raw_value(&summary).ok();
    let end = RunEnd { status: ended, reason, summary: recorded };
    if let Err(error) = session.append(end).and_then(|ticket| Ok(ticket.wait()?)) {
        supervisor.warn(format!("the end of the run was not recorded: {error}"));
    }
    supervisor.tell(&RunEvent::Stopped(Box::new(summary.clone())));
    worked.map(|()| summary)
}

/// The status of a session, to be given back to it. One that a killed run left is `interrupted`.
fn standing(core: &SessionCore) -> StatusChange {
    let killed =
        core.status == SessionStatus::Running && core.run.is_some_and(|run| run.finished.is_none());
    let status = if killed { SessionStatus::Interrupted } else { core.status };
    StatusChange { status, reason: core.reason.clone(), summary: None }
}

/// Records the start of the run, and makes the only task of a command without a plan.
fn begin(supervisor: &mut Supervisor<'_>, options: &RunOptions) -> Result<(), RunError> {
    let session = supervisor.session.clone();
    let recorded = RecordedOptions::of(options);
    let start = RunStart {
        command: options.command.clone(),
        directory: Some(options.directory.to_string_lossy().into_owned()),
        adapter: options.adapter.to_string(),
        planned: options.goal == RunGoal::Tasks,
        conversation: options.goal == RunGoal::Conversation,
        options: serde_json::value::to_raw_value(&recorded).ok(),
    };
    let started = session.redacted(start.clone().try_into()?);
    // The note is compared with what is recorded.
    let start = started.data.decode().unwrap_or(start);
    // Before the run has any effect. It goes on without this note, but then resuming it asks first.
    if let Err(error) = session.store().note_run(session.id(), &start) {
        supervisor.warn(format!("`abide resume` will ask before it continues: {error}"));
    }
    let running = StatusChange { status: SessionStatus::Running, reason: None, summary: None };
    let mut events: Vec<NewEvent> = vec![started, running.try_into()?];
    let core = session.core()?;
    if core.fields.agent.is_none() {
        let agent = options.command.first().map(|program| program_name(program));
        events.push(SessionFields { agent, ..SessionFields::default() }.try_into()?);
    }
    for event in events {
        supervisor.tasks.also(event);
    }
    if options.goal == RunGoal::Command && supervisor.tasks.tree().get(ONLY).is_none() {
        let title = options.command.join(" ");
        supervisor.tasks.create(TaskCreated {
            task: ONLY.into(),
            title,
            ..TaskCreated::default()
        })?;
    }
    supervisor.tasks.flush()?;
    let interval = options.interval();
    supervisor.tell(&RunEvent::Started { session: session.id(), interval });
    Ok(())
}

/// How the run ended, and why.
fn finish(
    supervisor: &Supervisor<'_>,
    options: &RunOptions,
    stop: &Stop,
    error: Option<&RunError>,
) -> (RunFinish, Option<String>) {
    if let Some(error) = error {
        return (RunFinish::Broken, Some(error.to_string()));
    }
    if options.goal == RunGoal::Conversation {
        return match (&supervisor.conversation, supervisor.over, stop.urgency()) {
            (Some(ConversationEnd::Done), ..) => (RunFinish::Ended, None),
            (Some(ConversationEnd::Failed(reason)), ..) => {
                (RunFinish::Failed, Some(reason.clone()))
            }
            (_, Some(resource), _) => over(resource),
            (Some(ConversationEnd::Interrupted(reason)), None, StopUrgency::None) => {
                (RunFinish::Stopped, Some(reason.clone()))
            }
            _ => (RunFinish::Stopped, Some("it was asked to stop".to_owned())),
        };
    }
    let tree = supervisor.tasks.tree();
    let progress = tree.progress(options.scope.as_ref());
    let open = progress.all - progress.complete - progress.obsolete;
    if open == 0 {
        // A finished scope says nothing about the other tasks.
        let all = tree.progress(None);
        return match &options.scope {
            Some(scope) if all.complete + all.obsolete < all.all => {
                (RunFinish::ScopeDone, Some(format!("{scope} is done")))
            }
            _ => (RunFinish::Done, None),
        };
    }
    if let Some(resource) = supervisor.over {
        return over(resource);
    }
    if supervisor.failed {
        return (RunFinish::Failed, Some(failure(supervisor, options, progress.failed)));
    }
    if stop.urgency() > StopUrgency::None {
        return (RunFinish::Stopped, Some("it was asked to stop".to_owned()));
    }
    if progress.failed > 0 {
        return (RunFinish::Failed, Some(failure(supervisor, options, progress.failed)));
    }
    if supervisor.is_enough() {
        let reason = "as many tasks as were asked for are done";
        return (RunFinish::EnoughTasks, Some(reason.to_owned()));
    }
    (RunFinish::Stuck, Some(tasks(open, "cannot be started")))
}

/// Why a run failed: how its command ended, or how many tasks failed.
fn failure(supervisor: &Supervisor<'_>, options: &RunOptions, failed: u64) -> String {
    let of_command = options.goal == RunGoal::Command;
    let reason =
        of_command.then(|| last_reason(&supervisor.session, &ONLY.into(), TaskStatus::Failed));
    let reason = reason.and_then(|reason| reason.ok().flatten());
    reason.unwrap_or_else(|| tasks(failed, "failed"))
}

/// The end of a run that reached a limit, and why.
fn over(resource: LimitedResource) -> (RunFinish, Option<String>) {
    let (finish, reason) = match resource {
        LimitedResource::Duration => (RunFinish::TimeUp, "its time is up"),
        LimitedResource::Cost => (RunFinish::LimitReached, "it reached the cost limit"),
        LimitedResource::Tokens => (RunFinish::LimitReached, "it reached the token limit"),
        LimitedResource::Memory => (RunFinish::LimitReached, "it reached the memory limit"),
    };
    (finish, Some(reason.to_owned()))
}

/// The warning that the file of the plan lacks statuses.
fn plan_not_kept(reason: &str) -> String {
    format!("the plan's file is not up to date: {reason}")
}

/// A number of tasks in words.
fn tasks(count: u64, how: &str) -> String {
    if count == 1 { format!("1 task {how}") } else { format!("{count} tasks {how}") }
}
