//! The supervisor: starts tasks as they become ready, watches their agents, and records what
//! happens, until everything is done or it is asked to stop.
//!
//! Invariants: a task is recorded as begun before its agent is started, and as done before the next
//! one begins; an agent's output is recorded in order. One thread does all of it; the children's
//! threads only read.

mod begin;
mod checkpoints;
mod checks;
mod compactions;
mod conclude;
mod converse;
mod settle;

pub(crate) use begin::program_name;
pub(crate) use converse::ConversationEnd;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use abide::{
    Checkpointer, Kind, NewEvent, Session, TaskStatus, Timestamp, TurnEnd,
    checkpoint::{CheckpointerEvent, Snapshot},
    context::{Compactor, CompactorEvent},
    event::Usage,
    process::process_tree,
    tasks::{SessionTasks, TaskId, TaskStatusChange},
};
use rustix::process::Signal;

use crate::RunError;
use crate::agent_stdin::AgentStdin;
use crate::child::ChildEvent;
use crate::conversation::ConversationBrief;
use crate::job::Job;
use crate::leftover_work::InterruptedTask;
use crate::limits::{LimitLevel, LimitUse, LimitedResource, RunUse};
use crate::marked_processes::end_marked;
use crate::run_event::RunEvent;
use crate::run_options::{RetryDecision, RunOptions};
use crate::run_summary::TaskUse;
use crate::stop::{Stop, StopUrgency};

/// The longest time between two checks for a stop request.
const PAUSE: Duration = Duration::from_millis(100);
/// The time between two samples of the resources that an agent's processes use. Each is also a sign
/// of life.
const SAMPLE: Duration = Duration::from_secs(15);
/// The time between two samples that are not recorded, if the memory is limited.
const LOOK: Duration = Duration::from_millis(500);
/// How long an agent that has reported its outcome may take to exit by itself at a limit.
const LEAVE: Duration = Duration::from_secs(2);
/// How long to wait for output that other processes hold open after the agent is gone.
const OUTPUT: Duration = Duration::from_millis(500);
/// How long to wait for a killed process before giving up on it.
const UNKILLABLE: Duration = Duration::from_secs(5);
/// The reason recorded when a failed task is planned again.
const AGAIN: &str = "to be tried again";
/// How long processes that a job left behind may take to exit.
const LEFT_BEHIND: Duration = Duration::from_secs(2);
/// The most chunks of output queued.
const CHUNKS: usize = 64;

/// Whether all pending task changes were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WishOutcome {
    All,
    /// Other processes had made some of them invalid.
    NotAll,
}

