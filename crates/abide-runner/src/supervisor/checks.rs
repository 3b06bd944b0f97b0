//! Checks: when an agent says that its task is done, the task's check decides.
//!
//! That the agent is done is durable before the check starts, so after a death in between the next
//! run goes on with the check and not with the agent.

use std::collections::BTreeMap;
use std::process::ExitStatus;

use abide::{
    LaneId, NewEvent, TaskStatus, Timestamp,
    event::TurnNumber,
    secrets::has_mark,
    tasks::{TaskId, TaskNode, UNCHECKED},
};
use abide_agents::PriorSession;

use super::{LEFT_BEHIND, Supervisor, WishOutcome};
use crate::RunError;
use crate::account::last_reason;
use crate::attempt::DONE;
use crate::child::{AgentChild, ChildInput, ChildPlan};
use crate::job::{Job, JobStart};
use crate::job_ending::{AgentWord, JobEnding};
use crate::leftover_work::{LeftoverWork, end_calls};
use crate::marked_processes::end_marked;
use crate::run_event::RunEvent;
use crate::stop::StopUrgency;
use crate::task_check::{TaskCheck, WasAsked};

/// How often a task with a check is retried, if nothing is said.
const RETRIES: u64 = 2;

/// The check of a task.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FoundCheck {
    None,
    /// This command.
    Command(String),
    /// The task itself names this command, and the user has not accepted it.
    NotAccepted(String),
    /// A secret stood in it, which was not recorded.
    HadSecret(String),
}

impl FoundCheck {
    fn of(command: String, accepted: bool) -> Self {
        if has_mark(&command) {
            Self::HadSecret(command)
        } else if accepted {
            Self::Command(command)
        } else {
            Self::NotAccepted(command)
        }
    }

    pub(super) fn command(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Command(command) | Self::NotAccepted(command) | Self::HadSecret(command) => {
                Some(command)
            }
        }
    }
}

