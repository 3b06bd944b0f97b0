//! The supervisor: begins tasks as they become ready, watches over their agents, and records what
//! happens, until everything is done or it is asked to stop.
//!
//! Invariants: a task is recorded as begun before its agent is started, and as done before the next
//! one is begun; what an agent prints is recorded in its order. One thread does all of it; those of
//! the children only read.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use abide::{
    CheckpointRequest, Checkpointer, CheckpointerEvent, CheckpointerOptions, Kind, LaneId, Message,
    NewEvent, Session, SessionRef, SessionStatus, Snapshot, StatusChange, StoreError, TaskId,
    TaskNode, TaskStatus, TaskStatusChange, Tasks, Timestamp, Trigger, TurnEnd, TurnStart, Usage,
    end_processes, process_tree, processes_marked,
};
use abide_wire::agent::{AgentKind, Before};
use rustix::process::Signal;

use crate::account::{account, last_failure, told, used};
use crate::child::{Child, ChildPlan, Happening, Input};
use crate::ending::{Ending, result};
use crate::event::RunEvent;
use crate::job::{Begin, Job};
use crate::leftover::{Interrupted, Leftover, end_calls, status_of};
use crate::options::{Decision, RunOptions, Way};
use crate::stop::{Stop, Urgency};
use crate::summary::Difference;
use crate::{RunError, prompt};

/// It is looked at least so often whether somebody wants it to stop.
const PAUSE: Duration = Duration::from_millis(100);
/// The time between two samples of what an agent's processes use. Each is a sign of life too.
const SAMPLE: Duration = Duration::from_secs(15);
/// So long output that something else holds open is waited for, once the agent is gone.
const OUTPUT: Duration = Duration::from_millis(500);
/// Processes that an agent left behind may take so long to end.
const LEFT_BEHIND: Duration = Duration::from_secs(2);
/// So often in a row a task may be interrupted by the death of its agent before that counts as a
/// failure: something kills it each time.
const KILLS: u32 = 20;
/// So often in a row a task may meet a limit before that counts as a failure.
const WAITS: u32 = 24;
/// A limit that does not say when it is over is waited for so long at first, then twice as long.
const WAIT: Duration = Duration::from_secs(30);
/// And never longer.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// A process that is still there so long after it was killed is given up.
const UNKILLABLE: Duration = Duration::from_secs(5);
/// Why a task that failed is planned.
const AGAIN: &str = "to be tried again";
/// Chunks of output that wait to be taken in.
const CHUNKS: usize = 64;

/// What became of the wishes that were pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    /// Others had made some of them illegal.
    NotAll,
}

/// Takes an agent through the tasks of a session.
pub(crate) struct Supervisor<'a> {
    pub(crate) session: Arc<Session>,
    pub(crate) tasks: Tasks,
    options: &'a RunOptions,
    stop: &'a Stop,
    tell: &'a mut dyn FnMut(&RunEvent),
    sender: SyncSender<Happening>,
    receiver: Receiver<Happening>,
    jobs: Vec<Job>,
    next_job: u64,
    pub(crate) started: u64,
    /// The tasks that were begun.
    tried: HashSet<TaskId>,
    decide: &'a mut dyn FnMut(&Interrupted) -> Option<Decision>,
    /// Those that cannot go on inside the agent's own session.
    not_inside: HashSet<TaskId>,
    /// The agent's own name for the session in which it last worked on a task.
    agent_sessions: HashMap<TaskId, String>,
    /// How often a task that is tried again had failed before this run.
    before: HashMap<TaskId, u64>,
    /// How often in a row a task was interrupted by the death of its agent.
    kills: HashMap<TaskId, u32>,
    waits: HashMap<TaskId, u32>,
    /// Nothing is begun before that.
    hold: Option<Timestamp>,
    /// How urgent it is to stop, whatever others say.
    urgency: Urgency,
    /// A task failed, and no other is to be begun.
    pub(crate) failed: bool,
    told_urgency: Urgency,
    begun: Instant,
    next_sample: Instant,
    /// Somebody else changed tasks.
    stale: Arc<AtomicBool>,
    checkpoints: Option<(Checkpointer, Receiver<CheckpointerEvent>)>,
    first: Option<Snapshot>,
    last: Option<Snapshot>,
    pub(crate) usage: Usage,
    pub(crate) peak_rss: u64,
    pub(crate) warnings: Vec<String>,
    /// Its time was up.
    pub(crate) time_up: bool,
}