/// Runs an agent through the tasks of a session.
pub(crate) struct Supervisor<'a> {
    pub(crate) session: Arc<Session>,
    pub(crate) tasks: SessionTasks,
    options: &'a RunOptions,
    stop: &'a Stop,
    tell: &'a mut dyn FnMut(&RunEvent),
    sender: SyncSender<ChildEvent>,
    receiver: Receiver<ChildEvent>,
    jobs: Vec<Job>,
    next_job: u64,
    pub(crate) started: u64,
    /// The tasks started in this run.
    tried: HashSet<TaskId>,
    decide: &'a mut dyn FnMut(&InterruptedTask) -> Option<RetryDecision>,
    /// What was read on stdin for the agent.
    input: AgentStdin,
    /// What the agent of a conversation is told first: made before anything is recorded.
    brief: Option<ConversationBrief>,
    /// How the agent of a conversation ended; `None` while it is to be started or at work.
    pub(crate) conversation: Option<ConversationEnd>,
    /// The earlier conversation, to be told with each task.
    primer: Option<String>,
    /// Tasks that cannot be resumed inside the agent's own session; `None` is the conversation.
    not_inside: HashSet<Option<TaskId>>,
    /// The agent's own id of the session in which it last worked on a task.
    agent_sessions: HashMap<TaskId, String>,
    /// How often a retried task had failed before this run.
    before: HashMap<TaskId, u64>,
    /// How often in a row the death of its agent interrupted a task; `None` is the conversation.
    kills: HashMap<Option<TaskId>, u32>,
    /// How often in a row it hit a limit.
    waits: HashMap<Option<TaskId>, u32>,
    /// No task is started before this time.
    hold: Option<Timestamp>,
    /// How urgently to stop, apart from the caller's requests.
    urgency: StopUrgency,
    /// A task failed, and no other may start.
    pub(crate) failed: bool,
    told_urgency: StopUrgency,
    begun: Instant,
    next_sample: Instant,
    /// Another process changed tasks.
    stale: Arc<AtomicBool>,
    checkpoints: Option<(Checkpointer, Receiver<CheckpointerEvent>)>,
    compactor: Option<(Compactor, Receiver<CompactorEvent>)>,
    first: Option<Snapshot>,
    last: Option<Snapshot>,
    /// What was used by jobs that have ended, by task.
    pub(crate) used: Vec<TaskUse>,
    /// The sum of their usage.
    ended_usage: Usage,
    pub(crate) peak_rss: u64,
    /// The memory of all agents' processes at the last sample.
    memory: u64,
    next_look: Instant,
    pub(crate) warnings: Vec<String>,
    /// The limits of which the run has warned.
    warned: Vec<LimitedResource>,
    /// The limit that was reached.
    pub(crate) over: Option<LimitedResource>,
}

impl<'a> Supervisor<'a> {
    pub(crate) fn new(
        session: Arc<Session>,
        options: &'a RunOptions,
        stop: &'a Stop,
        decide: &'a mut dyn FnMut(&InterruptedTask) -> Option<RetryDecision>,
        tell: &'a mut dyn FnMut(&RunEvent),
        stale: Arc<AtomicBool>,
    ) -> Result<Self, RunError> {
        let tasks = SessionTasks::open(session.clone())?;
        if let Some(scope) = &options.scope
            && tasks.tree().get(scope.as_str()).is_none()
        {
            return Err(RunError::NoScope(scope.clone()));
        }
        let (sender, receiver) = sync_channel(CHUNKS);
        Ok(Self {
            session,
            tasks,
            options,
            stop,
            tell,
            sender,
            receiver,
            jobs: Vec::new(),
            next_job: 0,
            started: 0,
            tried: HashSet::new(),
            decide,
            input: AgentStdin::default(),
            brief: None,
            conversation: None,
            primer: None,
            not_inside: HashSet::new(),
            agent_sessions: HashMap::new(),
            before: HashMap::new(),
            kills: HashMap::new(),
            waits: HashMap::new(),
            hold: None,
            urgency: StopUrgency::None,
            failed: false,
            told_urgency: StopUrgency::None,
            begun: Instant::now(),
            next_sample: Instant::now() + SAMPLE,
            stale,
            checkpoints: None,
            compactor: None,
            first: None,
            last: None,
            used: Vec::new(),
            ended_usage: Usage::default(),
            peak_rss: 0,
            memory: 0,
            next_look: Instant::now(),
            warnings: Vec::new(),
            warned: Vec::new(),
            over: None,
        })
    }

    pub(crate) fn tell(&mut self, event: &RunEvent) {
        (self.tell)(event);
    }