impl Supervisor<'_> {
    /// The check of a task: its own, that of the nearest task above it that has one, or that of the
    /// run.
    pub(super) fn check_of(&self, task: &TaskId) -> Result<FoundCheck, RunError> {
        for node in self.tasks.tree().ancestry(task.as_str()) {
            if let Some(command) = self.session.view().check_of(node)? {
                let accepted = self.options.accepted_checks.contains(&command);
                return Ok(FoundCheck::of(command, accepted));
            }
        }
        let check = self.options.check.clone();
        Ok(check.map_or(FoundCheck::None, |command| FoundCheck::of(command, true)))
    }

    /// How often a failed task is retried. An interactive run starts one agent.
    pub(super) fn retries_with_check(&self, check: Option<&str>) -> u64 {
        if self.options.interactive {
            return 0;
        }
        self.options.retries.unwrap_or(if check.is_some() { RETRIES } else { 0 })
    }

    /// Records that the agent is done, and starts the check.
    pub(super) fn begin_check(
        &mut self,
        mut job: Job,
        task: &TaskId,
        now: Timestamp,
    ) -> Result<(), RunError> {
        let done = self.tasks.tree().get(task.as_str()).is_some_and(TaskNode::is_done);
        // A task that its agent has completed has an open turn until it is checked: that is how the
        // next run knows.
        if !done {
            self.close_turn(&|event| job.placed(event, None), job.turn, DONE)?;
            job.turn_ended = true;
        }
        let calls: Vec<_> = std::mem::take(&mut job.calls).into_values().collect();
        for event in end_calls(&calls, Some(task))? {
            self.tasks.also(event);
        }
        self.flush()?;
        let processes = end_marked(&Job::mark(self.session.id(), job.turn), LEFT_BEHIND);
        if processes > 0 {
            self.tell(&RunEvent::LeftBehind { task: Some(task.clone()), processes });
        }
        let check = TaskCheck::new(job.check.clone().unwrap_or_default());
        if self.stopping() >= StopUrgency::Now {
            job.checking = Some(check);
            let ending = JobEnding::Interrupted("its check was not started".to_owned());
            return self.conclude_check(&job, task, ending, None, now);
        }
        let number = self.next_job;
        self.next_job += 1;
        match self.start_check(task, job.turn, job.lane.as_ref(), &check, number) {
            Ok(child) => {
                job.begin_check(number, check, child);
                self.jobs.push(job);
                Ok(())
            }
            Err(source) => {
                job.checking = Some(check);
                let ending = JobEnding::Failed(format!("cannot start the check: {source}"));
                self.conclude_check(&job, task, ending, None, now)
            }
        }
    }

    /// Starts the check of a task whose agent was done in an earlier run.
    pub(super) fn begin_unchecked(
        &mut self,
        node: &TaskNode,
        turn: TurnNumber,
        command: &str,
    ) -> Result<(), RunError> {
        let task = &node.id;
        let slot = self.slot();
        let lane = self.lane(slot);
        self.set(task, TaskStatus::Implementing, None, None)?;
        if self.flush()? == WishOutcome::NotAll {
            // Another process has changed the task's status meanwhile.
            return Ok(());
        }
        self.tried.insert(task.clone());
        let number = self.next_job;
        self.next_job += 1;
        let check = TaskCheck::new(command.to_owned());
        match self.start_check(task, turn, lane.as_ref(), &check, number) {
            Ok(child) => {
                let begin = JobStart {
                    number,
                    task: Some(task.clone()),
                    title: node.title.clone(),
                    lane,
                    slot,
                    turn,
                    way: None,
                    attempt: node.attempts + 1,
                    // A result that is there is the agent's.
                    result_before: None,
                    check: Some(command.to_owned()),
                };
                let before = PriorSession::default();
                let mut job =
                    Job::new(begin, self.options.adapter, before, child, self.session.redactor());
                job.checking = Some(check);
                job.turn_ended = true;
                self.jobs.push(job);
            }
            Err(source) => {
                let reason = format!("cannot start the check: {source}");
                self.warn(format!("task {task}: {reason}"));
                self.set(task, TaskStatus::Failed, Some(reason), None)?;
                self.flush()?;
                self.failed |= !self.options.continue_on_error;
            }
        }
        Ok(())
    }

    fn start_check(
        &mut self,
        task: &TaskId,
        turn: TurnNumber,
        lane: Option<&LaneId>,
        check: &TaskCheck,
        number: u64,
    ) -> std::io::Result<AgentChild> {
        let plan = ChildPlan {
            command: TaskCheck::program(&check.command),
            directory: self.options.directory.clone(),
            environment: self.environment(Some(task), turn, lane),
            stdin: ChildInput::Nothing,
        };
        let child = AgentChild::start(plan, number, &self.sender)?;
        let (task, command, process) = (task.clone(), check.command.clone(), child.id);
        self.tell(&RunEvent::CheckStarted { task, command, process });
        Ok(child)
    }

    /// Concludes a task whose check has ended.
    pub(super) fn end_check(
        &mut self,
        job: &mut Job,
        task: &TaskId,
        word: Option<AgentWord>,
        now: Timestamp,
    ) -> Result<(), RunError> {
        let Some(check) = &mut job.checking else { return Ok(()) };
        let exit = job.exit.as_ref().and_then(|exit| exit.as_ref().ok());
        let asked = if job.asked.is_some() { WasAsked::Yes } else { WasAsked::No };
        let ending = check.ending(exit, asked);
        let ended = RunEvent::CheckEnded {
            task: task.clone(),
            command: check.command.clone(),
            ok: ending == JobEnding::Done,
            exit: exit.and_then(ExitStatus::code),
            took: check.took(),
        };
        let artifact = check.artifact(task, exit);
        let interrupted = matches!(ending, JobEnding::Interrupted(_));
        let artifact =
            if interrupted { None } else { Some(job.placed(artifact.try_into()?, None)) };
        self.tell(&ended);
        // What somebody else says of the task meanwhile stands, but that it is complete.
        match word.filter(|word| word.status != TaskStatus::Complete) {
            Some(word) => {
                artifact.into_iter().for_each(|event| self.tasks.also(event));
                self.conclude(job, task, word.ending(), Some(word), now)
            }
            None => self.conclude_check(job, task, ending, artifact, now),
        }
    }

    /// Records how a check ended, and concludes its task by it. A task that its agent has completed
    /// is opened again if the check has not passed.
    fn conclude_check(
        &mut self,
        job: &Job,
        task: &TaskId,
        ending: JobEnding,
        artifact: Option<NewEvent>,
        now: Timestamp,
    ) -> Result<(), RunError> {
        let ending = self.concluded_ending(Some(task), ending);
        let node = self.tasks.tree().get(task.as_str());
        let complete = node.is_some_and(|node| node.status == TaskStatus::Complete);
        let word = AgentWord { status: TaskStatus::Complete, reason: None };
        let word = Some(word).filter(|_| complete && ending == JobEnding::Done);
        if complete && word.is_none() {
            self.reopen_for_check(task)?;
        }
        artifact.into_iter().for_each(|event| self.tasks.also(event));
        self.conclude(job, task, ending, word, now)
    }

    /// Plans a complete task again.
    fn reopen_for_check(&mut self, task: &TaskId) -> Result<(), RunError> {
        let reason = || Some(UNCHECKED.to_owned());
        self.set(task, TaskStatus::Obsolete, reason(), None)?;
        self.set(task, TaskStatus::Planned, reason(), None)
    }

    /// Opens tasks again that their agents completed in an earlier run, which died before they were
    /// checked. Returns them by their turns, which are open.
    pub(super) fn reopen_unchecked(
        &mut self,
        leftover: &LeftoverWork,
    ) -> Result<BTreeMap<TurnNumber, TaskId>, RunError> {
        let mut unchecked = BTreeMap::new();
        for (turn, task) in leftover.turn_tasks(self.session.view())? {
            let node = self.tasks.tree().get(task.as_str());
            let complete = match node.map(|node| node.status) {
                Some(TaskStatus::Complete) => true,
                // A run died while it opened the task again.
                Some(status @ (TaskStatus::Obsolete | TaskStatus::Planned)) => {
                    last_reason(&self.session, &task, status)?.as_deref() == Some(UNCHECKED)
                }
                _ => false,
            };
            if complete && self.check_of(&task)? != FoundCheck::None {
                unchecked.insert(turn, task);
            }
        }
        for task in unchecked.values() {
            self.reopen_for_check(task)?;
        }
        Ok(unchecked)
    }
}
