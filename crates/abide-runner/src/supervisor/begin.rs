//! Starts tasks: a task is recorded first, then its agent is started.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use abide::{
    LaneId, Message, NewEvent, TaskStatus, TurnStart,
    process::RUN_VARIABLE,
    tasks::{TaskId, TaskNode},
};
use abide_agents::PriorSession;

use super::{Supervisor, WishOutcome};
use crate::account::{account, last_reason, told, used};
use crate::child::{AgentChild, ChildInput, ChildPlan};
use crate::event::RunEvent;
use crate::job::{Job, JobStart};
use crate::options::ResumeMode;
use crate::{RunError, prompt};

impl Supervisor<'_> {
    /// Starts tasks that are ready, as far as there is room.
    pub(super) fn begin_ready(&mut self) -> Result<(), RunError> {
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

    /// The lowest free slot number.
    fn slot(&self) -> usize {
        let taken = |slot: &usize| self.jobs.iter().any(|job| job.slot == *slot);
        (1..).find(|slot| !taken(slot)).unwrap_or(1)
    }

    /// How an interrupted task is resumed; `None` if it was not interrupted.
    fn way(&self, node: &TaskNode, agent_session: Option<&str>) -> Option<ResumeMode> {
        let task = &node.id;
        // An attempt that did not fail was interrupted, since the task is not done.
        if node.attempts <= node.failures {
            return None;
        }
        let inside = agent_session.is_some_and(|session| {
            self.options.adapter.resume(&self.options.command, session).is_some()
        }) && !self.not_inside.contains(task);
        Some(match self.options.way {
            ResumeMode::Auto | ResumeMode::Inside if inside => ResumeMode::Inside,
            ResumeMode::Auto | ResumeMode::Inside | ResumeMode::Outside if self.options.planned => {
                ResumeMode::Outside
            }
            _ => ResumeMode::Restart,
        })
    }

    /// Records a task as begun, then starts its agent.
    fn begin(&mut self, task: &TaskId) -> Result<(), RunError> {
        let Some(node) = self.tasks.tree().get(task.as_str()).cloned() else { return Ok(()) };
        let turn = self.session.core()?.turns.last.next();
        let told = told(&self.session, &node)?;
        let mut text = prompt::task(self.tasks.tree(), task.as_str(), &told);
        let mut command = self.options.command.clone();
        let own = self.agent_sessions.get(task).or(node.agent_session.as_ref()).cloned();
        let mut way = self.way(&node, own.as_deref());
        // No attempt was interrupted: all of them failed.
        let failed = node.failures > 0 && way.is_none();
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
        if failed && let Some(reason) = last_reason(&self.session, task, TaskStatus::Failed)? {
            text = prompt::again(&text, &reason);
        }
        before.prompt = self.options.planned.then(|| text.clone());
        let slot = self.slot();
        let lane = (self.options.jobs > 1).then(|| LaneId(format!("job-{slot}")));
        let begin = JobStart {
            number: self.next_job,
            task: task.clone(),
            title: node.title.clone(),
            lane: lane.clone(),
            slot,
            turn,
            way,
            attempt: node.attempts + 1,
            result_before: node.result,
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
        if self.flush()? == WishOutcome::NotAll {
            // Another process has changed the task's status meanwhile.
            self.close_turn(&placed, turn, "failed")?;
            self.flush()?;
            return Ok(());
        }
        let child =
            AgentChild::start(self.child_plan(&begin, &command, &text), begin.number, &self.sender);
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

    fn child_plan(&self, begin: &JobStart, command: &[String], text: &str) -> ChildPlan {
        let id = begin.task.as_str();
        let (command, held) = if self.options.planned {
            prompt::fill(command, id, &begin.title, text)
        } else {
            (command.to_vec(), true)
        };
        let stdin = if self.options.interactive {
            ChildInput::Terminal
        } else if !held {
            ChildInput::Text(text.to_owned())
        } else if self.options.inherit_stdin {
            ChildInput::Inherited
        } else {
            ChildInput::Nothing
        };
        let session = self.session.id();
        let mut environment = self.options.environment.clone();
        environment.insert("ABIDE_SESSION".to_owned(), session.to_string());
        environment.insert("ABIDE_TASK".to_owned(), id.to_owned());
        environment.insert(RUN_VARIABLE.to_owned(), Job::mark(session, begin.turn));
        if let Some(lane) = &begin.lane {
            environment.insert("ABIDE_LANE".to_owned(), lane.to_string());
        }
        ChildPlan { command, directory: self.options.directory.clone(), environment, stdin }
    }
}

/// The name of a program without its directory.
pub(crate) fn program_name(program: &str) -> String {
    std::path::Path::new(program)
        .file_name()
        .map_or_else(|| program.to_owned(), |name| name.to_string_lossy().into_owned())
}