    /// Reports a problem that does not end the run.
    pub(crate) fn warn(&mut self, warning: String) {
        self.tell(&RunEvent::Warning(warning.clone()));
        if self.warnings.len() < 100 {
            self.warnings.push(warning);
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// How urgently to stop.
    fn stopping(&self) -> StopUrgency {
        self.stop.urgency().max(self.urgency)
    }

    /// Works until everything is done or the run should stop.
    pub(crate) fn work(&mut self) -> Result<(), RunError> {
        loop {
            self.heed();
            self.begin_ready()?;
            if self.jobs.is_empty() && !self.waits() {
                return Ok(());
            }
            self.listen();
            self.record()?;
            self.end_jobs()?;
            self.take_checkpoints();
            self.take_compactions();
        }
    }

    /// Whether only a waiting time keeps the run going.
    fn waits(&self) -> bool {
        self.hold.is_some() && self.may_begin()
    }

    fn may_begin(&self) -> bool {
        // The person at the terminal saw the agent end.
        let talked = self.options.interactive && self.started > 0;
        self.stopping() == StopUrgency::None && !self.failed && !talked
    }

    /// Whether the most tasks allowed were started.
    pub(crate) fn is_enough(&self) -> bool {
        self.options.max_tasks.is_some_and(|most| self.tried.len() as u64 >= most)
    }

    /// The usage of the whole run, with what agents at work have reported.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = self.ended_usage.clone();
        self.jobs.iter().for_each(|job| usage.add(&job.usage));
        usage
    }

    /// The limits, and what is used of them, with this much memory.
    pub(crate) fn limits(&self, memory_bytes: u64) -> Vec<LimitUse> {
        let (duration, usage) = (self.elapsed(), self.usage());
        self.options.limits.compare(&RunUse { duration, usage, memory_bytes })
    }

    /// Tells of limits that are near, and stops the run at one that is reached.
    fn heed_limits(&mut self) {
        for limit in self.limits(self.memory) {
            if limit.level == LimitLevel::Reached && self.stopping() < StopUrgency::Now {
                self.over = Some(limit.resource);
                self.urgency = StopUrgency::Now;
                self.tell(&RunEvent::Limit(limit));
            } else if limit.level == LimitLevel::Near && !self.warned.contains(&limit.resource) {
                self.warned.push(limit.resource);
                self.tell(&RunEvent::Limit(limit));
            }
        }
    }

    /// Samples the agents' processes, if it is time. The samples of every [`SAMPLE`] are recorded.
    fn sample(&mut self, now: Instant) {
        let recorded = now >= self.next_sample;
        let looked = self.options.limits.memory_bytes.is_some() && now >= self.next_look;
        if !recorded && !looked {
            return;
        }
        self.next_look = now + LOOK;
        self.memory = 0;
        for job in self.jobs.iter_mut().filter(|job| job.exited.is_none()) {
            let Some(sample) = process_tree(job.child.id) else { continue };
            self.memory = self.memory.saturating_add(sample.rss_bytes);
            job.peak_rss = job.peak_rss.max(sample.rss_bytes);
            if recorded {
                job.sampled(sample);
            }
        }
        self.peak_rss = self.peak_rss.max(self.memory);
        if recorded {
            self.next_sample = now + SAMPLE;
        }
    }

    /// Acts on stop requests and limits.
    fn heed(&mut self) {
        self.heed_limits();
        let urgency = self.stopping();
        if urgency > self.told_urgency {
            self.told_urgency = urgency;
            self.tell(&RunEvent::Stopping(urgency));
        }
        let mut unkillable = Vec::new();
        for job in &mut self.jobs {
            if job.exited.is_some() {
                continue;
            }
            if urgency >= StopUrgency::Now {
                job.asked.get_or_insert_with(Instant::now);
            }
            // At a limit, an agent that has reported its outcome gets a moment to exit by itself.
            let leaves = job.reported_outcome() && self.stop.urgency() < StopUrgency::Now;
            let patience = if leaves { LEAVE } else { Duration::ZERO };
            if !job.signalled && job.asked.is_some_and(|asked| asked.elapsed() >= patience) {
                job.signalled = true;
                job.child.signal(Signal::TERM);
            }
            let late = job.asked.is_some_and(|asked| asked.elapsed() >= self.options.grace);
            if (late || urgency == StopUrgency::Kill) && job.killed.is_none() {
                job.asked.get_or_insert_with(Instant::now);
                job.killed = Some(Instant::now());
                job.child.signal(Signal::KILL);
            }
            if job.killed.is_some_and(|killed| killed.elapsed() >= UNKILLABLE) {
                let text = format!("cannot end process {}; leaving it", job.child.id);
                job.exit = Some(Err(std::io::Error::other(text.clone())));
                job.exited = Some(Instant::now());
                unkillable.push(text);
            }
        }
        for text in unkillable {
            self.warn(text);
        }
        // By wall-clock time, so that time asleep counts too.
        if self.hold.is_some_and(|until| self.session.store().now() >= until) {
            self.hold = None;
        }
    }

    /// Sets a task's status, and updates its parents.
    fn set(
        &mut self,
        task: &TaskId,
        status: TaskStatus,
        reason: Option<String>,
        result: Option<Box<serde_json::value::RawValue>>,
    ) -> Result<(), RunError> {
        let change = TaskStatusChange { task: task.clone(), status, foreign: None, reason, result };
        Ok(self.tasks.set(change)?)
    }

    /// Records pending task changes. A change that others have made invalid meanwhile is reported
    /// and dropped: their status stands.
    fn flush(&mut self) -> Result<WishOutcome, RunError> {
        let mut kept = WishOutcome::All;
        loop {
            match self.tasks.flush() {
                Ok(_) => return Ok(kept),
                // Each round drops one change, so the loop ends.
                Err(abide::Error::Task(refused)) => {
                    kept = WishOutcome::NotAll;
                    self.warn(refused.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn close_turn(
        &mut self,
        placed: &dyn Fn(NewEvent) -> NewEvent,
        turn: abide::event::TurnNumber,
        status: &str,
    ) -> Result<(), RunError> {
        let end = TurnEnd { turn: Some(turn), status: status.to_owned(), ..TurnEnd::default() };
        self.tasks.also(placed(end.try_into()?));
        Ok(())
    }

    /// Waits for something to happen, and handles it.
    fn listen(&mut self) {
        let now = Instant::now();
        let due = self.jobs.iter().filter_map(Job::due).min();
        let pause = due.map_or(PAUSE, |due| due.saturating_duration_since(now).min(PAUSE));
        match self.receiver.recv_timeout(pause) {
            Ok(happening) => self.take(happening),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        // Handle what else is queued, within a bound.
        for _ in 0..CHUNKS {
            match self.receiver.try_recv() {
                Ok(happening) => self.take(happening),
                Err(_) => break,
            }
        }
        self.sample(now);
    }

    fn take(&mut self, happening: ChildEvent) {
        let (ChildEvent::Printed { job, .. }
        | ChildEvent::Typed { job, .. }
        | ChildEvent::Closed { job, .. }
        | ChildEvent::Exited { job, .. }) = &happening;
        let number = *job;
        let Some(job) = self.jobs.iter_mut().find(|job| job.number == number) else { return };
        match happening {
            ChildEvent::Printed { stream, bytes, .. } => {
                job.printed(stream, &bytes, self.session.store().now(), self.tell);
                let task = job.task.clone();
                (self.tell)(&RunEvent::Output { task, stream, bytes });
            }
            ChildEvent::Typed { bytes, echo, .. } => {
                job.typed(&bytes, echo, self.session.store().now(), self.tell);
            }
            ChildEvent::Closed { stream, .. } => job.closed(stream),
            ChildEvent::Exited { status, at, .. } => {
                job.child.is_gone();
                // It had exited before it was asked to.
                job.asked = job.asked.filter(|asked| *asked < at);
                job.exit = Some(status);
                job.exited = Some(Instant::now());
            }
        }
    }

    /// Records events that are due.
    fn record(&mut self) -> Result<(), RunError> {
        let mut events = Vec::new();
        for job in &mut self.jobs {
            events.extend(job.record(self.session.store().now(), self.tell));
        }
        self.append(events)
    }

    fn append(&self, events: Vec<NewEvent>) -> Result<(), RunError> {
        if !events.is_empty() {
            self.session.append_all(events)?.wait().map_err(abide::Error::from)?;
            self.wake_compactor();
        }
        Ok(())
    }

    /// Concludes the jobs whose agents are gone.
    fn end_jobs(&mut self) -> Result<(), RunError> {
        // Output they printed before they ended may still be queued.
        while self.jobs.iter().any(|job| job.is_over(OUTPUT)) {
            match self.receiver.try_recv() {
                Ok(happening) => self.take(happening),
                Err(_) => break,
            }
        }
        while let Some(at) = self.jobs.iter().position(|job| job.is_over(OUTPUT)) {
            let job = self.jobs.remove(at);
            self.conclude_job(job)?;
            self.settle_compactor();
        }
        Ok(())
    }

    /// Ends all running jobs, whatever went wrong before. Further failures become warnings.
    pub(crate) fn end_all(&mut self) {
        self.urgency = self.urgency.max(StopUrgency::Now);
        let patience = Instant::now() + self.options.grace + UNKILLABLE + OUTPUT * 2;
        while !self.jobs.is_empty() && Instant::now() < patience {
            self.heed();
            self.listen();
            for done in [self.record(), self.end_jobs()] {
                if let Err(error) = done {
                    self.warn(error.to_string());
                }
            }
        }
        self.abandon_jobs();
    }

    /// Leaves the jobs that do not end. What is known of them is recorded, as far as that is possible.
    fn abandon_jobs(&mut self) {
        for mut job in std::mem::take(&mut self.jobs) {
            job.child.signal(Signal::KILL);
            let events = job.finish(self.session.store().now(), self.tell);
            self.count(&mut job);
            if let Err(error) = self.append(events) {
                self.warn(error.to_string());
            }
            end_marked(&Job::mark(self.session.id(), job.turn), LEFT_BEHIND);
        }
    }
}

/// Whether an event from a child changes tasks.
pub(crate) fn changes_tasks(event: &NewEvent) -> bool {
    [Kind::TASK_CREATED, Kind::TASK_CHANGED, Kind::TASK_STATUS].contains(&event.kind)
}

#[cfg(test)]
mod tests {
    use abide::{EventRange, NewSession, Store, secrets::Redaction};

    use super::*;
    use crate::job::tests::{job, print};
    use crate::redacted_output::tests::key_lines;

    #[test]
    fn what_a_job_holds_is_recorded_when_it_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_init(dir.path()).unwrap().with_redaction(Redaction::off());
        let session = Arc::new(store.create(NewSession::titled("t")).unwrap());
        let options = RunOptions::new(vec!["true".to_owned()], dir.path().to_owned());
        let (stop, stale) = (Stop::default(), Arc::new(AtomicBool::new(false)));
        let mut decide = |_: &InterruptedTask| None::<RetryDecision>;
        let mut tell = |_: &RunEvent| {};
        let mut supervisor =
            Supervisor::new(session.clone(), &options, &stop, &mut decide, &mut tell, stale)
                .unwrap();
        let lines = key_lines();
        for kind in ["text", "codex"] {
            let mut job = job(kind);
            print(&mut job, format!("{}\n{}\n", lines[0], lines[1]).as_bytes());
            supervisor.jobs.push(job);
        }
        supervisor.abandon_jobs();
        assert!(supervisor.jobs.is_empty() && supervisor.warnings.is_empty());
        let events = session.view().events(EventRange::ALL).map(Result::unwrap);
        let texts = events.filter_map(|event| event.data).map(|data| data.as_str().to_owned());
        let told = texts.collect::<Vec<_>>().join("\n");
        assert_eq!(told.matches("‹redacted:private-key:").count(), 2, "{told}");
        assert!(!told.contains("NotAKey"), "{told}");
    }
}
