//! Starts tasks: a task is recorded first, then its agent is started.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use abide::{
    LaneId, Message, NewEvent, TaskStatus, TurnStart,
    event::TurnNumber,
    process::RUN_VARIABLE,
    tasks::{TaskId, TaskNode},
};
use abide_agents::{AgentKind, PriorSession};

use super::checks::FoundCheck;
use super::{Supervisor, WishOutcome};
use crate::account::{account, told, used};
use crate::agent_stdin::{AgentStdin, StdinNeed};
use crate::attempt::LastAttempt;
use crate::child::{AgentChild, ChildInput, ChildPlan};
use crate::job::{Job, JobStart};
use crate::run_event::RunEvent;
use crate::run_options::{ResumeMode, RunGoal};
use crate::{RunError, prompt};

impl Supervisor<'_> {
    /// Starts tasks that are ready, as far as there is room.
    pub(super) fn begin_ready(&mut self) -> Result<(), RunError> {
        if self.options.goal == RunGoal::Conversation {
            return self.begin_conversation();
        }
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
            // An agent may say itself that its task is complete; nothing builds on it before its
            // check has said so too.
            if self.jobs.iter().any(|job| job.check.is_some() && self.is_done(job.task.as_ref())) {
                return Ok(());
            }
            self.begin(&task)?;
        }
        Ok(())
    }

    /// The lowest free slot number.
    pub(super) fn slot(&self) -> usize {
        let taken = |slot: &usize| self.jobs.iter().any(|job| job.slot == *slot);
        (1..).find(|slot| !taken(slot)).unwrap_or(1)
    }

    /// The lane of a job in this slot.
    pub(super) fn lane(&self, slot: usize) -> Option<LaneId> {
        (self.options.jobs > 1).then(|| LaneId(format!("job-{slot}")))
    }

    fn is_done(&self, task: Option<&TaskId>) -> bool {
        let node = task.and_then(|task| self.tasks.tree().get(task.as_str()));
        node.is_some_and(TaskNode::is_done)
    }

    /// How an interrupted task is resumed.
    fn way(&self, task: &TaskId, agent_session: Option<&str>) -> ResumeMode {
        let inside = agent_session.is_some_and(|session| {
            self.options.adapter.resume(&self.options.command, session).is_some()
        }) && !self.not_inside.contains(&Some(task.clone()));
        match self.options.way {
            ResumeMode::Auto | ResumeMode::Inside if inside => ResumeMode::Inside,
            ResumeMode::Auto | ResumeMode::Inside | ResumeMode::Outside
                if self.options.goal == RunGoal::Tasks =>
            {
                ResumeMode::Outside
            }
            _ => ResumeMode::Restart,
        }
    }

    /// Records a task as begun, then starts its agent.
    fn begin(&mut self, task: &TaskId) -> Result<(), RunError> {
        let Some(node) = self.tasks.tree().get(task.as_str()).cloned() else { return Ok(()) };
        let (check, refused) = match self.check_of(task)? {
            FoundCheck::None => (None, None),
            FoundCheck::Command(command) => (Some(command), None),
            FoundCheck::NotAccepted(command) => {
                (None, Some(format!("its check was not accepted: {command}")))
            }
            FoundCheck::HadSecret(command) => {
                let why = "its check had a secret in it, which was not recorded";
                (None, Some(format!("{why}: {command}")))
            }
        };
        if let Some(reason) = refused {
            self.warn(format!("task {task} is set aside: {reason}"));
            self.set(task, TaskStatus::Blocked, Some(reason), None)?;
            return self.flush().map(|_| ());
        }
        let last = LastAttempt::of(&self.session, &node)?;
        if let (Some(LastAttempt::Unchecked(turn)), Some(check)) = (&last, &check) {
            return self.begin_unchecked(&node, *turn, check);
        }
        let turn = self.session.core()?.turns.last.next();
        let told = told(&self.session, &node, check.as_deref())?;
        let mut text = prompt::task(self.tasks.tree(), task.as_str(), &told);
        let mut command = self.options.command.clone();
        let own = self.agent_sessions.get(task).or(node.agent_session.as_ref()).cloned();
        let failed = matches!(last, Some(LastAttempt::Failed { .. }));
        let interrupted = last.is_some() && !failed;
        let mut way = interrupted.then(|| self.way(task, own.as_deref()));
        let mut before = PriorSession { calls: format!("{turn}."), ..PriorSession::default() };
        match way {
            Some(ResumeMode::Inside) => {
                let session = own.as_deref().unwrap_or_default();
                command = self.options.adapter.resume(&command, session).unwrap_or(command);
                text = prompt::inside(&text);
                before.used = used(&self.session, task, session)?;
            }
            Some(ResumeMode::Outside) => match account(&self.session, task)? {
                Some(account) => text = prompt::outside(&text, &account),
                None => way = Some(ResumeMode::Restart),
            },
            Some(ResumeMode::Auto | ResumeMode::Restart) | None => {}
        }
        if let Some(LastAttempt::Failed { reason: Some(reason), output }) = &last {
            text = prompt::again(&text, reason, output.as_deref());
        }
        let planned = self.options.goal == RunGoal::Tasks;
        // The record has the conversation already: only the task is added to it.
        let said = if planned { Some(text.clone()) } else { self.prompt_of(&command) };
        if let Some(primer) = &self.primer
            && way != Some(ResumeMode::Inside)
        {
            text = prompt::primed(primer, &text);
        }
        before.prompt = if planned { Some(text.clone()) } else { said.clone() };
        let slot = self.slot();
        let lane = self.lane(slot);
        let begin = JobStart {
            number: self.next_job,
            task: Some(task.clone()),
            title: node.title.clone(),
            lane: lane.clone(),
            slot,
            turn,
            way,
            attempt: node.attempts + 1,
            result_before: node.result,
            check,
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
        if let Some(said) = said {
            self.tasks.also(placed(Message::user(said).try_into()?));
        }
        if self.flush()? == WishOutcome::NotAll {
            // Another process has changed the task's status meanwhile.
            self.close_turn(&placed, turn, "failed")?;
            self.flush()?;
            return Ok(());
        }
        let input = if planned && !prompt::is_held(&command) {
            ChildInput::Text(text.clone())
        } else {
            self.free_input()
        };
        let command = if planned {
            prompt::fill(&command, task.as_str(), &begin.title, &text)
        } else {
            command
        };
        let program = command.first().cloned().unwrap_or_default();
        let plan = self.child_plan(&begin, command, input);
        let child = AgentChild::start(plan, begin.number, &self.sender);
        let child = match child {
            Ok(child) => child,
            Err(source) => {
                let reason = format!("cannot start the agent: {source}");
                // If the program does not exist, the task is not to blame.
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
        let redactor = self.session.redactor();
        self.jobs.push(Job::new(begin, self.options.adapter, before, child, redactor));
        Ok(())
    }

    /// The prompt that a command of a known agent has, in its arguments or on stdin.
    fn prompt_of(&self, command: &[String]) -> Option<String> {
        let agent = AgentKind::started_by(command)?;
        let read = agent.prompt_input(command).zip(self.input.text());
        let own = || agent.prompt_slot(command)?.own().map(str::to_owned);
        let prompt = read.map(|(input, text)| input.prompt(text)).or_else(own);
        prompt.filter(|prompt| !prompt.trim().is_empty())
    }

    /// Reads the stdin of this process, if the agent reads its prompt there.
    pub(super) fn read_input(&mut self) -> Result<(), RunError> {
        if self.options.interactive || !self.options.inherit_stdin {
            return Ok(());
        }
        let command = &self.options.command;
        // What only prints something, or speaks a protocol on stdin, takes no prompt there.
        let promptless = ["--help", "-h", "--version", "--acp", "--experimental-acp"];
        if command.iter().skip(1).any(|word| promptless.contains(&word.as_str())) {
            return Ok(());
        }
        let input = AgentKind::started_by(command).and_then(|agent| agent.prompt_input(command));
        let Some(input) = input else { return Ok(()) };
        // Who goes on with a conversation is told that.
        let needed = input.is_alone() && self.options.goal == RunGoal::Command;
        let need = if needed { StdinNeed::Needed } else { StdinNeed::Welcome };
        // An agent is not started with half of what it was told.
        let redactor = self.session.redactor();
        self.input = AgentStdin::read(need, self.stop, redactor).map_err(RunError::Stdin)?;
        if matches!(self.input, AgentStdin::Late) {
            self.warn(
                "nothing came on stdin within 3 s: the agent is started without it".to_owned(),
            );
        }
        Ok(())
    }

    /// The stdin of an agent that is given no other one.
    pub(super) fn free_input(&self) -> ChildInput {
        match &self.input {
            _ if self.options.interactive => ChildInput::Terminal,
            AgentStdin::Read { file, .. } => ChildInput::File(file.clone()),
            AgentStdin::Unread if self.options.inherit_stdin => ChildInput::Inherited,
            AgentStdin::Unread | AgentStdin::Empty | AgentStdin::Late => ChildInput::Nothing,
        }
    }

    pub(super) fn child_plan(
        &self,
        begin: &JobStart,
        command: Vec<String>,
        stdin: ChildInput,
    ) -> ChildPlan {
        let environment = self.environment(begin.task.as_ref(), begin.turn, begin.lane.as_ref());
        ChildPlan { command, directory: self.options.directory.clone(), environment, stdin }
    }

    /// The variables of all processes that work on a task, or on the conversation.
    pub(super) fn environment(
        &self,
        task: Option<&TaskId>,
        turn: TurnNumber,
        lane: Option<&LaneId>,
    ) -> BTreeMap<String, String> {
        let session = self.session.id();
        let mut environment = self.options.environment.clone();
        environment.insert("ABIDE_SESSION".to_owned(), session.to_string());
        if let Some(task) = task {
            environment.insert("ABIDE_TASK".to_owned(), task.to_string());
        }
        environment.insert(RUN_VARIABLE.to_owned(), Job::mark(session, turn));
        if let Some(lane) = lane {
            environment.insert("ABIDE_LANE".to_owned(), lane.to_string());
        }
        environment
    }
}

/// The name of a program without its directory.
pub(crate) fn program_name(program: &str) -> String {
    std::path::Path::new(program)
        .file_name()
        .map_or_else(|| program.to_owned(), |name| name.to_string_lossy().into_owned())
}