impl<'a> Supervisor<'a> {
    pub(crate) fn new(
        session: Arc<Session>,
        options: &'a RunOptions,
        stop: &'a Stop,
        decide: &'a mut dyn FnMut(&Interrupted) -> Option<Decision>,
        tell: &'a mut dyn FnMut(&RunEvent),
        stale: Arc<AtomicBool>,
    ) -> Result<Self, RunError> {
        let tasks = Tasks::open(session.clone())?;
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
            not_inside: HashSet::new(),
            agent_sessions: HashMap::new(),
            before: HashMap::new(),
            kills: HashMap::new(),
            waits: HashMap::new(),
            hold: None,
            urgency: Urgency::None,
            failed: false,
            told_urgency: Urgency::None,
            begun: Instant::now(),
            next_sample: Instant::now() + SAMPLE,
            stale,
            checkpoints: None,
            first: None,
            last: None,
            usage: Usage::default(),
            peak_rss: 0,
            warnings: Vec::new(),
            time_up: false,
        })
    }

    pub(crate) fn tell(&mut self, event: &RunEvent) {
        (self.tell)(event);
    }

    /// Something is wrong that does not end the run.
    pub(crate) fn warn(&mut self, warning: String) {
        self.tell(&RunEvent::Warning(warning.clone()));
        if self.warnings.len() < 100 {
            self.warnings.push(warning);
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// How urgent it is to stop.
    fn stopping(&self) -> Urgency {
        self.stop.urgency().max(self.urgency)
    }

    /// Ends the processes of earlier runs of this session, and of the one that it goes on from: they
    /// work in the same place.
    fn end_earlier(&mut self) -> Result<(), RunError> {
        let mut sessions = vec![self.session.id()];
        if let Some(parent) = self.session.core()?.0.fields.parent {
            let store = self.session.store().clone().waiting(Duration::ZERO);
            match store.open_session(&SessionRef::Id(parent.session)) {
                Ok(held) => {
                    held.close()?;
                    sessions.push(parent.session);
                }
                Err(abide::Error::Store(StoreError::NoSession { .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let ended = sessions.iter().map(|id| end_marked(&format!("{id}/"), self.options.grace));
        let processes: usize = ended.sum();
        if processes > 0 {
            self.tell(&RunEvent::LeftBehind { task: None, processes });
        }
        Ok(())
    }

    /// Ends what an earlier run left: its processes, its turns, its tasks. Where nobody decides what
    /// becomes of a task, everything stays as it was.
    pub(crate) fn settle(&mut self) -> Result<(), RunError> {
        self.end_earlier()?;
        let leftover = Leftover::of(&self.session.state()?);
        let mut decided = Vec::with_capacity(leftover.tasks.len());
        for left in &leftover.tasks {
            let decision = (self.decide)(left);
            decided.push(decision.ok_or_else(|| RunError::Undecided(left.task.clone()))?);
        }
        for event in leftover.end_turns()?.into_iter().chain(end_calls(&leftover.unknown, None)?) {
            self.tasks.also(event);
        }
        for (left, decision) in leftover.tasks.into_iter().zip(decided) {
            for event in end_calls(&left.unknown, Some(&left.task))? {
                self.tasks.also(event);
            }
            self.set(&left.task, status_of(decision), Some("interrupted".to_owned()), None)?;
            self.tell(&RunEvent::Interrupted { left: Box::new(left), decision });
        }
        self.try_again()?;
        // What was cut off between a task's end and its parents'.
        self.tasks.settle()?;
        self.tasks.flush()?;
        Ok(())
    }

    /// Plans tasks again that failed: all of them where that is asked for, and those that have
    /// attempts left, which an earlier run did not come to.
    fn try_again(&mut self) -> Result<(), RunError> {
        let tree = self.tasks.tree();
        let failed = tree.walk(self.options.scope.as_ref()).filter(|(node, _)| {
            node.status == TaskStatus::Failed
                && tree.is_leaf(node.id.as_str())
                && (self.options.retry_failed || node.failures <= self.options.retries)
        });
        let failed: Vec<_> = failed.map(|(node, _)| (node.id.clone(), node.failures)).collect();
        for (task, failures) in failed {
            if self.options.retry_failed {
                self.before.insert(task.clone(), failures);
            }
            self.set(&task, TaskStatus::Planned, Some(AGAIN.to_owned()), None)?;
        }
        Ok(())
    }

    /// The first checkpoint, and those at intervals from then on.
    pub(crate) fn start_checkpoints(&mut self) -> Result<(), RunError> {
        let options = CheckpointerOptions {
            interval: self.options.interval(),
            request: CheckpointRequest {
                lenient: true,
                process: Some(std::process::id()),
                ..CheckpointRequest::default()
            },
        };
        self.checkpoints = Some(Checkpointer::start(self.session.clone(), options)?);
        self.take_checkpoints();
        Ok(())
    }

    fn take_checkpoints(&mut self) {
        let Some((_, events)) = &self.checkpoints else { return };
        let events: Vec<CheckpointerEvent> = events.try_iter().collect();
        for event in events {
            match event {
                CheckpointerEvent::Checkpoint(made) => {
                    if self.first.is_none() {
                        self.first.clone_from(&made.snapshot);
                    }
                    self.last = made.snapshot.clone().or(self.last.take());
                    if let Some(error) = &made.checkpoint.error {
                        self.warn(format!("checkpoint {} holds no files: {error}", made.number));
                    }
                    self.tell(&RunEvent::Checkpoint(made));
                }
                CheckpointerEvent::Failed(error) => self.warn(format!("no checkpoint: {error}")),
                CheckpointerEvent::Started { .. } | CheckpointerEvent::Stopped(_) => {}
            }
        }
    }

    fn checkpoint(&mut self, trigger: Trigger) {
        if let Some((checkpointer, _)) = &self.checkpoints
            && let Err(error) = checkpointer.capture(trigger)
        {
            self.warn(format!("no checkpoint: {error}"));
        }
        self.take_checkpoints();
    }

    /// Goes on until everything is done, or it is to stop.
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
        }
    }

    /// Is it only the time that is waited for?
    fn waits(&self) -> bool {
        self.hold.is_some() && self.may_begin()
    }

    fn may_begin(&self) -> bool {
        // Whoever talked with the agent has seen it end.
        let talked = self.options.interactive && self.started > 0;
        self.stopping() == Urgency::None && !self.failed && !talked
    }

    /// As many tasks as were asked for were begun.
    pub(crate) fn is_enough(&self) -> bool {
        self.options.max_tasks.is_some_and(|most| self.tried.len() as u64 >= most)
    }

    /// Heeds the wish to stop, and the time.
    fn heed(&mut self) {
        if self.options.max_duration.is_some_and(|most| self.elapsed() >= most)
            && self.stopping() < Urgency::Now
        {
            self.time_up = true;
            self.urgency = Urgency::Now;
        }
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
            if urgency >= Urgency::Now && job.asked.is_none() {
                job.asked = Some(Instant::now());
                job.child.signal(Signal::TERM);
            }
            let late = job.asked.is_some_and(|asked| asked.elapsed() >= self.options.grace);
            if (late || urgency == Urgency::Kill) && job.killed.is_none() {
                job.asked.get_or_insert_with(Instant::now);
                job.killed = Some(Instant::now());
                job.child.signal(Signal::KILL);
            }
            if job.killed.is_some_and(|killed| killed.elapsed() >= UNKILLABLE) {
                let text = format!("process {} cannot be ended, and is left alone", job.child.id);
                job.exit = Some(Err(std::io::Error::other(text.clone())));
                job.exited = Some(Instant::now());
                unkillable.push(text);
            }
        }
        for text in unkillable {
            self.warn(text);
        }
        // By the clock on the wall: a machine that slept has waited too.
        if self.hold.is_some_and(|until| self.session.store().now() >= until) {
            self.hold = None;
        }
    }

    /// Begins what is ready, as far as there is room.
    fn begin_ready(&mut self) -> Result<(), RunError> {
        while self.jobs.len() < self.options.jobs.max(1) && self.hold.is_none() {
            if !self.may_begin() {
                return Ok(());
            }
            if self.stale.swap(false, Ordering::Relaxed) {
                self.tasks.refresh()?;
            }
            let enough = self.is_enough();
            let task = {
                let mut ready = self.tasks.tree().ready(self.options.scope.as_ref());
                let ready = ready.find(|node| !enough || self.tried.contains(&node.id));
                ready.map(|node| node.id.clone())
            };
            let Some(task) = task else { return Ok(()) };
            self.begin(&task)?;
        }
        Ok(())
    }

    /// The least number that no job has.
    fn slot(&self) -> usize {
        let taken = |slot: &usize| self.jobs.iter().any(|job| job.slot == *slot);
        (1..).find(|slot| !taken(slot)).unwrap_or(1)
    }

    /// How a task that was interrupted goes on.
    fn way(&self, node: &TaskNode, agent_session: Option<&str>) -> Option<Way> {
        let task = &node.id;
        // Every attempt that did not fail was interrupted: the task is not done.
        if node.attempts <= node.failures {
            return None;
        }
        let inside = agent_session.is_some_and(|session| {
            self.options.adapter.resume(&self.options.command, session).is_some()
        }) && !self.not_inside.contains(task);
        Some(match self.options.way {
            Way::Auto | Way::Inside if inside => Way::Inside,
            Way::Auto | Way::Inside | Way::Outside if self.options.planned => Way::Outside,
            _ => Way::Restart,
        })
    }

    /// Begins a task: it is recorded, and then its agent is started.
    fn begin(&mut self, task: &TaskId) -> Result<(), RunError> {
        let Some(node) = self.tasks.tree().get(task.as_str()).cloned() else { return Ok(()) };
        let turn = self.session.core()?.0.turns.last.next();
        let told = told(&self.session, &node)?;
        let mut text = prompt::task(self.tasks.tree(), task.as_str(), &told);
        let mut command = self.options.command.clone();
        let own = self.agent_sessions.get(task).or(node.agent_session.as_ref()).cloned();
        let mut way = self.way(&node, own.as_deref());
        // Every attempt failed that was not interrupted.
        let failed = node.failures > 0 && way.is_none();
        let mut before = Before { calls: format!("{turn}."), ..Before::default() };
        match way {
            Some(Way::Inside) => {
                let session = own.as_deref().unwrap_or_default();
                command = self.options.adapter.resume(&command, session).unwrap_or(command);
                text = prompt::inside(&text);
                before.used = used(&self.session, task, session)?;
            }
            Some(Way::Outside) => match account(&self.session, task)? {
                Some(account) => text = prompt::outside(&text, &account),
                None => way = Some(Way::Restart),
            },
            Some(Way::Auto | Way::Restart) | None => {}
        }
        if failed && let Some(reason) = last_failure(&self.session, task)? {
            text = prompt::again(&text, &reason);
        }
        before.prompt = self.options.planned.then(|| text.clone());
        let slot = self.slot();
        let lane = (self.options.jobs > 1).then(|| LaneId(format!("job-{slot}")));
        let begin = Begin {
            number: self.next_job,
            task: task.clone(),
            title: node.title.clone(),
            lane: lane.clone(),
            slot,
            turn,
            way,
            attempt: node.attempts + 1,
        };
        self.next_job += 1;
        let status = if failed { TaskStatus::Retrying } else { TaskStatus::Implementing };
        self.set(task, status, None, None)?;
        let agent = command.first().map(|program| program_name(program)).unwrap_or_default();
        let placed = |event: NewEvent| NewEvent {
            turn: Some(turn),
            task: Some(task.clone()),
            lane: lane.clone(),
            ..event
        };
        let start = TurnStart { turn: Some(turn), agent, ..TurnStart::default() };
        self.tasks.also(placed(start.try_into()?));
        if self.options.planned {
            self.tasks.also(placed(Message::user(text.clone()).try_into()?));
        }
        if self.flush()? == Kept::NotAll {
            // Somebody else has said meanwhile where the task stands.
            self.close_turn(&placed, turn, "failed")?;
            self.flush()?;
            return Ok(());
        }
        let child =
            Child::start(self.child_plan(&begin, &command, &text), begin.number, &self.sender);
        let child = match child {
            Ok(child) => child,
            Err(source) => {
                let reason = format!("cannot start the agent: {source}");
                // Of a program that is not there no task is to blame.
                let ours =
                    matches!(source.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied);
                let status = if ours { TaskStatus::Planned } else { TaskStatus::Failed };
                self.close_turn(&placed, turn, "failed")?;
                self.set(task, status, Some(reason.clone()), None)?;
                self.flush()?;
                if !ours {
                    self.failed |= !self.options.continue_on_error;
                    self.warn(format!("task {task}: {reason}"));
                    return Ok(());
                }
                let program = command.first().cloned().unwrap_or_default();
                return Err(RunError::Start { program, source });
            }
        };
        self.started += 1;
        self.tried.insert(task.clone());
        self.tell(&RunEvent::TaskStarted {
            task: task.clone(),
            title: node.title,
            attempt: begin.attempt,
            lane,
            way,
            process: child.id,
        });
        self.jobs.push(Job::new(begin, self.options.adapter, before, child));
        Ok(())
    }

    fn child_plan(&self, begin: &Begin, command: &[String], text: &str) -> ChildPlan {
        let id = begin.task.as_str();
        let (command, held) = if self.options.planned {
            prompt::fill(command, id, &begin.title, text)
        } else {
            (command.to_vec(), true)
        };
        let stdin = if self.options.interactive {
            Input::Terminal
        } else if !held {
            Input::Text(text.to_owned())
        } else if self.options.inherit_stdin {
            Input::Inherited
        } else {
            Input::Nothing
        };
        let session = self.session.id();
        let mut environment = self.options.environment.clone();
        environment.insert("ABIDE_SESSION".to_owned(), session.to_string());
        environment.insert("ABIDE_TASK".to_owned(), id.to_owned());
        environment.insert("ABIDE_RUN".to_owned(), Job::mark(session, begin.turn));
        if let Some(lane) = &begin.lane {
            environment.insert("ABIDE_LANE".to_owned(), lane.to_string());
        }
        ChildPlan { command, directory: self.options.directory.clone(), environment, stdin }
    }

    /// Sets a task's status, with what follows for its parents.
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

    /// Records what is pending. What others have made illegal meanwhile is told and let go: where
    /// they say that a task stands, there it stands.
    fn flush(&mut self) -> Result<Kept, RunError> {
        let mut kept = Kept::All;
        loop {
            match self.tasks.flush() {
                Ok(_) => return Ok(kept),
                // One wish fewer is pending, so that this ends.
                Err(abide::Error::Task(refused)) => {
                    kept = Kept::NotAll;
                    self.warn(refused.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn close_turn(
        &mut self,
        placed: &dyn Fn(NewEvent) -> NewEvent,
        turn: abide::TurnNumber,
        status: &str,
    ) -> Result<(), RunError> {
        let end = TurnEnd { turn: Some(turn), status: status.to_owned(), ..TurnEnd::default() };
        self.tasks.also(placed(end.try_into()?));
        Ok(())
    }

    /// Waits for something to happen, and takes it in.
    fn listen(&mut self) {
        let now = Instant::now();
        let due = self.jobs.iter().filter_map(Job::due).min();
        let pause = due.map_or(PAUSE, |due| due.saturating_duration_since(now).min(PAUSE));
        match self.receiver.recv_timeout(pause) {
            Ok(happening) => self.take(happening),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        // What else is there, but not without end.
        for _ in 0..CHUNKS {
            match self.receiver.try_recv() {
                Ok(happening) => self.take(happening),
                Err(_) => break,
            }
        }
        if now >= self.next_sample {
            self.next_sample = now + SAMPLE;
            for job in &mut self.jobs {
                if let Some(sample) = process_tree(job.child.id) {
                    self.peak_rss = self.peak_rss.max(sample.rss_bytes);
                    job.sampled(sample);
                }
            }
        }
    }

    fn take(&mut self, happening: Happening) {
        let (Happening::Printed { job, .. }
        | Happening::Closed { job, .. }
        | Happening::Exited { job, .. }) = &happening;
        let number = *job;
        let Some(job) = self.jobs.iter_mut().find(|job| job.number == number) else { return };
        match happening {
            Happening::Printed { stream, bytes, .. } => {
                job.printed(stream, &bytes, self.session.store().now(), self.tell);
                let task = job.task.clone();
                (self.tell)(&RunEvent::Output { task, stream, bytes });
            }
            Happening::Closed { stream, .. } => job.closed(stream),
            Happening::Exited { status, at, .. } => {
                job.child.is_gone();
                // It had ended before anybody asked.
                job.asked = job.asked.filter(|asked| *asked < at);
                job.exit = Some(status);
                job.exited = Some(Instant::now());
            }
        }
    }

    /// Records what is due.
    fn record(&mut self) -> Result<(), RunError> {
        let mut events = Vec::new();
        for job in &mut self.jobs {
            events.extend(job.record(self.tell));
        }
        self.append(events)
    }

    fn append(&self, events: Vec<NewEvent>) -> Result<(), RunError> {
        if !events.is_empty() {
            self.session.append_all(events)?.wait().map_err(abide::Error::from)?;
        }
        Ok(())
    }

    /// Ends the jobs whose agents are gone.
    fn end_jobs(&mut self) -> Result<(), RunError> {
        // What they said before they went may have waited meanwhile.
        while self.jobs.iter().any(|job| job.is_over(OUTPUT)) {
            match self.receiver.try_recv() {
                Ok(happening) => self.take(happening),
                Err(_) => break,
            }
        }
        while let Some(at) = self.jobs.iter().position(|job| job.is_over(OUTPUT)) {
            let job = self.jobs.remove(at);
            self.end_job(job)?;
        }
        Ok(())
    }

    fn end_job(&mut self, mut job: Job) -> Result<(), RunError> {
        let events = job.finish(self.tell);
        self.append(events)?;
        if let Some(own) = job.agent_session.take() {
            self.agent_sessions.insert(job.task.clone(), own);
        }
        self.usage.add(&job.usage);
        self.peak_rss = self.peak_rss.max(job.peak_rss);
        let now = self.session.store().now();
        let ending = Ending::of(&job, self.options.adapter, now);
        let ending = self.counted(&job.task, ending);
        self.conclude(&job, ending, now)
    }

    /// What happens too often in a row is a failure.
    fn counted(&mut self, task: &TaskId, ending: Ending) -> Ending {
        let (counts, most) = match &ending {
            Ending::Interrupted(_) if self.stopping() < Urgency::Now => (&mut self.kills, KILLS),
            Ending::Limited(_) => (&mut self.waits, WAITS),
            _ => return ending,
        };
        let count = counts.entry(task.clone()).or_default();
        *count += 1;
        match ending {
            Ending::Interrupted(reason) if *count > most => {
                Ending::Failed(format!("{reason}, {count} times in a row"))
            }
            Ending::Limited(limited) if *count > most => {
                Ending::Failed(format!("{}, {count} times in a row", limited.text))
            }
            ending => ending,
        }
    }

    /// What becomes of a task whose agent ended in the middle of calls: it is decided now, unless the
    /// run ends, when whoever goes on decides.
    fn decided(&mut self, job: &Job) -> Result<Option<Decision>, RunError> {
        if job.calls.is_empty() || self.stopping() >= Urgency::Now {
            return Ok(None);
        }
        let left = Interrupted {
            task: job.task.clone(),
            title: job.title.clone(),
            unknown: job.calls.values().cloned().collect(),
            agent_session: self.agent_sessions.get(&job.task).cloned(),
        };
        let decision = (self.decide)(&left);
        let decision = decision.ok_or_else(|| RunError::Undecided(job.task.clone()))?;
        self.tell(&RunEvent::Interrupted { left: Box::new(left), decision });
        Ok(Some(decision))
    }

    /// Records how a task ended, and what is to be done about it.
    fn conclude(&mut self, job: &Job, ending: Ending, now: Timestamp) -> Result<(), RunError> {
        let task = &job.task;
        let failures = self.tasks.tree().get(task.as_str()).map_or(0, |node| node.failures);
        let failures = failures - self.before.get(task).copied().unwrap_or(0).min(failures);
        let over = matches!(ending, Ending::Done | Ending::Failed(_));
        let decision = if over { Ok(None) } else { self.decided(job) };
        let skipped = matches!(decision, Ok(Some(Decision::Skip)));
        let (status, turn, reason) = match &ending {
            Ending::Done => (TaskStatus::Complete, "done", None),
            Ending::Failed(reason) => (TaskStatus::Failed, "failed", Some(reason.clone())),
            Ending::Interrupted(reason) | Ending::NotResumed(reason) => {
                (TaskStatus::Planned, "interrupted", Some(reason.clone()))
            }
            Ending::Limited(limited) => {
                (TaskStatus::Planned, "limited", Some(limited.text.clone()))
            }
        };
        let status = if skipped { TaskStatus::Blocked } else { status };
        let result = (status == TaskStatus::Complete).then(|| result(job)).flatten();
        // Others may have changed the task meanwhile.
        if self.stale.swap(false, Ordering::Relaxed) {
            self.tasks.refresh()?;
        }
        let set = self.set(task, status, reason.clone(), result);
        let again = matches!(ending, Ending::Failed(_)) && failures < self.options.retries;
        if set.is_ok() && again {
            // In the same write: a run that ends here has not used the attempt up.
            self.set(task, TaskStatus::Planned, Some(AGAIN.to_owned()), None)?;
        }
        if over || matches!(decision, Ok(Some(_))) {
            let calls: Vec<_> = job.calls.values().cloned().collect();
            for event in end_calls(&calls, Some(task))? {
                self.tasks.also(event);
            }
        }
        self.close_turn(&|event| job.placed(event, None), job.turn, turn)?;
        self.flush()?;
        let processes = end_marked(&Job::mark(self.session.id(), job.turn), LEFT_BEHIND);
        if processes > 0 {
            self.tell(&RunEvent::LeftBehind { task: Some(task.clone()), processes });
        }
        if !matches!(ending, Ending::Interrupted(_)) {
            self.kills.remove(task);
        }
        if !matches!(ending, Ending::Limited(_)) {
            self.waits.remove(task);
        }
        let told = match &set {
            Ok(()) => status,
            // Somebody else, perhaps its own agent, said how it stands.
            Err(error) => {
                self.warn(format!("task {task} stays as it is: {error}"));
                self.tasks.tree().get(task.as_str()).map_or(status, |node| node.status)
            }
        };
        self.tell(&RunEvent::TaskEnded {
            task: task.clone(),
            title: job.title.clone(),
            status: told,
            reason,
            took: job.started.elapsed(),
        });
        match ending {
            Ending::Done => self.checkpoint(Trigger::Turn),
            Ending::Failed(_) => {
                self.checkpoint(Trigger::Error);
                self.failed |=
                    told == TaskStatus::Failed && !again && !self.options.continue_on_error;
            }
            Ending::NotResumed(_) => {
                self.not_inside.insert(task.clone());
            }
            Ending::Interrupted(_) => {}
            Ending::Limited(limited) => self.wait_for(task, &limited, now),
        }
        decision.map(|_| ())
    }

    /// Begins nothing before a limit is over.
    fn wait_for(&mut self, task: &TaskId, limited: &abide_wire::agent::Limited, now: Timestamp) {
        let times = self.waits.get(task).copied().unwrap_or(1).saturating_sub(1).min(10);
        let unknown = WAIT.saturating_mul(1 << times).min(LONGEST);
        let length = match limited.resets {
            Some(resets) => {
                let millis = resets.as_millis().saturating_sub(now.as_millis()).max(1000);
                Duration::from_millis(u64::try_from(millis).unwrap_or(1000))
            }
            None => unknown,
        };
        let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        let until = Timestamp::from_millis(now.as_millis().saturating_add(millis));
        self.tell(&RunEvent::Waiting { task: task.clone(), until, why: limited.text.clone() });
        self.hold = self.hold.max(Some(until));
    }

    /// Ends what is still at work, whatever went wrong before. What else goes wrong is a warning.
    pub(crate) fn end_all(&mut self) {
        self.urgency = self.urgency.max(Urgency::Now);
        let patience = Instant::now() + self.options.grace + UNKILLABLE + OUTPUT * 2;
        while !self.jobs.is_empty() && Instant::now() < patience {
            self.heed();
            self.listen();
            if let Err(error) = self.record().and_then(|()| self.end_jobs()) {
                self.warn(error.to_string());
            }
        }
        for job in std::mem::take(&mut self.jobs) {
            job.child.signal(Signal::KILL);
            end_marked(&Job::mark(self.session.id(), job.turn), LEFT_BEHIND);
        }
    }

    /// The last checkpoint, the session's status, and what changed between beginning and end.
    pub(crate) fn close(&mut self, status: SessionStatus, reason: Option<String>) -> Closing {
        let mut closing = Closing::default();
        if let Some((checkpointer, events)) = self.checkpoints.take() {
            let stopped = checkpointer.stop();
            self.checkpoints = None;
            for event in events.try_iter() {
                if let CheckpointerEvent::Checkpoint(made) = event {
                    self.last = made.snapshot.clone().or(self.last.take());
                    self.tell(&RunEvent::Checkpoint(made));
                }
            }
            match stopped {
                Ok(summary) => closing.checkpoints = (&summary).into(),
                Err(error) => self.warn(format!("no last checkpoint: {error}")),
            }
        }
        if let (Some(first), Some(last)) = (&self.first, &self.last)
            && let Ok(objects) = self.session.store().objects()
        {
            closing.difference = Difference::between(&*objects, first, last);
        }
        let fact = StatusChange { status, reason, summary: None };
        let ended = self.session.append(fact).and_then(|ticket| Ok(ticket.wait()?));
        if let Err(error) = ended {
            self.warn(format!("the session's status was not recorded: {error}"));
        }
        closing
    }

    /// The adapter by which output is read.
    pub(crate) const fn adapter(&self) -> AgentKind {
        self.options.adapter
    }
}

/// Ends all processes that are marked so, also those that they start meanwhile; says how many.
fn end_marked(mark: &str, grace: Duration) -> usize {
    let mut ended = 0;
    for _ in 0..5 {
        let left = processes_marked(mark);
        if left.is_empty() {
            break;
        }
        ended += end_processes(&left, grace);
    }
    ended
}

/// What was done at the very end.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    pub(crate) checkpoints: crate::summary::CheckpointTotals,
    pub(crate) difference: Option<Difference>,
}

/// The name of a program without its directory.
pub(crate) fn program_name(program: &str) -> String {
    std::path::Path::new(program)
        .file_name()
        .map_or_else(|| program.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Does a child's event change tasks?
pub(crate) fn changes_tasks(event: &NewEvent) -> bool {
    [Kind::TASK_CREATED, Kind::TASK_CHANGED, Kind::TASK_STATUS].contains(&event.kind)
}
